#include "cli/quickstart/page.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// Of two ranks on two cores, whose predictions are `off` from what was measured.
Quickstart example(double off, double others) {
  Quickstart result;
  result.model = "gpt2-small-byte";
  result.data = "/home/somebody/lockstep";
  result.layout = {2, 1};
  result.microbatches = 4;
  result.parameters = 859'000;
  result.tokens_per_step = 1024;
  result.peak_memory = Bytes{13'000'000};
  for (int i = 0; i < 250; ++i) result.losses.push_back(5.5 - 0.014 * i);
  const auto figure = [off](const char* name, double predicted) {
    return Figure{name, predicted, predicted * (1 + off)};
  };
  result.figures = {figure("step time", 0.032),   figure("tokens/s", 31'585),
                    figure("computation", 0.025), figure("  forward", 0.010),
                    figure("  backward", 0.014),  figure("waiting", 0.007)};
  result.figures[1].unit = Figure::Unit::PerSecond;
  result.use = {2, 2, 2.1, others, {11.5}, {20.25}};
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Characters, not bytes.
std::ptrdiff_t width(const std::string& line) {
  return std::count_if(line.begin(), line.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

TEST_CASE("the page of a quickstart has at most 33 lines of at most 80 columns",
          "[cli][quickstart]") {
  for (const double others : {0.01, 1.9}) {
    const std::string page =
        quickstart_page(example(0.04, others), "build/release/bin/lockstep", "runs/make-run");
    INFO(page);
    const std::vector<std::string> lines = lines_of(page);
    CHECK(lines.size() <= 33);  // and what make says around it is at most seven
    for (const std::string& line : lines) {
      INFO(line);
      // A path cannot be divided.
      CHECK((width(line) <= 80 || line.starts_with("  build/")));
    }
  }
}

TEST_CASE("the page shows six figures with their difference on an idle machine",
          "[cli][quickstart]") {
  const std::string page = quickstart_page(example(0.04, 0.02), "lockstep", "out");
  INFO(page);
  std::size_t differences = 0;
  for (std::size_t at = page.find("+4.0 %"); at != std::string::npos;
       at = page.find("+4.0 %", at + 1)) {
    ++differences;
  }
  CHECK(differences == 6);
  CHECK_THAT(page, !ContainsSubstring("busy"));
  CHECK_THAT(page, ContainsSubstring("other programs used 0.02 of 2 cores"));
}

TEST_CASE("the page shows no difference if other programs had the cores", "[cli][quickstart]") {
  Quickstart busy = example(0.04, 1.5);
  busy.use.load = 20;
  const std::string page = quickstart_page(busy, "lockstep", "out");
  INFO(page);
  CHECK_THAT(page, !ContainsSubstring("+4.0 %") && !ContainsSubstring("difference"));
  CHECK_THAT(page, ContainsSubstring(
                       "This machine is busy: load 20.0 on 2 cores; the times are not comparable"));
}

TEST_CASE("a machine is busy if ranks have no core of their own", "[cli][quickstart]") {
  CHECK_FALSE(MachineUse{2, 2, 20, 0.19, {}, {}}.busy());
  CHECK(MachineUse{2, 2, 20, 0.21, {}, {}}.busy());
  CHECK_FALSE(MachineUse{64, 8, 40, 50, {}, {}}.busy());  // on other cores
  CHECK(MachineUse{64, 8, 80, 60, {}, {}}.busy());
  CHECK_FALSE(MachineUse{2, 2, -1, -1, {}, {}}.busy());  // nobody knows
}

TEST_CASE("the table of several quickstarts counts those within 10 %, busy ones apart",
          "[cli][quickstart]") {
  const std::string table =
      quickstart_table({example(0.04, 0), example(-0.09, 0), example(0.12, 0), example(0.01, 1.2)});
  INFO(table);
  const std::vector<std::string> lines = lines_of(table);
  REQUIRE(lines.size() == 6);
  CHECK_THAT(lines[1], ContainsSubstring("+4.0 %"));
  CHECK_THAT(lines[4], ContainsSubstring("+1.0 %") && ContainsSubstring("1.20 (busy)"));
  CHECK_THAT(lines[5], ContainsSubstring("within 10 %") && ContainsSubstring("2 of 3") &&
                           ContainsSubstring("3 idle"));
}

TEST_CASE("a curve has a character for each part, from the lowest to the highest",
          "[cli][quickstart]") {
  CHECK(curve({0, 1, 2, 3, 4, 5, 6, 7}, 8) == "▁▂▃▄▅▆▇█");
  CHECK(curve({0, 1, 2, 3, 4, 5, 6, 7}, 4) == "▁▃▆█");
  CHECK(curve({3, 3}, 8) == "▁▁");
  CHECK(curve({1, NAN, 2}, 8) == "▁?█");
  CHECK(curve({}, 8).empty());
}

}  // namespace
}  // namespace lockstep
