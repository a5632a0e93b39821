// The table of pipeline schedules. A schedule is one row: its name, its rules and the function that
// generates its actions. To add one, write a generator (generators.hpp), and add an enumerator and
// a row here.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/schedule/generators.hpp"
#include "core/schedule/schedule.hpp"

namespace lockstep {

enum class PipelineSchedule {
  GPipe,
  OneFOneB,
  Interleaved1F1B,
  LoopedBFS,
  ZbH1,
  ZbH2,
  InterleavedZeroBubble,
  ZbvZeroBubble,
  DualPipeV,
  Zb1p,
  Zb2p,
  DualPipe,
  VHalf,
  VMin,
  PipeDream,
  PipeDream2bw,
  ZbV,
};

/// Which rank holds virtual stage s. Loop: rank s mod p. V: stages go down the ranks and up again,
/// so that rank r holds r and 2p-1-r.
enum class Placement { Loop, V };

/// Which versions of the weights a rank keeps, where weights are updated while microbatches are
/// under way.
enum class WeightVersions {
  One,      // one: weights are updated once, when all microbatches have ended
  Stashed,  // a forward pass reads the latest version, its backward pass the same one
  Double,   // all passes read the version before the latest
};

/// How backward passes run.
enum class Backward {
  Whole,   // each is one action, which the stage before waits for
  Split,   // gradients of inputs and of weights are actions of their own
  Paired,  // likewise, but in the middle a whole one is one action with a forward pass
};

/// When a search tries a schedule: among its layouts, only for the best of them, or when asked for.
enum class Tried { First, ForTheBest, WhenAsked };

/// The least number of microbatches of a step for which a schedule is defined on p ranks: per_rank
/// × p + more.
struct LeastMicrobatches {
  int per_rank = 0, more = 1;
};

/// What a schedule requires of degrees and microbatches, and how its actions are made.
struct ScheduleRules {
  PipelineSchedule schedule;
  std::string_view name;
  Scheduler generate;  // actions of every rank
  Placement placement = Placement::Loop;
  int least_virtual_stages = 1, most_virtual_stages = 1;  // per rank and copy
  LeastMicrobatches least = {};
  int copies = 1;  // of the model
  WeightVersions versions = WeightVersions::One;
  Backward backward = Backward::Whole;
  bool one_by_one = false;        // after some forward passes, one of each kind in turn, as in 1F1B
  bool in_rounds = false;         // the chunks of a rank take microbatches in rounds, as in PyTorch
  bool takes_groups = false;      // … of a size that one may choose
  bool asks_times = false;        // its actions depend on how long passes take
  bool takes_vocabulary = false;  // with_vocabulary() can put the passes of the vocabulary into it
  bool forwards_first = false;    // a rank begins no backward before its forwards have all ended
  bool in_pytorch = false;        // torch.distributed.pipelining has it, by this name
  Tried tried = Tried::WhenAsked;

  constexpr int least_microbatches(int p) const { return least.per_rank * p + least.more; }
  /// Whether one may choose how many chunks a rank has.
  constexpr bool takes_chunks() const { return most_virtual_stages > least_virtual_stages; }
  /// Whether a step ends with an empty pipeline.
  constexpr bool drains() const { return versions == WeightVersions::One; }
};
inline constexpr int kMostVirtualStages = 64;

// clang-format off
inline constexpr std::array kSchedules = {
    ScheduleRules{.schedule = PipelineSchedule::GPipe, .name = "GPipe", .generate = by_rank<gpipe>,
                  .takes_vocabulary = true, .forwards_first = true, .in_pytorch = true},
    ScheduleRules{.schedule = PipelineSchedule::OneFOneB, .name = "1F1B",
                  .generate = by_rank<one_f_one_b>, .one_by_one = true, .takes_vocabulary = true,
                  .in_pytorch = true, .tried = Tried::First},
    ScheduleRules{.schedule = PipelineSchedule::Interleaved1F1B, .name = "Interleaved1F1B",
                  .generate = by_rank<interleaved_1f1b>, .least_virtual_stages = 2,
                  .most_virtual_stages = kMostVirtualStages, .one_by_one = true, .in_rounds = true,
                  .takes_groups = true, .takes_vocabulary = true, .in_pytorch = true,
                  .tried = Tried::First},
    ScheduleRules{.schedule = PipelineSchedule::LoopedBFS, .name = "LoopedBFS",
                  .generate = by_rank<looped_bfs>, .most_virtual_stages = kMostVirtualStages,
                  .takes_vocabulary = true, .forwards_first = true, .in_pytorch = true},
    ScheduleRules{.schedule = PipelineSchedule::ZbH1, .name = "ZB-H1", .generate = by_rank<zb_h1>,
                  .least = {1, 0}, .backward = Backward::Split, .tried = Tried::First},
    ScheduleRules{.schedule = PipelineSchedule::ZbH2, .name = "ZB-H2", .generate = by_rank<zb_h2>,
                  .least = {2, -1}, .backward = Backward::Split, .tried = Tried::ForTheBest},
    ScheduleRules{.schedule = PipelineSchedule::InterleavedZeroBubble,
                  .name = "InterleavedZeroBubble", .generate = by_rank<interleaved_zero_bubble>,
                  .most_virtual_stages = kMostVirtualStages, .backward = Backward::Split,
                  .in_rounds = true, .in_pytorch = true, .tried = Tried::ForTheBest},
    ScheduleRules{.schedule = PipelineSchedule::ZbvZeroBubble, .name = "ZBVZeroBubble",
                  .generate = by_rank<zbv_zero_bubble>, .placement = Placement::V,
                  .least_virtual_stages = 2, .most_virtual_stages = 2, .backward = Backward::Split,
                  .in_pytorch = true, .tried = Tried::First},
    ScheduleRules{.schedule = PipelineSchedule::DualPipeV, .name = "DualPipeV",
                  .generate = by_rank<dual_pipe_v>, .placement = Placement::V,
                  .least_virtual_stages = 2, .most_virtual_stages = 2, .least = {2, 0},
                  .backward = Backward::Paired, .in_pytorch = true, .tried = Tried::ForTheBest},
    ScheduleRules{.schedule = PipelineSchedule::Zb1p, .name = "ZB-1p", .generate = zb_1p,
                  .backward = Backward::Split, .asks_times = true, .tried = Tried::ForTheBest},
    ScheduleRules{.schedule = PipelineSchedule::Zb2p, .name = "ZB-2p", .generate = zb_2p,
                  .backward = Backward::Split, .asks_times = true, .tried = Tried::ForTheBest},
    ScheduleRules{.schedule = PipelineSchedule::DualPipe, .name = "DualPipe",
                  .generate = by_rank<dual_pipe>, .placement = Placement::V, .least = {2, 0},
                  .copies = 2, .backward = Backward::Paired},
    ScheduleRules{.schedule = PipelineSchedule::VHalf, .name = "V-Half", .generate = v_half,
                  .placement = Placement::V, .least_virtual_stages = 2, .most_virtual_stages = 2,
                  .backward = Backward::Split, .asks_times = true, .tried = Tried::ForTheBest},
    ScheduleRules{.schedule = PipelineSchedule::VMin, .name = "V-Min", .generate = v_min,
                  .placement = Placement::V, .least_virtual_stages = 2, .most_virtual_stages = 2,
                  .backward = Backward::Split, .asks_times = true, .tried = Tried::ForTheBest},
    ScheduleRules{.schedule = PipelineSchedule::PipeDream, .name = "PipeDream",
                  .generate = by_rank<one_f_one_b>, .versions = WeightVersions::Stashed,
                  .one_by_one = true},
    ScheduleRules{.schedule = PipelineSchedule::PipeDream2bw, .name = "PipeDream-2BW",
                  .generate = by_rank<one_f_one_b>, .versions = WeightVersions::Double,
                  .one_by_one = true},
    ScheduleRules{.schedule = PipelineSchedule::ZbV, .name = "ZB-V", .generate = zb_v,
                  .placement = Placement::V, .least_virtual_stages = 2, .most_virtual_stages = 2,
                  .backward = Backward::Split, .asks_times = true, .tried = Tried::ForTheBest},
};
// clang-format on

/// True if row i is that of the i-th enumerator, which rules_of relies on.
constexpr bool in_order_of_the_enumerators() {
  for (std::size_t i = 0; i < kSchedules.size(); ++i) {
    if (kSchedules[i].schedule != static_cast<PipelineSchedule>(i)) return false;
  }
  return true;
}
static_assert(in_order_of_the_enumerators(), "rows stand in the order of PipelineSchedule");
static_assert(kSchedules.size() == to_size(PipelineSchedule::ZbV) + 1, "every schedule has a row");

constexpr const ScheduleRules& rules_of(PipelineSchedule schedule) {
  return kSchedules[to_size(schedule)];
}
/// The schedule of a row. Requires a shape that the row's rules allow.
Schedule generate(const ScheduleRules& rules, const PipelineShape& shape);
/// How many microbatches a chunk runs in a row in an interleaved schedule of `m` microbatches on
/// `p` ranks.
int interleave_group(int requested, int p, int m);
/// The rank (coordinate along "pp") of each of the p·v virtual stages.
std::vector<int> place_stages(Placement placement, int p, int v);

}  // namespace lockstep
