// Report: every number that a run is judged by, as pure functions of Program and Trace. The comment
// of a number is its formula. All times are of one step, as means over the traced steps.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/causes.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/cluster/certainty.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct RankReport {
  Rank rank = 0;
  /// The rank's number in its job. It differs from `rank` if a trace from elsewhere lacks ranks
  /// before it.
  Rank number = 0;
  Seconds compute;                      // union of spans on the compute stream
  Seconds exposed_comm;                 // transfers running (active..end) while nothing computes
  Seconds idle;                         // makespan - compute - exposed_comm
  Seconds stage_span;                   // last compute end - first compute begin
  int peak_microbatches_in_flight = 0;  // live (stage, microbatch) pairs: +1 at F, -1 at B or W
  int weight_staleness = 0;  // the most updates that a forward pass misses (staleness.hpp)
  Bytes comm_bytes_sent;  // ring algorithm: 2(n-1)/n S for all-reduce, (n-1)/n S for all-gather and
                          // reduce-scatter
  Bytes peak_memory;      // size of the arena
  /// Bytes of live buffers of each kind at the op at which their total is largest (ops in list
  /// order). Kinds that have none there are left out.
  std::map<std::string, std::int64_t> peak_memory_by_kind;
  Bytes host_memory;  // size of the arena in host memory, which holds what is offloaded
  Bytes drive;        // and of that on the node's drives
  bool operator==(const RankReport&) const = default;
};

struct KindTime {
  Seconds time;     // sum of active..end over ranks and spans
  Seconds waiting;  // sum of begin..active
  std::int64_t count = 0;
};

/// The mean loss of data that are not trained on.
struct ValidationLoss {
  int step = 0;  // how many steps had been trained
  double loss = 0;
};

struct Report {
  std::string backend, program_hash, model, cluster;
  /// As which software the step of a GPU cluster was simulated (software_of()); empty otherwise.
  std::string software;
  /// How near such simulations were to published runs (certainty_of()); nothing of other backends.
  std::optional<Certainty> certainty;
  int world_size = 1;
  Seconds step_time;  // last span end - first span begin
  /// Of replicas that train apart (Program::sync_every), the time of a step that does not bring
  /// them together, and of one that does; 0 if no such step was traced. If both were, all other
  /// figures are means over a period, in which one step of sync_every does.
  Seconds apart_step_time, sync_step_time;
  double tokens_per_s = 0;  // text models; of all ranks together
  double images_per_s = 0;  // vision models
  Seconds time_to_train;    // Training::tokens / tokens_per_s; 0: not known
  /// For a point of a sweep: its tokens (images) per second and rank, over those of the first
  /// point. 0: not a point of a sweep.
  double scaling_efficiency = 0;
  Flops model_flops_per_step;
  /// Model flops / (peak of the ranks × step_time). Where more ranks share a device than its
  /// concurrent_ranks, they share its peak.
  double mfu = 0;
  Flops hardware_flops_per_step;  // model flops plus those of recompute
  double hfu = 0;  // hardware flops / (peak of the ranks × step_time); equals MFU without recompute
  double dollars_per_billion_tokens = 0;  // devices × hours × price; 0: no price, or no tokens
  double bubble_fraction = 0;  // sum over ranks of (makespan - compute busy) / (ranks × makespan)
  /// (makespan - busy) / busy of the busiest rank: the convention of Megatron-LM's papers.
  double bubble_over_ideal = 0;
  Seconds exposed_comm;  // mean over ranks
  /// What computation took longer because of communication beside it, mean over ranks; of the
  /// simulator, 0 otherwise. A part of compute, not beside it.
  Seconds slowed_compute;
  IndexVector<Rank, RankReport> ranks;
  std::map<std::string, KindTime> kinds;  // by TraceOp::kind
  Causes causes;
  int saves = 0;                    // checkpoints saved on the way
  Seconds save_time;                // what each took of the training's time, on average
  IndexVector<int, double> losses;  // by step; real backends only
  IndexVector<int, double> grad_norms;
  std::vector<ValidationLoss> validation;  // in the order of the steps
};

/// RankReport::number; of a report without figures of ranks, their order.
Rank number_in_job(const Report& report, std::size_t rank);

/// What is wrong with `losses`, the first of which is that of step 1: "not finite since step 7"
/// from the first that is NaN or infinite, "not finite from step 7 to 9" if later ones are finite
/// again. Empty: all are finite.
std::string losses_remark(const std::vector<double>& losses);

/// Requires that `trace` came from `program`. Ranks without spans of their own (Trace::same_as)
/// take the times of the rank that stands for them. For `kept` see find_causes().
Report analyze(const Trace& trace, const Program& program, const ClusterSpec& cluster,
               std::vector<StepAnalysis>* kept = nullptr);
/// The same for who does not need the program any more: buffers and arguments, which take more than
/// half of its memory, go before the largest part of the work.
Report analyze(const Trace& trace, Program&& program, const ClusterSpec& cluster);

/// The same for a trace without its program, for example one from elsewhere. What needs the program
/// (flops, tokens, bytes sent, microbatches in flight, memory by kind) stays zero, and op_class
/// tells compute from communication. On a device that runs behind its host, steps overlap. So a
/// step's time is that of its interval (StepIntervals), and the mean is the time that the steps
/// cover together, divided by their number. Whatever computes or transfers in that time counts,
/// whichever step it belongs to. Spans of the host count only if no device works in the trace.
Report analyze(const Trace& trace);

/// report.json: every field of Report; lists are by rank or by step. Keys: docs/report.md.
std::string report_json(const Report& report);
/// The inverse; `file` names the text in errors (Parse).
Result<Report> parse_report(const std::string& text, const std::string& file);

}  // namespace lockstep
