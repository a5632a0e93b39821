// Draft: what the passes hand to each other. Each pass fills in its part and leaves the rest alone.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/model/model.hpp"
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
};

struct DraftRole {
  Role role;
  std::vector<DraftUnit> units;  // parallel to role.units
  std::vector<Unit> statistics;  // appended to role.units once nothing else is parallel to them
  BufferId losses;               // one per microbatch; last stage only
};

/// Which step of which layer kind a function is, before what it accumulates.
struct FunctionOrigin {
  int kind = -1;  // into Model::kinds; -1: not of a layer
  Phase phase = Phase::None;
  std::size_t step = 0;
};

struct Draft {
  explicit Draft(const Scenario& s) : scenario(s) {}
  const Scenario& scenario;
  Model model;
  std::vector<StageLayers> stages;  // from the pass "pipeline" on, of every copy of the model
  Schedule schedule;
  Program program;               // roles are moved in by the last pass
  std::vector<DraftRole> roles;  // by coordinate along "pp"

  std::int32_t name(std::string_view text);  // index into program.names
  GroupId group(std::string_view name, const std::vector<std::string_view>& dims,
                std::vector<int> only = {});
  FunctionId function(const Function& function);  // shared by name
  /// Element type of buffers of a kind, by what training says of it (tokens are int32).
  DType dtype_of(BufferKind kind) const;
  /// The steps of a layer kind in a phase, adding to the gradient formals named.
  std::vector<LayerStep> steps(int kind, Phase phase, const std::vector<std::string>& accumulate);
  /// One of them that is a function, shared by name; remembers where it comes from.
  FunctionId function(const Function& function, FunctionOrigin origin);
  FunctionOrigin origin(FunctionId function) const;
  /// The ranks along an axis that a layer communicates over; "dp": all data-parallel ones.
  GroupId axis_group(const std::string& axis);

 private:
  std::vector<FunctionOrigin> origins_;  // by function; shorter where the rest has none
  std::map<std::string, std::int32_t, std::less<>> names_;
  std::map<std::string, FunctionId, std::less<>> functions_;
};

BufferId add_buffer(Role& role, const Buffer& buffer);
BufferId add_view(Role& role, BufferId parent, std::int64_t offset, Bytes bytes);
/// The view of `parent` that is each rank's own piece: the i-th of `bytes` for member i of `group`.
BufferId add_piece(Role& role, BufferId parent, GroupId group, Bytes bytes);
void add_op(Role& role, Op op, const std::vector<BufferId>& args);

/// An op to put before the op that now has index `before` (ops.size(): at the end). Several at one
/// place keep their order.
struct Insertion {
  std::size_t before = 0;
  Op op;
  std::vector<BufferId> args;
};
void insert_ops(Role& role, std::vector<Insertion> insertions);

// The passes, in order.
void partition(Draft& draft);
void pipeline(Draft& draft);
void expand(Draft& draft);
void pair(Draft& draft);
Result<void> post(Draft& draft);
void shard(Draft& draft);
void optimizer(Draft& draft);
void stream(Draft& draft);
Result<void> memory(Draft& draft);

/// Samples and tables that the roles' copies read; part of expand().
Input input_of(const Draft& draft);

std::string print_stages(const Draft& draft);
std::string print_schedule(const Draft& draft);  // "pp0: 0F0 0F1 0B0 …", a line per rank

}  // namespace lockstep
