#include "core/run_folder/metrics_tail.hpp"

#include <cmath>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

TEST_CASE("lines are told once, when they are whole", "[run_folder]") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsTail tail(path);
  bool restarted = true;
  CHECK(tail.poll(restarted).empty());  // not there yet
  CHECK_FALSE(restarted);
  append(path,
         "{\"step\":1,\"loss\":5.5,\"time\":0.25,\"throughput(tps)\":2048}\n{\"step\":2,\"lo");
  const auto first = tail.poll(restarted);
  REQUIRE(first.size() == 1);
  CHECK(first[0].step == 1);
  CHECK(first[0].loss == 5.5);
  CHECK(first[0].seconds == 0.25);
  CHECK(first[0].tokens_per_s == 2048);
  CHECK(tail.poll(restarted).empty());
  append(path, "ss\":null}\nnot json\n[3]\n{\"step\":3,\"loss\":4}\n");
  const auto more = tail.poll(restarted);
  REQUIRE(more.size() == 2);
  CHECK(more[0].step == 2);
  CHECK(std::isnan(more[0].loss));  // as MetricsLog writes what is not finite
  CHECK(more[1].step == 3);
}

TEST_CASE("a file that became shorter is read from its start", "[run_folder]") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  append(path, "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n");
  MetricsTail tail(path);
  bool restarted = false;
  CHECK(tail.poll(restarted).size() == 2);
  std::ofstream(path) << "{\"step\":1,\"loss\":6}\n";
  const auto again = tail.poll(restarted);
  CHECK(restarted);
  REQUIRE(again.size() == 1);
  CHECK(again[0].loss == 6);
}

}  // namespace
}  // namespace lockstep
