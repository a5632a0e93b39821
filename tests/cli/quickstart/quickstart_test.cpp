#include "cli/quickstart/quickstart.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/analysis/report.hpp"
#include "core/base/read_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TEST_CASE("there are as many ranks as cores, in pipelines of two stages", "[cli][quickstart]") {
  CHECK(quickstart_layout(1) == QuickstartLayout{1, 1});
  CHECK(quickstart_layout(2) == QuickstartLayout{2, 1});
  CHECK(quickstart_layout(4) == QuickstartLayout{2, 2});
  CHECK(quickstart_layout(8) == QuickstartLayout{2, 4});
  // A pipeline has two stages, and a batch is divided among powers of two.
  CHECK(quickstart_layout(3) == QuickstartLayout{2, 1});
  CHECK(quickstart_layout(7) == QuickstartLayout{2, 2});
  CHECK(quickstart_layout(128) == QuickstartLayout{2, 4});
  CHECK(quickstart_layout(0) == QuickstartLayout{1, 1});
}

Report report_of(const fs::path& folder) {
  const std::string path = (folder / "report.json").string();
  const Result<std::string> text = read_file(path);
  REQUIRE(text.ok());
  Result<Report> report = parse_report(*text, path);
  REQUIRE(report.ok());
  return *report;
}

TEST_CASE("a quickstart predicts and measures the same program, and a second one replaces it",
          "[cli][quickstart]") {
  const TemporaryFolder folder;
  const fs::path out = folder.path / "results";
  for (const int cores : {2, 1}) {
    INFO(cores << " cores");
    int measuring = 0, training = 0;
    const QuickstartOptions options{LOCKSTEP_SOURCE_DIR "/scenarios/quickstart.toml", out.string(),
                                    cores, 4, [&](const std::string& what, int done, int all) {
                                      CHECK(done <= all);
                                      ++(what.starts_with("training") ? training : measuring);
                                    }};
    const Result<Quickstart> result = run_quickstart(options);
    INFO((result ? "" : to_string(result.error())));
    REQUIRE(result.ok());
    CHECK(result->layout.ranks() == cores);
    CHECK(result->losses.size() == 4);
    CHECK(measuring > 0);
    CHECK(training == 4);
    REQUIRE(result->figures.size() == 6);
    for (const Figure& figure : result->figures) {
      INFO(figure.name);
      CHECK((std::isfinite(figure.predicted) && figure.predicted > 0));
      CHECK((std::isfinite(figure.measured) && figure.measured > 0));
    }
    const Report predicted = report_of(out / "simulated"), measured = report_of(out / "measured");
    CHECK(predicted.backend == "sim");
    CHECK(measured.backend == "cpu");
    CHECK(predicted.program_hash == measured.program_hash);
    CHECK(predicted.world_size == cores);
    CHECK(measured.losses.size() == 4);
    for (const char* name : {"cpu.toml", "measured/trace.json.gz", "measured/scenario.toml",
                             "measured/program.txt", "simulated/trace.json.gz"}) {
      CHECK(fs::exists(out / name));
    }
  }
}

TEST_CASE("a quickstart says which file it cannot read", "[cli][quickstart]") {
  const TemporaryFolder folder;
  const Result<Quickstart> result =
      run_quickstart({"no-such-scenario.toml", folder.path.string(), 1, 0, {}});
  REQUIRE_FALSE(result.ok());
  CHECK(to_string(result.error()).find("no-such-scenario.toml") != std::string::npos);
}

}  // namespace
}  // namespace lockstep
