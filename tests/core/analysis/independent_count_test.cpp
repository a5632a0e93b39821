// Counts what devices do in the profiles of tests/data in another way than the analysis does: event
// by event from the JSON, microsecond by microsecond, and compares.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/trace/gzip_file.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Nanoseconds in which a device computes, in which NCCL's kernels run, and both at once. A kernel
/// of NCCL counts from its begin, waiting included, as in Holistic Trace Analysis.
struct DeviceTimes {
  std::int64_t computing = 0, communicating = 0, both = 0;
};

DeviceTimes count_in(const nlohmann::json& events) {
  std::map<std::int64_t, std::pair<int, int>> changes;  // of (computing, communicating) kernels
  for (const auto& e : events) {
    const std::string cat = e.value("cat", "");
    if (e.value("ph", "") != "X" || cat != "kernel") continue;
    const bool nccl = e.value("name", "").rfind("nccl", 0) == 0;
    const auto begin = std::llround(e["ts"].get<double>() * 1000);
    const auto end = begin + std::llround(e.value("dur", 0.0) * 1000);
    (nccl ? changes[begin].second : changes[begin].first) += 1;
    (nccl ? changes[end].second : changes[end].first) -= 1;
  }
  DeviceTimes times;
  int compute = 0, communicate = 0;
  std::int64_t last = 0;
  for (const auto& [time, change] : changes) {
    const std::int64_t passed = time - last;
    times.computing += compute > 0 ? passed : 0;
    times.communicating += communicate > 0 ? passed : 0;
    times.both += compute > 0 && communicate > 0 ? passed : 0;
    compute += change.first;
    communicate += change.second;
    last = time;
  }
  return times;
}

DeviceTimes count_in_file(const std::string& path) {
  GzipReader file(path);
  const std::string text(file.begin(), file.end());
  const auto json = nlohmann::json::parse(text);
  return count_in(json.is_array() ? json : json["traceEvents"]);
}

/// Checks the figures of a report of one rank's file against the count.
void check_figures(const std::string& path) {
  INFO(path);
  const DeviceTimes counted = count_in_file(path);
  const Result<ImportedTrace> imported = read_kineto({path});
  REQUIRE(imported.ok());
  const Report r = analyze(imported->trace);
  std::size_t steps = 0;  // that have work of a device: what the figures are means over
  {
    std::map<std::int32_t, bool> seen;
    for (const Span& s : imported->trace.spans) {
      const TraceOp& op = imported->trace.roles[0].ops[s.op];
      const std::string& kind = imported->trace.names[op.kind];
      if (kind != "host" && kind != "annotation" && kind != "sync") seen[s.step] = true;
    }
    steps = seen.size();
  }
  const double each = 1e-9 / static_cast<double>(std::max<std::size_t>(steps, 1));
  const RankCauses& c = r.causes.ranks.at(0);
  CHECK(r.ranks[0].compute.v == Approx(static_cast<double>(counted.computing) * each));
  CHECK((c.computation + c.overlapping).v == Approx(static_cast<double>(counted.computing) * each));
  // Of a file alone nobody waits for anybody: all of a kernel of NCCL is communication.
  CHECK((c.overlapping + c.communication).v ==
        Approx(static_cast<double>(counted.communicating) * each).margin(1e-12));
  CHECK(c.overlapping.v == Approx(static_cast<double>(counted.both) * each).margin(1e-12));
  const Seconds parts = c.computation + c.overlapping + c.communication + c.waiting + c.other;
  CHECK(parts.v == Approx(r.step_time.v));
}

TEST_CASE("figures of profiles equal a count of their events", "[core][analysis]") {
  std::size_t files = 0;
  for (const char* folder : {"kineto", "kineto-fsdp8"}) {
    const fs::path data = fs::path(LOCKSTEP_SOURCE_DIR) / "tests/data" / folder;
    for (const auto& entry : fs::directory_iterator(data)) {
      check_figures(entry.path().string());
      ++files;
    }
  }
  CHECK(files == 10);
}

TEST_CASE("figures of steps that overlap at random equal a count of their events",
          "[core][analysis]") {
  const TemporaryFolder folder;
  std::uint64_t state = 42;
  const auto random = [&](int below) {  // the same on every machine
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(below));
  };
  for (int trial = 0; trial < 20; ++trial) {
    nlohmann::json events = nlohmann::json::array();
    for (int step = 0; step < 4; ++step) {
      events.push_back({{"ph", "X"},
                        {"cat", "user_annotation"},
                        {"pid", 1},
                        {"tid", 1},
                        {"name", "ProfilerStep#" + std::to_string(step)},
                        {"ts", 100 * step},
                        {"dur", 100}});
    }
    for (int i = 1; i <= 60; ++i) {
      const int launch = random(400), begin = launch + random(200);
      const bool nccl = random(4) == 0;
      events.push_back({{"ph", "X"},
                        {"cat", "cuda_runtime"},
                        {"pid", 1},
                        {"tid", 1},
                        {"name", "cudaLaunchKernel"},
                        {"ts", launch},
                        {"dur", 1},
                        {"args", {{"correlation", i}}}});
      events.push_back({{"ph", "X"},
                        {"cat", "kernel"},
                        {"pid", 0},
                        {"tid", nccl ? 20 : 7 + i % 3},
                        {"name", nccl ? "ncclDevKernel_AllReduce" : "gemm"},
                        {"ts", begin},
                        {"dur", 1 + random(40)},
                        {"args", {{"correlation", i}}}});
    }
    write_bytes(folder / "t.json", events.dump());
    check_figures(folder / "t.json");
  }
}

}  // namespace
}  // namespace lockstep
