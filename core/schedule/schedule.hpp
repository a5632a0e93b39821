// Pipeline schedules: their names and rules, and the actions of a schedule as plain values, in the
// notation of torch.distributed.pipelining (PyTorch 2.9, schedules.py).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/phase.hpp"
#include "core/base/result.hpp"

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

/// Which rank holds virtual stage s: Loop: s mod p. V: down the ranks and up again, rank r holding
/// r and 2p-1-r.
enum class Placement { Loop, V };

/// Of the weights, where they are updated while microbatches are under way.
enum class WeightVersions {
  One,      // they are not: updated once, when all microbatches have ended
  Stashed,  // a pass forward reads the latest version, the one backward the same
  Double,   // all read the version before the latest
};

/// What a schedule asks of degrees; how many microbatches it needs also depends on them.
struct ScheduleRules {
  PipelineSchedule schedule;
  std::string_view name;
  Placement placement;
  int least_virtual_stages, most_virtual_stages;  // of each copy
  int copies = 1;                                 // of the model
  WeightVersions versions = WeightVersions::One;
};
inline constexpr int kMostVirtualStages = 64;
inline constexpr std::array<ScheduleRules, 17> kSchedules = {{
    {PipelineSchedule::GPipe, "GPipe", Placement::Loop, 1, 1},
    {PipelineSchedule::OneFOneB, "1F1B", Placement::Loop, 1, 1},
    {PipelineSchedule::Interleaved1F1B, "Interleaved1F1B", Placement::Loop, 2, kMostVirtualStages},
    {PipelineSchedule::LoopedBFS, "LoopedBFS", Placement::Loop, 1, kMostVirtualStages},
    {PipelineSchedule::ZbH1, "ZB-H1", Placement::Loop, 1, 1},
    {PipelineSchedule::ZbH2, "ZB-H2", Placement::Loop, 1, 1},
    {PipelineSchedule::InterleavedZeroBubble, "InterleavedZeroBubble", Placement::Loop, 1,
     kMostVirtualStages},
    {PipelineSchedule::ZbvZeroBubble, "ZBVZeroBubble", Placement::V, 2, 2},
    {PipelineSchedule::DualPipeV, "DualPipeV", Placement::V, 2, 2},
    {PipelineSchedule::Zb1p, "ZB-1p", Placement::Loop, 1, 1},
    {PipelineSchedule::Zb2p, "ZB-2p", Placement::Loop, 1, 1},
    {PipelineSchedule::DualPipe, "DualPipe", Placement::V, 1, 1, 2},
    {PipelineSchedule::VHalf, "V-Half", Placement::V, 2, 2},
    {PipelineSchedule::VMin, "V-Min", Placement::V, 2, 2},
    {PipelineSchedule::PipeDream, "PipeDream", Placement::Loop, 1, 1, 1, WeightVersions::Stashed},
    {PipelineSchedule::PipeDream2bw, "PipeDream-2BW", Placement::Loop, 1, 1, 1,
     WeightVersions::Double},
    {PipelineSchedule::ZbV, "ZB-V", Placement::V, 2, 2},
}};
constexpr const ScheduleRules& rules_of(PipelineSchedule schedule) {
  return kSchedules[static_cast<std::size_t>(schedule)];
}
/// Microbatches of a step below which the schedule has no meaning, on `p` ranks.
int least_microbatches(PipelineSchedule schedule, int p);
/// Microbatches of one chunk that follow each other in an interleaved schedule of `m`.
int interleave_group(int requested, int p, int m);

/// One step of a pipeline rank: 2F0, 1B3, 0I1, 0W1.
struct Action {
  Phase phase = Phase::F;  // F, B, I or W
  Stage stage = 0;
  Microbatch microbatch = 0;
  bool overlaps_next = false;  // runs as one with the next action: (0F7;7B3)OVERLAP_F_B
  bool operator==(const Action&) const = default;
};
using Actions = std::vector<Action>;
std::string to_string(const Action& action);
/// An action, or a pair that runs as one, per string.
std::vector<std::string> to_cells(const Actions& actions);

/// With several copies of the model, stages are counted copy by copy, and a microbatch goes through
/// those of one copy.
struct Schedule {
  std::vector<int> rank_of_stage;  // coordinate along "pp", by virtual stage
  std::vector<Actions> actions;    // by coordinate along "pp", in order
  int copies = 1;
  bool empty() const { return actions.empty(); }
  int stages_per_copy() const { return static_cast<int>(rank_of_stage.size()) / copies; }
  bool is_first(Stage s) const { return s % stages_per_copy() == 0; }
  bool is_last(Stage s) const { return (s + 1) % stages_per_copy() == 0; }
  bool operator==(const Schedule&) const = default;
};
std::vector<int> place_stages(Placement placement, int p, int v);
/// Copies of a model of `stages` stages: more than one where the schedule has that many times the
/// stages, and no microbatch goes through two copies.
int copies_of_model(const Schedule& schedule, int stages);

/// PyTorch's schedule file: a row per rank, a cell per action; empty cells are idle slots. Of its
/// second level, the cells that communicate (SEND_F, RECV_B, UNSHARD, …) are left out: what they do
/// is added when a schedule is lowered. Errors: Parse, with row and column as line and column.
Result<Schedule> parse_schedule_csv(std::string_view text, const std::string& file);
std::string print_schedule_csv(const Schedule& schedule);

/// Why `schedule` cannot train copies of `stages` stages on `m` microbatches; empty: it can.
/// PyTorch's rules (each stage on one rank; per stage and microbatch one F, then B or I and W), and
/// that ranks do not wait for each other in a circle.
std::vector<std::string> check_schedule(const Schedule& schedule, int p, int stages, int m);

}  // namespace lockstep
