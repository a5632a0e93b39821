#include "core/analysis/name_statistics.hpp"

#include <map>

#include "core/analysis/self_time.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

// A thread with calls three deep, another thread beside it, and kernels that overlap on a device.
const char* const kProfile = R"([
  {"ph":"X","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":0,"dur":100},
  {"ph":"X","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":10,"dur":40},
  {"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":20,"dur":5},
  {"ph":"X","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":60,"dur":20},
  {"ph":"X","cat":"cpu_op","name":"other","pid":1,"tid":2,"ts":30,"dur":30},
  {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":40,"dur":30},
  {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":80,"dur":10},
  {"ph":"X","cat":"kernel","name":"gelu","pid":0,"tid":9,"ts":50,"dur":60}])";

Trace profile() {
  const TemporaryFolder folder;
  write_bytes(folder / "t.json", kProfile);
  Result<ImportedTrace> imported = read_kineto({folder / "t.json"});
  REQUIRE(imported.ok());
  return std::move(imported->trace);
}

constexpr SimTime us(std::int64_t n) { return SimTime{n * 1'000'000}; }

TEST_CASE("self times of a thread add up to the time in which it does anything",
          "[core][analysis]") {
  const Trace trace = profile();
  const std::vector<SimTime> self = self_times(trace);
  std::map<std::string, SimTime> by_name;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    by_name[trace.names[trace.roles[0].ops[trace.spans[i].op].name]] += self[i];
  }
  CHECK(by_name["outer"] == us(100 - 40 - 20));
  CHECK(by_name["inner"] == us(40 - 5 + 20));
  CHECK(by_name["launch"] == us(5));
  CHECK(by_name["outer"] + by_name["inner"] + by_name["launch"] == us(100));
  CHECK(by_name["other"] == us(30));  // another thread is not nested in the first
  CHECK(by_name["gemm"] == us(40));   // kernels that overlap both run
  CHECK(by_name["gelu"] == us(60));
}

TEST_CASE("kernels are added up by name, with shares of the device's time", "[core][analysis]") {
  const Trace trace = profile();
  const auto statistics = statistics_by_name(trace, self_times(trace));
  REQUIRE(statistics.size() == 6);
  CHECK(trace.names[statistics[0].name] == "gelu");
  CHECK(statistics[0].share == Approx(0.6));
  const NameStatistics& gemm = statistics[1];
  CHECK(trace.names[gemm.name] == "gemm");
  CHECK(gemm.times.count == 2);
  CHECK(gemm.times.total == us(40));
  CHECK(gemm.times.mean().v == Approx(20e-6));
  CHECK(gemm.times.p50 == us(10));
  CHECK(gemm.times.most == us(30));
  CHECK(gemm.share == Approx(0.4));
  double host = 0;
  for (const NameStatistics& n : statistics) host += n.host ? n.share : 0;
  CHECK(host == Approx(1));
  const auto late = statistics_by_name(
      trace, self_times(trace), [&](std::size_t i) { return trace.spans[i].begin >= us(80); });
  REQUIRE(late.size() == 1);
  CHECK(late[0].times.total == us(10));
}

TEST_CASE("a selection of a profile counts the devices' work, and hosts beside it",
          "[core][analysis]") {
  const Trace trace = profile();
  const StepGraph step(trace, 0);
  const Selection s = select(step, us(0), us(1000), {}, self_times(trace));
  CHECK(s.all.total == us(100));
  CHECK(s.by_rank.at(0).total == us(100));
  CHECK(s.by_kind.at("host").self == us(130));
}

}  // namespace
}  // namespace lockstep
