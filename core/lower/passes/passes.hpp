// The passes of lowering, one file each, and their table: the order in which lower() runs them, the
// names that `lockstep show program --after` takes, and what the documents say of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// How much of a program there is after a pass, and with it what can be verified: nothing; all but
/// the update, so that no state asks for one; or all. Order of streams and memory are given to a
/// copy for that.
enum class Verifiable { Nothing, WithoutUpdate, Whole };

struct LoweringPass {
  std::string_view name;
  std::string_view does;  // in a few words
  Result<void> (*run)(Draft& draft);
  std::string (*print)(const Draft& draft);  // the state after it
  Verifiable verifiable;                     // after it
};
/// In the order in which they run.
std::span<const LoweringPass> passes();
/// The pass of that name, or null.
const LoweringPass* find_pass(std::string_view name);

// ---------------------------------------------------------------- what they take and give

/// Layers to virtual stages: contiguous ranges of equal cost, or as the strategy says. A synthetic
/// model has a layer for every stage.
std::vector<StageLayers> partition(const Model& model, Architecture architecture,
                                   const StrategySpec& strategy);
/// What each pipeline rank does, in order. Requires validate(scenario) to find nothing.
Schedule pipeline(const Scenario& scenario, const Model& model,
                  const std::vector<StageLayers>& stages);
/// Actions to calls of the layers' functions, messages between stages and host copies, as if there
/// were neither data parallelism nor an optimizer.
void expand(Draft& draft);
/// Which samples the ranks read, and the tables of integers that copies of the program bring.
void input(Draft& draft);
/// Passes that run as one take the sum of their given times, times `factor`.
void pair(ProgramBuilder& build, IndexVector<int, DraftRole>& roles, const Schedule& schedule,
          double factor);
/// What waits for messages. Error InvalidSpec: ranks would wait for each other in a circle.
Result<void> post(const Program& program, IndexVector<int, DraftRole>& roles, P2pPosting posting);
/// Pipelines that do not drain: gradients by update, and copies of weights that are still read.
void versions(Draft& draft);
/// States of the optimizer, and parameters, divided over the data-parallel ranks.
void shard(Draft& draft);
/// Parameters gathered ahead of their use, where a rank keeps a part of them.
void unshard(Draft& draft);
/// Gradients summed over the ranks that hold other data: all-reduced, or scattered to the shards.
void reduce(Draft& draft);
/// Gradients of units that several pipeline ranks hold, added up.
void copies(Draft& draft);
/// Norm and clipping, the update of each unit, the metrics of the step.
void optimizer(Draft& draft);
/// States moved to host memory, with the copies that this takes, and the update with them.
Result<void> offload(const Program& program, IndexVector<int, DraftRole>& roles, Offload what);
/// What each op waits for on other streams, from what it reads and writes.
void stream(const Program& program, IndexVector<int, DraftRole>& roles);
/// Lifetimes of buffers, and their places in the arenas.
void memory(IndexVector<int, DraftRole>& roles, P2pPosting posting);

}  // namespace lockstep
