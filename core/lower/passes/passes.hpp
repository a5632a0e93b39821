// Passes: the passes of lowering, one file each, and their table. The table gives the order in
// which lower() runs them, the names that `lockstep show program --after` takes, and what the
// documents say of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// How much of the program can be verified after a pass: nothing; everything except the update, so
/// that states need not be updated; or the whole. To verify, a copy of the program gets the order
/// of streams and a memory plan.
enum class Verifiable { Nothing, WithoutUpdate, Whole };

struct LoweringPass {
  std::string_view name;
  std::string_view does;  // what it does, in a few words
  Result<void> (*run)(Draft& draft);
  std::string (*print)(const Draft& draft);  // prints the state after it
  Verifiable verifiable;                     // what can be verified after it
};
/// All passes, in the order in which they run.
std::span<const LoweringPass> passes();
/// The pass of that name, or null.
const LoweringPass* find_pass(std::string_view name);

// ---------------------------------------------------------------- what they take and give

/// Divides layers into virtual stages: contiguous ranges of nearly equal cost, or as the strategy
/// says. A synthetic model has one layer for every stage.
std::vector<StageLayers> partition(const Model& model, const ModelSpec& spec,
                                   const StrategySpec& strategy);
/// What each pipeline rank does, in order. Requires validate(scenario) to find nothing.
Schedule pipeline(const Scenario& scenario, const Model& model,
                  const std::vector<StageLayers>& stages);
/// Makes of the actions calls of the layers' functions, messages between stages and host copies, as
/// if there were neither data parallelism nor an optimizer.
void expand(Draft& draft);
/// Says which samples the ranks read, and adds the tables of integers that copies of the program
/// bring.
void input(Draft& draft);
/// Gives passes that run as one the sum of their given times, times `factor`.
void pair(ProgramBuilder& build, IndexVector<int, DraftRole>& roles, const Schedule& schedule,
          double factor);
/// Adds the waits for messages. Error InvalidSpec if ranks would wait for each other in a circle.
Result<void> post(const Program& program, IndexVector<int, DraftRole>& roles, P2pPosting posting);
/// For pipelines that do not drain, adds gradients for each update, and copies of weights that are
/// still to be read.
void versions(Draft& draft);
/// Divides the states of the optimizer, and parameters, over the data-parallel ranks.
void shard(Draft& draft);
/// Gathers parameters ahead of their use, if a rank keeps only a part of them.
void unshard(Draft& draft);
/// Sums gradients over the ranks that read other data, by all-reduces, or by reduce-scatters to
/// shards.
void reduce(Draft& draft);
/// Sums the gradients of units that several pipeline ranks hold.
void copies(Draft& draft);
/// Adds norm and clipping, the update of each unit, and the metrics of the step.
void optimizer(Draft& draft);
/// Moves states to host memory, adds the copies that this needs, and moves their update to the
/// host.
Result<void> offload(const Program& program, IndexVector<int, DraftRole>& roles, Offload what);
/// Adds what brings replicas that train apart together, in every sync_every-th step.
void synchronize(Draft& draft);
/// Moves what the strategy puts on drives from the host's memory there, and adds the copies that
/// bring it to the host's memory and back.
void drive(const Program& program, IndexVector<int, DraftRole>& roles,
           const StrategySpec& strategy);
/// Finds what each op waits for on other streams, from what it reads and writes.
void stream(const Program& program, IndexVector<int, DraftRole>& roles);
/// Gives buffers their lifetimes and their places in the arenas.
void memory(IndexVector<int, DraftRole>& roles, const StrategySpec& strategy);

}  // namespace lockstep
