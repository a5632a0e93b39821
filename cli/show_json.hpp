// Show JSON: what `lockstep show --json` prints. Sizes are in bytes, work in floating-point
// operations.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "core/ir/program.hpp"
#include "core/model/model.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Ranks, groups, functions with their work, and of every role its ranks and ops; or, if `rank` is
/// given, its role only.
nlohmann::ordered_json program_json(const Program& program, std::optional<Rank> rank);
/// Of every pipeline rank, or of the given rank, its actions: {"stage", "phase", "microbatch"}.
nlohmann::ordered_json schedule_json(const Program& program, std::optional<Rank> rank);
/// Of every role, or of the rank's, its arenas, what is alive where most is, by kind, and the terms
/// beside the arena.
nlohmann::ordered_json memory_json(const Scenario& scenario, const Program& program,
                                   std::optional<Rank> rank);
/// The model's sizes, layers and parameters. The layers of a synthetic model have none.
nlohmann::ordered_json model_json(const Scenario& scenario, const Program& program);

/// An action of a pipeline rank: what it computes for a microbatch on a virtual stage.
struct PipelineAction {
  int stage = 0;
  Phase phase = Phase::None;
  Microbatch microbatch = 0;
  bool operator==(const PipelineAction&) const = default;
};
/// The actions of a role in their order. The layers of an action follow each other on the compute
/// stream.
std::vector<PipelineAction> actions_of(const Role& role);

/// The layers of the scenario's model, for one sequence or one image.
Model layers_of(const Scenario& scenario);
/// The parameters of a layer. A shared one belongs to the first layer that uses it: `counted` keeps
/// the units that earlier layers had.
double elements_of(const Model& model, const Layer& layer, std::set<int>& counted);

}  // namespace lockstep
