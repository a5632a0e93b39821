// Schedule: what each rank of a pipeline does, in order, as plain values, in the notation of
// torch.distributed.pipelining (PyTorch 2.9, schedules.py). schedules.hpp lists the schedules by
// name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/phase.hpp"
#include "core/base/result.hpp"

namespace lockstep {

/// One step of a pipeline rank, written stage, phase, microbatch: 2F0, 1B3, 0I1, 0W1.
struct Action {
  Phase phase = Phase::F;  // F, B, I or W
  Stage stage = 0;
  Microbatch microbatch = 0;
  bool overlaps_next = false;  // runs as one with the next action: (0F7;7B3)OVERLAP_F_B
  bool operator==(const Action&) const = default;
};
using Actions = std::vector<Action>;
inline constexpr int kEveryRank = -1;
std::string to_string(const Action& action);
/// One string for each action, or for each pair that runs as one.
std::vector<std::string> to_cells(const Actions& actions);

/// The actions of all ranks. With several copies of the model, stages are numbered copy by copy,
/// and a microbatch goes through the stages of one copy. If the ranks divide the vocabulary, stage
/// 0 is the embedding and the last one the output layer, and every rank runs its part of both.
struct Schedule {
  IndexVector<Stage, int> rank_of_stage;  // coordinate along "pp"; kEveryRank if all share it
  IndexVector<int, Actions> actions;      // by coordinate along "pp", in order
  int copies = 1;
  bool empty() const { return actions.empty(); }
  bool on_every_rank(Stage s) const { return rank_of_stage[s] == kEveryRank; }
  int stages_per_copy() const { return static_cast<int>(rank_of_stage.size()) / copies; }
  bool is_first(Stage s) const { return s % stages_per_copy() == 0; }
  bool is_last(Stage s) const { return (s + 1) % stages_per_copy() == 0; }
  bool operator==(const Schedule&) const = default;
};
/// How many copies of a model of `stages` stages the schedule runs: more than one if it has that
/// many times the stages, and no microbatch goes through two copies.
int copies_of_model(const Schedule& schedule, int stages);

/// Reads PyTorch's schedule file: a row per rank, a cell per action; empty cells are idle slots. In
/// files of the second level, the cells that communicate (SEND_F, RECV_B, UNSHARD, …) are left out,
/// because lowering adds communication itself. Errors: Parse, with row and column as line and
/// column.
Result<Schedule> parse_schedule_csv(std::string_view text, const std::string& file);
std::string print_schedule_csv(const Schedule& schedule);

/// Why `schedule` cannot train copies of `stages` stages on `m` microbatches with `p` ranks; empty
/// if it can. Checks PyTorch's rules (each stage on one rank; per stage and microbatch one F, then
/// B or I and W), and that ranks do not wait for each other in a circle.
std::vector<std::string> check_schedule(const Schedule& schedule, int p, int stages, int m);

}  // namespace lockstep
