// Report: every number a run is judged by; pure functions of Program and Trace. The formula of
// each number is its comment. All times are of one step: means over the traced steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/analysis/causes.hpp"
#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct RankReport {
  Rank rank = 0;
  Rank number = 0;  // in its job: other than `rank` if a trace from elsewhere lacks ranks before it
  Seconds compute;  // union of spans on the compute stream
  Seconds exposed_comm;                 // transfers running (active..end) while nothing computes
  Seconds idle;                         // makespan - compute - exposed_comm
  Seconds stage_span;                   // last compute end - first compute begin
  int peak_microbatches_in_flight = 0;  // live (stage, microbatch) pairs: +1 at F, -1 at B or W
  int weight_staleness = 0;  // updates that a forward pass has missed, at most (staleness.hpp)
  Bytes comm_bytes_sent;     // ring algorithm: all-reduce 2(n-1)/n S, gather and scatter (n-1)/n S
  Bytes peak_memory;         // the arena
  std::map<std::string, std::int64_t> peak_memory_by_kind;  // bytes of each kind at the op, in list
                                                            // order, with the largest total of live
                                                            // buffers; kinds that are absent there
                                                            // are left out
  Bytes host_memory;  // the arena in host memory: what is offloaded
  bool operator==(const RankReport&) const = default;
};

struct KindTime {
  Seconds time;     // sum of active..end over ranks and spans
  Seconds waiting;  // sum of begin..active
  std::int64_t count = 0;
};

struct Report {
  std::string backend, program_hash, model, cluster;
  int world_size = 1;
  Seconds step_time;              // last span end - first span begin
  double tokens_per_s = 0;        // text
  double images_per_s = 0;        // vision models
  Seconds time_to_train;          // Training::tokens at that rate; 0: not known
  double scaling_efficiency = 0;  // of a point of a sweep: tokens (images) per second and rank over
                                  // those of the first point; 0: not of a sweep
  Flops model_flops_per_step;
  double mfu = 0;  // model flops / (peak of the ranks × step_time); ranks that share a device above
                   // its concurrent_ranks share its peak
  Flops hardware_flops_per_step;  // model flops and what is computed a second time (recompute)
  double hfu = 0;  // hardware flops / (peak of the ranks × step_time): MFU without recompute
  double dollars_per_billion_tokens = 0;  // devices × hours × price; 0: no price, or no tokens
  double bubble_fraction = 0;  // sum over ranks of (makespan - compute busy) / (ranks × makespan)
  double bubble_over_ideal = 0;  // the literature's convention: (makespan - busy) / busy of the
                                 // busiest rank
  Seconds exposed_comm;          // mean over ranks
  std::vector<RankReport> ranks;
  std::map<std::string, KindTime> kinds;  // by TraceOp kind
  Causes causes;
  std::vector<double> losses;  // real backends, by step
  std::vector<double> grad_norms;
};

/// "not finite since step 7" of `losses`, the first of which is step 1: since the first that is NaN
/// or infinite. "not finite from step 7 to 9" if later ones are finite again. Empty: all are
/// finite.
std::string losses_remark(const std::vector<double>& losses);

/// Requires that `trace` came from `program`. Ranks without spans of their own (Trace::same_as)
/// take the times of the rank that stands for them.
Report analyze(const Trace& trace, const Program& program, const ClusterSpec& cluster);

/// The same for a trace without its program, from elsewhere say: what needs the program (flops,
/// tokens, bytes sent, microbatches in flight, memory by kind) stays zero. Compute and
/// communication are what op_class says. A step's time is that of its interval (StepIntervals), so
/// that the mean is what the steps cover together, divided by their number: on a device that runs
/// behind its host, steps overlap. What computes or transfers in that time counts, of whatever
/// step. Spans of the host count only where no device does anything.
Report analyze(const Trace& trace);

/// report.json: every field of Report; lists are by rank or by step. Keys: docs/report.md.
std::string report_json(const Report& report);
/// The inverse; `file` names the text in errors (Parse).
Result<Report> parse_report(const std::string& text, const std::string& file);

}  // namespace lockstep
