// Compares published figures of memory with `lockstep show memory`.
#include <regex>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

using test::CommandOutcome;
using test::lockstep;

/// The GPT of a row of a paper's table; a cluster that is large enough for anything.
constexpr const char* kGpt = R"([model]
architecture = "gpt2"
tied_embeddings = true
[training]
max_norm = 0.0
[cluster]
preset = "a100-80"
[cluster.device]
memory_gb = 100000.0
)";

CommandOutcome show(const std::vector<std::string>& keys) {
  const TemporaryFolder folder;
  write_bytes(folder / "gpt.toml", kGpt);
  std::vector<std::string> arguments = {"show", "memory", folder / "gpt.toml"};
  for (const std::string& key : keys) arguments.insert(arguments.end(), {"--set", key});
  CommandOutcome outcome = lockstep(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return outcome;
}

std::string key(const char* name, int value) {
  return std::string(name) + "=" + std::to_string(value);
}

/// The cells of the row that begins with `name`: the words that follow it.
std::vector<std::string> row(const std::string& text, const std::string& name) {
  std::vector<std::string> cells;
  const std::size_t at = text.find("\n  " + name + "  ");
  REQUIRE(at != std::string::npos);
  const std::size_t from = at + 3 + name.size();
  const std::string line = text.substr(from, text.find('\n', from) - from);
  const std::regex cell("\\S+( \\S+)*");
  for (std::sregex_iterator i(line.begin(), line.end(), cell), end; i != end; ++i) {
    cells.push_back(i->str());
  }
  return cells;
}

/// Overrides for a GPT-2 of these sizes, which has 12 L h² + 13 L h + 2 h + (V + S) h parameters;
/// the sizes are chosen to give exactly the number that is wanted.
std::vector<std::string> gpt(int hidden, int heads, int layers, int vocab) {
  return {key("model.hidden", hidden), key("model.heads", heads), key("model.layers", layers),
          key("model.vocab", vocab),   "training.seq_len=1024",   "model.max_seq_len=1024"};
}
std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace

TEST_CASE("7 B in float32 is 112 GB, 28 on four shards and 14 on eight, by formula and by plan",
          "[cli]") {
  const std::vector<std::string> model = gpt(4000, 40, 36, 20506);
  const std::string four = show(with(model, {"parallelism.data_parallel_shard_degree=4"})).out;
  CHECK_THAT(four, ContainsSubstring("7,000,000,000 parameters on 4"));
  const std::string name = "float32 (4 + 4 + 8 B), ";
  using Cells = std::vector<std::string>;
  CHECK(row(four, name + "DDP") == Cells{"112", "28", "28", "56"});
  CHECK(row(four, name + "ZeRO-3") == Cells{"28", "7", "7", "14"});
  const std::string eight =
      show(with(model, {"parallelism.data_parallel_shard_degree=8", "training.dtype=float32"})).out;
  CHECK(row(eight, name + "ZeRO-3") == Cells{"14", "3.5", "3.5", "7"});
  // The plan holds an eighth of the parameters and of Adam's states from beginning to end: 3.5e9
  // and 7e9 bytes.
  CHECK(row(eight, "param")[1] == "3.5 GB");
  CHECK(row(eight, "optimizer")[1] == "7 GB");
  CHECK_THAT(row(eight, "param")[0], ContainsSubstring("blocks.0 96.03 MB + "));  // its formula
}

TEST_CASE("1.3 B in 16 bits with float32 Adam: 15.6, 6.5, 4.2 and 2.0 GB by ZeRO stage", "[cli]") {
  const std::string text =
      show(with(gpt(2000, 20, 25, 48649), {"parallelism.data_parallel_shard_degree=8"})).out;
  CHECK_THAT(text, ContainsSubstring("1,300,000,000 parameters on 8"));
  using Cells = std::vector<std::string>;
  const std::string name = "16-bit, float32 Adam (2 + 2 + 8 B), ";
  CHECK(row(text, name + "DDP") == Cells{"15.6", "2.6", "2.6", "10.4"});
  CHECK(row(text, name + "ZeRO-1") == Cells{"6.5", "2.6", "2.6", "1.3"});
  CHECK(row(text, name + "ZeRO-2") == Cells{"4.22", "2.6", "0.325", "1.3"});
  CHECK(row(text, name + "ZeRO-3") == Cells{"1.95", "0.325", "0.325", "1.3"});
}

TEST_CASE("7.5 B on 64 ranks: 120, 31.4, 16.6 and 1.88 GB by ZeRO stage", "[cli]") {
  // Rajbhandari et al. 2020, figure 1.
  const std::string text =
      show(with(gpt(4000, 40, 38, 49480),
                {"parallelism.data_parallel_shard_degree=64", "cluster.nodes=8"}))
          .out;
  CHECK_THAT(text, ContainsSubstring("7,500,000,000 parameters on 64"));
  const std::string name = "with master weights (2 + 2 + 12 B), ";
  CHECK(row(text, name + "DDP")[0] == "120");
  CHECK(row(text, name + "ZeRO-1")[0] == "31.4");
  CHECK(row(text, name + "ZeRO-2")[0] == "16.6");
  CHECK(row(text, name + "ZeRO-3")[0] == "1.88");
}

TEST_CASE("states and activations of four published models, with and without savings", "[cli]") {
  // Korthikanti et al. 2022, sequence length 2048, tensor parallel 8: GiB of states at 18 bytes and
  // of activations with tensor parallelism only and with sequence parallelism and selective
  // recomputation; then what is left by sequence parallelism, selective, both, full.
  struct Row {
    int heads, hidden, layers, p, v, batch;
    double states, tensor_only, both;
    double percent[4];
  };
  for (const Row& r :
       {Row{64, 6144, 48, 1, 1, 4, 45.5625, 59.25, 9.5625, {66.77, 49.37, 16.14, 7.59}},
        Row{96, 12288, 96, 8, 3, 1, 45.5625, 66.84, 12.35, {61.96, 56.52, 18.48, 8.70}},
        Row{128, 20480, 105, 35, 3, 1, 31.64, 114.02, 23.08, {58.33, 61.90, 20.24, 9.52}},
        Row{160, 25600, 128, 64, 1, 1, 32.96, 131.25, 26.56, {58.33, 61.90, 20.24, 9.52}}}) {
    INFO("h=" << r.hidden);
    const int m = r.v > 1 ? r.p : 1;
    const std::string text =
        show({key("model.hidden", r.hidden), key("model.heads", r.heads),
              key("model.layers", r.layers), "model.vocab=51200", "model.max_seq_len=2048",
              "training.seq_len=2048", key("training.local_batch_size", r.batch * m),
              "parallelism.tensor_parallel_degree=8",
              key("parallelism.pipeline_parallel_degree", r.p),
              key("parallelism.pipeline_parallel_microbatches", m),
              key("parallelism.pipeline_parallel_virtual_stages", r.v),
              std::string("parallelism.pipeline_parallel_schedule=") +
                  (r.v > 1 ? "Interleaved1F1B" : "1F1B"),
              key("cluster.nodes", r.p)})
            .out;
    const auto gib = [&](const char* name) {
      return std::stod(row(text, name)[0]) * 1e9 / (1 << 30);
    };
    CHECK(gib("states of the blocks, 18 B x 12 h^2 L / (t p)") == Approx(r.states).margin(0.005));
    CHECK(gib("activations, scores stored") == Approx(r.tensor_only).margin(0.005));
    CHECK(gib("both") == Approx(r.both).margin(0.005));
    const char* names[] = {"and sequence parallel", "attention recomputed", "both",
                           "all recomputed"};
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(std::stod(row(text, names[i])[1]) == Approx(r.percent[i]).margin(0.005));
    }
  }
}

}  // namespace lockstep
