// Draft: a program while it is being lowered. Each pass fills in its part and leaves the rest
// alone.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/lower/draft/program_builder.hpp"
#include "core/model/model.hpp"
#include "core/schedule/schedule.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// The layers [first, last) of a virtual stage.
struct StageLayers {
  int first = 0, last = 0;
};

/// A unit of a role while it is being lowered.
struct DraftUnit {
  int layout = -1;  // index into Model::units, which says over which ranks gradients are summed
  // A frozen unit has none of these.
  BufferId grad;     // the rank's own gradient, summed over microbatches
  BufferId reduced;  // the gradient summed over ranks, which the optimizer reads
  BufferId on_host;  // a copy of the parameters, if the host needs one to update them (offload)
  bool trained() const { return grad.valid(); }
};

/// An update of the weights in the middle of a step.
struct DraftUpdate {
  std::size_t place = 0;            // it comes before the op that has this index
  std::vector<BufferId> gradients;  // by unit
};

struct DraftRole {
  Role role;
  IndexVector<int, DraftUnit> units;  // parallel to role.units
  std::vector<Unit> statistics;       // appended to role.units when nothing else is parallel to it
  BufferId losses;                    // one per microbatch, on the last stage only
  BufferId loss_scale;                // of the step; invalid if losses are not scaled
  BufferId shard_numbers;  // 0, 1, 2, …; a rank's own piece is its position in the shard group
  std::vector<DraftUpdate> updates;  // empty if there is one update, after the pipeline has drained
};

/// Which step of which kind of layer a function is, whatever it accumulates.
struct FunctionOrigin {
  int kind = -1;  // index into Model::kinds; -1 if it is not of a layer
  Phase phase = Phase::None;
  std::size_t step = 0;
};

struct Draft : ProgramBuilder {
  /// Makes the mesh, and the model's layers in the shapes that a rank computes.
  /// Counting a model's arithmetic takes a part of the time that a small program takes. It is left
  /// out where nobody asks for it; model_flops_per_step is then 0.
  enum class Arithmetic { Count, LeaveOut };
  explicit Draft(const Scenario& s, Arithmetic arithmetic = Arithmetic::Count);
  const Scenario& scenario;
  Model model;
  /// After the pass "pipeline", those of every copy of the model.
  IndexVector<Stage, StageLayers> stages;
  Schedule schedule;
  IndexVector<int, DraftRole>
      roles;  // by coordinate along "pp"; they become the program's at the end

  /// The element type of buffers of a kind, as training says; tokens are int32.
  DType dtype_of(BufferKind kind) const;
  /// The steps of a kind of layer in a phase. They add to the gradients that `accumulate` names.
  /// Products in float32 are in TF32 where training allows it and the device has it.
  std::vector<LayerStep> steps(int kind, Phase phase, const std::vector<std::string>& accumulate);
  using ProgramBuilder::function;
  /// Adds a step that is a function, shared by its name, and remembers where it comes from.
  FunctionId function(const Function& function, FunctionOrigin origin);
  FunctionOrigin origin(FunctionId function) const;
  /// The group of an axis over which a layer communicates; "dp" stands for all data-parallel ranks.
  GroupId axis_group(const std::string& axis);
  /// The dimensions of the mesh that make up such an axis, or one that divides units. Most are a
  /// dimension of that name.
  std::vector<std::string_view> axis_dims(std::string_view axis) const;
  /// The program's parameter of that name, which the model has.
  ParameterId parameter(const std::string& name) const { return parameters_.at(name); }
  /// Adds a parameter that the model does not have, unless there is one of that name.
  ParameterId add_parameter(const Parameter& parameter);
  /// The program, with the roles as they are now.
  Program finished() const;

 private:
  std::map<std::string, ParameterId> parameters_;  // by name; several units hold parts of one
  IndexVector<FunctionId, FunctionOrigin>
      origins_;  // by function; functions beyond its end have no origin
};

}  // namespace lockstep
