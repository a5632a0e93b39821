// Run: a simulated step, or one that was recorded: its figures, its timeline and its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "lockstep/scenario.hpp"

namespace lockstep::api {
inline namespace v1 {

/// The figures of a step; docs/report.md has their formulas, report_json() has more of them.
struct Figures {
  double step_time_s = 0;
  double tokens_per_s = 0;  // of all ranks together; 0 for a vision model
  double images_per_s = 0;
  double mfu = 0;
  double bubble_fraction = 0;
  double exposed_comm_s = 0;           // mean over ranks
  std::int64_t peak_memory_bytes = 0;  // the arena of the rank that needs most
};

/// The spans of all ranks as columns of equal length, sorted by step, rank, stream and begin. Times
/// are picoseconds since the step's begin.
struct Timeline {
  std::vector<std::int32_t> step, rank;
  std::vector<std::int32_t> stream, name, kind;        // places in `streams`, `names` and `names`
  std::vector<std::int32_t> stage, microbatch, layer;  // -1: of none
  std::vector<std::int64_t> begin_ps, active_ps, end_ps;  // waits for peers until `active`
  std::vector<std::int64_t> bytes;                        // payload of a transfer
  std::vector<std::string> names, streams;
  std::vector<std::string> ranks;     // labels: "rank 3 (pp1 dp1)"
  std::vector<std::int32_t> same_as;  // by rank: whose spans stand for it, its own or a twin's
};

/// Memory in use after each event, a row of `kinds.size()` figures for each.
struct MemoryTimeline {
  std::vector<std::int32_t> rank;
  std::vector<std::int64_t> time_ps;
  std::vector<std::int64_t> bytes;  // rows × kinds, row by row
  std::vector<std::string> kinds;   // "param", "grad", …
};

class LOCKSTEP_EXPORT Run {
 public:
  /// Opens a run folder, a trace of Lockstep's or PyTorch's, or a folder of the latter.
  static Result<Run> open(const std::string& path);

  Figures figures() const;
  Timeline timeline() const;
  MemoryTimeline memory() const;
  std::string report_json() const;  // report.json of docs/report.md
  /// Writes a run folder, which open() reads: report.json and trace.json.gz.
  std::vector<Fault> save(const std::string& folder) const;
  /// Writes the trace for Perfetto, compressed if the name ends in ".gz". Empty: it is written.
  std::vector<Fault> write_trace(const std::string& path) const;

  struct Data;  // the library's own
  explicit Run(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

/// Lowers the scenario and simulates one step of it. A fault of kind OutOfMemory says what of it
/// does not fit, unless `limited` is false: then devices have as much memory as is needed.
LOCKSTEP_EXPORT Result<Run> simulate(const Scenario& scenario, bool limited = true);

}  // namespace v1
}  // namespace lockstep::api
