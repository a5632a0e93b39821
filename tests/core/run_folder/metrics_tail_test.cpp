#include "core/run_folder/metrics_tail.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/run_folder/run_folder.hpp"
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

TEST_CASE("metrics that are not finite are lines of JSON, and NaN again", "[run_folder]") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  const double infinity = std::numeric_limits<double>::infinity();
  {
    Result<MetricsLog> log = MetricsLog::open(path, 0);
    REQUIRE(log.ok());
    REQUIRE(log->append({0, std::nan(""), infinity, -infinity, Seconds{0.5}}, 64).ok());
    REQUIRE(log->append({1, 2.5, 1, 1e-3, Seconds{infinity}}, 64).ok());
  }
  std::ifstream file(path);
  std::string line;
  REQUIRE(std::getline(file, line));
  const auto first = nlohmann::json::parse(line, nullptr, false);
  REQUIRE(first.is_object());
  CHECK((first["loss"].is_null() && first["grad_norm"].is_null() && first["lr"].is_null()));
  REQUIRE(std::getline(file, line));
  CHECK(nlohmann::json::parse(line, nullptr, false).is_object());
  MetricsTail tail(path);
  bool restarted = false;
  const auto steps = tail.poll(restarted);
  REQUIRE(steps.size() == 2);
  CHECK(std::isnan(steps[0].loss));
  CHECK(std::isnan(steps[0].grad_norm));
  CHECK(steps[1].loss == 2.5);
  CHECK(std::isnan(steps[1].seconds));
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
