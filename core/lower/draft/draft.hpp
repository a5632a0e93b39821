// Draft: what the passes hand to each other. Each pass fills in its part and leaves the rest alone.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/lower/draft/program_builder.hpp"
#include "core/model/model.hpp"
#include "core/schedule/schedule.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Layers [first, last) of one virtual stage.
struct StageLayers {
  int first = 0, last = 0;
};

/// A unit of a role while it is being lowered.
struct DraftUnit {
  int layout = -1;   // into Model::units, whose fields say over which ranks it is summed
  BufferId grad;     // the rank's own gradient, summed over microbatches
  BufferId reduced;  // summed over ranks: what the optimizer reads
  BufferId on_host;  // a copy of the parameters for the pass "offload" to update; none: not needed
};

/// An update of the weights in the middle of a step.
struct DraftUpdate {
  std::size_t place = 0;            // before the op that now has this index
  std::vector<BufferId> gradients;  // by unit
};

struct DraftRole {
  Role role;
  IndexVector<int, DraftUnit> units;  // parallel to role.units
  std::vector<Unit> statistics;      // appended to role.units once nothing else is parallel to them
  BufferId losses;                   // one per microbatch; last stage only
  std::vector<DraftUpdate> updates;  // none: one update, when the pipeline has drained
};

/// Which step of which layer kind a function is, before what it accumulates.
struct FunctionOrigin {
  int kind = -1;  // into Model::kinds; -1: not of a layer
  Phase phase = Phase::None;
  std::size_t step = 0;
};

struct Draft : ProgramBuilder {
  /// Before the first pass: the mesh, and the model's layers in the shapes that a rank computes.
  explicit Draft(const Scenario& s);
  const Scenario& scenario;
  Model model;
  IndexVector<Stage, StageLayers>
      stages;  // from the pass "pipeline" on, of every copy of the model
  Schedule schedule;
  IndexVector<int, DraftRole> roles;  // by coordinate along "pp"; moved into the program at the end

  /// Element type of buffers of a kind, by what training says of it (tokens are int32).
  DType dtype_of(BufferKind kind) const;
  /// The steps of a layer kind in a phase, adding to the gradient formals named.
  std::vector<LayerStep> steps(int kind, Phase phase, const std::vector<std::string>& accumulate);
  using ProgramBuilder::function;
  /// One of them that is a function, shared by name; remembers where it comes from.
  FunctionId function(const Function& function, FunctionOrigin origin);
  FunctionOrigin origin(FunctionId function) const;
  /// The ranks along an axis that a layer communicates over; "dp": all data-parallel ones.
  GroupId axis_group(const std::string& axis);
  /// The program with the roles as they are now.
  Program finished() const;

 private:
  IndexVector<FunctionId, FunctionOrigin> origins_;  // by function; shorter where the rest has none
};

}  // namespace lockstep
