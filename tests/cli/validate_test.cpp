#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

using namespace lockstep;
using test::CommandOutcome;

namespace {

const std::string kRoot = LOCKSTEP_SOURCE_DIR;
const std::string kTraining = kRoot + "/validation/training.csv";
const std::string kCollectives = kRoot + "/validation/collectives.csv";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The text with each run of white space as one space, as Markdown reads it.
std::string reflowed(const std::string& text) {
  std::istringstream words(text);
  std::string result, word;
  while (words >> word) result += (result.empty() ? "" : " ") + word;
  return result;
}

/// The lines of a Markdown table that begin "| name |".
std::string table_row(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n| " + name + " |");
  if (at == std::string::npos) return "";
  return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

/// The cells of such a line; the first is the empty text before it.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream text(row);
  for (std::string cell; std::getline(text, cell, '|');) cells.push_back(reflowed(cell));
  return cells;
}

/// The section of docs/validation.md on families that were held back.
std::string families_of(const std::string& document) {
  const std::size_t begin = document.find("\n## Families held back\n");
  REQUIRE(begin != std::string::npos);
  return document.substr(begin, document.find("\n## ", begin + 1) - begin);
}

/// "14.7 %" as "15 %".
std::string rounded(const std::string& percent) {
  return std::to_string(std::lround(std::stod(percent))) + " %";
}

CommandOutcome validate_text(const std::string& csv, std::vector<std::string> more = {}) {
  const TemporaryFolder folder;
  std::ofstream(folder / "rows.csv") << csv;
  more.insert(more.begin(), {"validate", folder / "rows.csv", "--quiet"});
  return test::lockstep(more);
}

}  // namespace

TEST_CASE("the figures that docs/validation.md prints are those of the command", "[cli]") {
  const std::string document = text_of(kRoot + "/docs/validation.md");
  for (const char* source : {"llmc", "tr3m", "simumax", "zb-t12", "mlm-golden", "vocabpp"}) {
    const CommandOutcome run =
        test::lockstep({"validate", kTraining, "--source", source, "--markdown", "--quiet"});
    REQUIRE(run.exit_code == 0);
    INFO("docs/validation.md is old: scripts/validation-table writes it");
    CHECK(table_row(document, source) == table_row(run.out, source));
    CHECK(!table_row(document, source).empty());
  }
  const CommandOutcome collectives =
      test::lockstep({"validate", kCollectives, "--markdown", "--quiet"});
  CHECK_THAT(document, ContainsSubstring(collectives.out));
}

TEST_CASE("the README quotes the whole claim of docs/validation.md", "[cli]") {
  const std::string document = text_of(kRoot + "/docs/validation.md");
  const std::size_t at = document.find(" published runs simulated: ");
  REQUIRE(at != std::string::npos);
  const std::size_t begin = document.rfind('\n', at) + 1;
  const std::string claim = document.substr(begin, document.find('\n', at) - begin - 1);
  const std::string readme = reflowed(text_of(kRoot + "/README.md"));
  CHECK_THAT(readme, ContainsSubstring(claim));

  // Its table has the median and the 90th percentile of the row of all sources, and of all families
  // held back, before and after one run of each.
  const auto all = cells_of(table_row(document, "all"));
  REQUIRE(all.size() == 10);
  CHECK_THAT(readme, ContainsSubstring("validate validation/training.csv`) | " + all[4] + " | " +
                                       all[5] + " |"));
  const auto held_back = cells_of(table_row(families_of(document), "all"));
  REQUIRE(held_back.size() == 9);
  CHECK_THAT(readme, ContainsSubstring("| " + held_back[2] + " runs of "));
  CHECK_THAT(readme, ContainsSubstring("`scripts/held-back`) | " + rounded(held_back[3]) + " | " +
                                       rounded(held_back[4]) + " |"));
  CHECK_THAT(readme, ContainsSubstring("factor | " + rounded(held_back[7]) + " | " +
                                       rounded(held_back[8]) + " |"));
}

TEST_CASE("the table of mechanisms begins with the errors that nothing left out has", "[cli]") {
  const std::string document = text_of(kRoot + "/docs/validation.md");
  const auto all = cells_of(table_row(document, "all"));
  const auto whole = cells_of(table_row(document, "(nothing left out)"));
  REQUIRE(all.size() == 10);
  REQUIRE(whole.size() == 7);
  CHECK(std::vector(all.begin() + 3, all.begin() + 8) ==
        std::vector(whole.begin() + 2, whole.end()));
}

TEST_CASE("the families held back have the errors that docs/validation.md prints", "[cli]") {
  const std::string table = families_of(text_of(kRoot + "/docs/validation.md"));
  for (const char* family : {"ds-azure", "xtuner", "fp-ds", "nemo-launcher"}) {
    const auto printed = cells_of(table_row(table, family));
    REQUIRE(printed.size() == 9);
    const CommandOutcome run = test::lockstep({"validate", kRoot + "/validation/unseen.csv",
                                               "--source", family, "--markdown", "--quiet"});
    REQUIRE(run.exit_code == 0);
    const auto now = cells_of(table_row(run.out, family));
    INFO("docs/validation.md is old: scripts/held-back prints its table");
    CHECK(std::vector(printed.begin() + 2, printed.begin() + 7) ==
          std::vector(now.begin() + 3, now.begin() + 8));
  }
}

TEST_CASE("rows without the columns of today are read as they are", "[cli]") {
  // A rack's GPUs have 400 Gb/s each, and an H800 job of Megatron Core has experts.
  const CommandOutcome run = validate_text(
      "id,source,model,hidden,layers,heads,kv_heads,ffn_hidden,vocab,seq,hw,gpus,gpus_per_node,"
      "interconnect,tp,pp,dp,fsdp_or_zero,sp,recompute,micro_batch,global_batch_seqs,precision,"
      "iter_time_s,notes\n"
      "new-1,a page,Llama-3 8B,4096,32,32,8,14336,128256,8192,GB200,144,4,400 Gbit/s per "
      "GPU,2,1,72,,,"
      "none,1,144,bf16,0.5,\"Megatron-Core, distributed optimizer\"\n",
      {"--scenario"});
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("preset = \"megatron-core\""));
  CHECK_THAT(run.out, ContainsSubstring("devices_per_node = 72"));
  CHECK_THAT(run.out, ContainsSubstring("enable_sequence_parallel = true"));
  CHECK_THAT(run.out, ContainsSubstring("zero_stage = 1"));
}

TEST_CASE("validate prints tables, JSON, a diagram and scenarios", "[cli]") {
  const TemporaryFolder folder;
  const CommandOutcome text = test::lockstep({"validate", kTraining, "--source", "llm?", "--rows",
                                              "--svg", folder / "llmc.svg", "--quiet"});
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("llmc-001"));
  CHECK_THAT(text.out, ContainsSubstring("within 10 %"));
  CHECK_THAT(text_of(folder / "llmc.svg"), ContainsSubstring("llmc-002: GPT-2 124M"));

  const CommandOutcome json =
      test::lockstep({"validate", kTraining, "--row", "llmc-001", "--json", "--rows", "--quiet"});
  REQUIRE(json.exit_code == 0);
  const auto parsed = nlohmann::json::parse(json.out);
  CHECK(parsed["all"]["rows"] == 1);
  CHECK(parsed["rows"][0]["measured_s"] == 2.749);

  // The scenario of a row runs by itself, and takes the time that validate says.
  const CommandOutcome scenario =
      test::lockstep({"validate", kTraining, "--row", "llmc-001", "--scenario"});
  std::ofstream(folder / "row.toml") << scenario.out;
  const CommandOutcome run = test::lockstep({"run", folder / "row.toml", "--json", "--quiet"});
  REQUIRE(run.exit_code == 0);
  CHECK(nlohmann::json::parse(run.out)["step_time_s"] == parsed["rows"][0]["simulated_s"]);

  const CommandOutcome faster =
      test::lockstep({"validate", kTraining, "--row", "llmc-001", "--json", "--rows", "--quiet",
                      "--set", "what_if.ideal_network=true"});
  CHECK(nlohmann::json::parse(faster.out)["rows"][0]["simulated_s"] <
        parsed["rows"][0]["simulated_s"]);
}

TEST_CASE("validate says what is wrong with its file and what it was asked for", "[cli]") {
  const CommandOutcome misspelt = test::lockstep({"validate", kTraining, "--row", "llmc-01"});
  CHECK(misspelt.exit_code == 2);
  CHECK_THAT(misspelt.err, ContainsSubstring("did you mean 'llmc-001'?"));
  CHECK_THAT(test::lockstep({"validate", kTraining, "--source", "mosiac"}).err,
             ContainsSubstring("did you mean 'mosaic'?"));
  CHECK_THAT(test::lockstep({"validate", kRoot + "/none.csv"}).err, ContainsSubstring("none.csv"));
  CHECK_THAT(test::lockstep({"validate", kCollectives, "--row", "x"}).err,
             ContainsSubstring("--row is of training runs"));

  const CommandOutcome short_row = validate_text("id,hw\nx\n");
  CHECK(short_row.exit_code == 2);
  CHECK_THAT(short_row.err, ContainsSubstring("rows.csv:2:1: the row has 1 fields"));
  CHECK_THAT(validate_text("id,hw\nx,y\n").err,
             ContainsSubstring("rows.csv:1:1: there is no column 'source'"));
}

TEST_CASE("collective prints time, bandwidths, algorithm, protocol and link", "[cli]") {
  const CommandOutcome one = test::lockstep({"collective", "--kind", "all_reduce", "--bytes",
                                             "4GiB", "--cluster", "h100", "--nodes", "4"});
  REQUIRE(one.exit_code == 0);
  CHECK_THAT(one.out, ContainsSubstring("all_reduce of 32 ranks on 4 nodes"));
  CHECK_THAT(one.out, ContainsSubstring("as NCCL chooses"));
  CHECK_THAT(one.out, ContainsSubstring("4294967296"));
  CHECK_THAT(one.out, ContainsSubstring("Simple"));
  const CommandOutcome ring = test::lockstep({"collective", "--cluster", "cpu", "--nodes", "2"});
  CHECK_THAT(ring.out, ContainsSubstring("2(n-1)(α + S/(n·B)), n = "));

  const CommandOutcome json =
      test::lockstep({"collective", "--bytes", "64MiB", "--json", "--ranks", "4"});
  const auto entry = nlohmann::json::parse(json.out)[0];
  CHECK(entry["busbw_bytes_per_s"].get<double>() ==
        Approx(1.5 * 67108864 / entry["time_s"].get<double>()));
  const CommandOutcome all = test::lockstep({"collective", "--sweep", "--json"});
  CHECK(nlohmann::json::parse(all.out).size() == 31);  // 2^3 to 2^33
}

TEST_CASE("collective refuses what it does not know, with the nearest name", "[cli]") {
  const auto error = [](const std::vector<std::string>& arguments) {
    const CommandOutcome run = test::lockstep(arguments);
    CHECK(run.exit_code == 2);
    return run.err;
  };
  CHECK_THAT(error({"collective", "--kind", "allreduce"}),
             ContainsSubstring("did you mean 'all_reduce'?"));
  CHECK_THAT(error({"collective", "--cluster", "h1000"}),
             ContainsSubstring("did you mean 'h100'?"));
  CHECK_THAT(error({"collective", "--bytes", "12XB"}), ContainsSubstring("64KiB, 256MiB"));
  CHECK_THAT(error({"collective", "--ranks", "9"}), ContainsSubstring("1 nodes of"));
}
