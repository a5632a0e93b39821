#include <algorithm>
#include <span>

#include "core/base/quantized_state.hpp"
#include "core/ir/verify/internal.hpp"

namespace lockstep::verification {
namespace {

class RoleCheck {
 public:
  RoleCheck(const Program& program, const Role& role, Faults& faults)
      : program_(program), role_(role), faults_(faults) {}

  void check() {
    check_buffers();
    check_op_indices();
    if (!faults_.none()) return;
    check_ops();
    check_synchronization();
    for (const Unit& unit : role_.units) check_unit(unit);
  }

 private:
  void check_buffers() {
    const auto& buffers = role_.buffers;
    const auto ops = static_cast<std::int64_t>(role_.ops.size());
    for (const BufferId id : buffers.ids()) {
      const Buffer& buffer = buffers[id];
      const auto name = [&] { return rank_name() + "%b" + number(id.v); };
      if (buffer.bytes.v < 0) faults_.add(name() + " has a negative size");
      if (buffer.name != -1 && !in_table(buffer.name, program_.names)) {
        faults_.add(name() + " has a name that does not exist");
      }
      std::int64_t limit = role_.arena_of(buffer.tier).v;
      if (buffer.is_view()) {
        if (!in_table(buffer.parent().v, buffers)) {
          faults_.add(name() + " is a view of %b" + number(buffer.parent().v) +
                      ", which does not exist");
          continue;
        }
        const Buffer& parent = role_.buffer(buffer.parent());
        limit = parent.bytes.v;
        if (buffer.tier != parent.tier) {
          faults_.add(name() + " is not in the memory of its parent");
        }
        if (buffer.tier == Tier::Drive) faults_.add(name() + " is a view of what lies on a drive");
        if (parent.piece_of().valid()) faults_.add(name() + " is a view of a piece");
      } else if (buffer.first().valid() != buffer.last().valid() ||
                 buffer.first() > buffer.last() || buffer.last().v >= ops) {
        faults_.add(name() + " has the lifetime %" + number(buffer.first().v) + "..%" +
                    number(buffer.last().v) + " in a list of " + number(ops) + " ops");
      }
      if (buffer.tier == Tier::Drive && buffer.offset % kDriveBlock != 0) {
        faults_.add(name() + " begins at " + number(buffer.offset) +
                    " on the drive, which is no multiple of its blocks of " + number(kDriveBlock) +
                    " bytes");
      }
      std::int64_t bytes = buffer.bytes.v;  // of all pieces together
      if (buffer.piece_of().v != -1) {
        if (!in_table(buffer.piece_of().v, program_.groups)) {
          faults_.add(name() + " is a piece of a group that does not exist");
          continue;
        }
        check_membership(id, buffer.piece_of());
        const std::int64_t n = size_of_group(buffer.piece_of());
        if (__builtin_mul_overflow(bytes, n, &bytes)) bytes = limit + 1;
      }
      std::int64_t end = 0;
      if (buffer.offset < 0 || __builtin_add_overflow(buffer.offset, bytes, &end) || end > limit) {
        faults_.add(name() + " (" + number(bytes) + " bytes at " + number(buffer.offset) +
                    ") lies outside its " + (buffer.is_view() ? "parent of " : "arena of ") +
                    number(limit) + " bytes");
      }
    }
    if (faults_.none()) check_view_cycles();
  }

  void check_membership(BufferId id, GroupId group) {
    const Rank rank = outside(group);
    if (rank < 0) return;
    faults_.add(rank_name() + "%b" + number(id.v) + ": rank " + number(rank) +
                " has no piece, being outside group " + program_.group(group).name);
  }

  /// The first rank of the role that is outside its own group; -1 if there is none. It is found
  /// once for each group, because pieces times ranks are many.
  Rank outside(GroupId group) {
    constexpr Rank kUnknown = -2;
    if (outside_.empty()) outside_.assign(program_.groups.size(), kUnknown);
    Rank& known = outside_[group];
    if (known != kUnknown) return known;
    const auto first = std::find_if(role_.ranks.begin(), role_.ranks.end(), [&](Rank rank) {
      return position(program_.mesh, program_.group(group), rank) < 0;
    });
    return known = first == role_.ranks.end() ? -1 : *first;
  }

  /// How many ranks a group has. It is found once for each group, because collectives are many.
  int size_of_group(GroupId group) {
    if (group_sizes_.empty()) group_sizes_.assign(program_.groups.size(), 0);
    int& size = group_sizes_[group];
    if (size == 0) size = group_size(program_.mesh, program_.group(group));
    return size;
  }

  // Follows each chain of parents once. A chain that meets itself is a cycle.
  void check_view_cycles() {
    IndexVector<BufferId, BufferId> visited_from(role_.buffers.size());
    for (const BufferId start : role_.buffers.ids()) {
      BufferId at = start;
      while (at.valid() && !visited_from[at].valid()) {
        visited_from[at] = start;
        at = role_.buffer(at).parent();
      }
      if (at.valid() && visited_from[at] == start) {
        return faults_.add(rank_name() + "%b" + number(at.v) + " is a view of itself");
      }
    }
  }

  /// A step that does not synchronize replicas ends before the first op of phase S, so these come
  /// last, and other ranks wait for none of them in vain.
  void check_synchronization() {
    const OpId first = first_synchronization(role_);
    if (first == role_.ops.next()) return;
    const auto name = [&](OpId id) { return op_at(program_, role_, id); };
    if (program_.sync_every < 1) {
      return faults_.add(name(first) +
                         " brings replicas together, but sync_every does not say when");
    }
    for (OpId id = first; id < role_.ops.next(); ++id.v) {
      const Op& op = role_.op(id);
      if (op.phase != Phase::S) {
        return faults_.add(name(id) + " follows " + name(first) +
                           ", but what synchronizes replicas ends the step");
      }
      if (is_p2p(op.kind) || (is_copy(op.kind) && !op.moves_memory())) {
        return faults_.add(name(id) +
                           ": replicas are synchronized by calls, collectives and copies");
      }
    }
  }

  void check_op_indices() {
    const auto buffers = static_cast<std::uint32_t>(role_.buffers.size());
    for (const OpId id : role_.ops.ids()) {
      if (faults_.full()) return;
      const Op& op = role_.op(id);
      const auto name = [&] {
        return rank_name() + "%" + number(id.v) + " " + std::string(to_string(op.kind));
      };
      bool target = true;
      if (op.kind == OpKind::Call) {
        target = in_table(op.target, program_.functions);
      } else if (is_collective(op.kind)) {
        target = in_table(op.target, program_.groups);
      } else if (is_copy(op.kind)) {
        target = op.target >= 0 && op.target < kNumHostData;
        if (is_drive_copy(op.kind)) target = target && op.moves_memory();
      }
      if (!target) faults_.add(name() + ": target " + number(op.target) + " does not exist");
      const int members = target && op.kind == OpKind::Broadcast
                              ? group_size(program_.mesh, program_.group(op.group()))
                              : 1;
      if (op.root < 0 || op.root >= members) {
        faults_.add(name() + ": there is no member " + number(op.root) + " that sends");
      }
      if (std::size_t{op.after_begin} + op.after_count > role_.after.size() ||
          std::size_t{op.args_begin} + op.args_count > role_.args.size()) {
        faults_.add(name() + ": its lists lie outside their pools");
        continue;
      }
      if (op.rows != -1 && !in_table(op.rows, role_.rows)) {
        faults_.add(name() + ": its rows are not in their table");
        continue;
      }
      for (const OpId dependency : role_.after_of(op)) {
        if (!dependency.valid() || dependency >= id) {
          faults_.add(name() + " waits for %" + number(dependency.v) +
                      ", which does not come before it: a dependency cycle");
        }
      }
      for (const BufferId buffer : role_.args_of(op)) {
        if (static_cast<std::uint32_t>(buffer.v) >= buffers) {
          faults_.add(name() + ": buffer %b" + number(buffer.v) + " does not exist");
        }
      }
    }
  }

  void check_ops() {
    check_group_membership();
    const int pp = program_.mesh.index_of("pp");
    for (const OpId id : role_.ops.ids()) {
      if (faults_.full()) return;
      const Op& op = role_.op(id);
      const auto args = role_.args_of(op);
      if (args.size() != expected_args(op)) {
        faults_.add(op_at(program_, role_, id) + ": has " +
                    number(static_cast<std::int64_t>(args.size())) + " arguments instead of " +
                    number(static_cast<std::int64_t>(expected_args(op))));
        continue;
      }
      if (op.kind == OpKind::Call) {
        check_call(id, op, args);
        continue;
      }
      check_places(id, op, args);
      if (is_counted(op.kind)) {
        check_rows(id, op, args);
      } else if (args.size() == 2) {
        check_two_buffers(id, op, role_.buffer(args[0]), role_.buffer(args[1]));
      } else if (is_p2p(op.kind)) {
        check_peer(id, op, pp);
      }
    }
  }

  std::size_t expected_args(const Op& op) const {
    if (op.kind == OpKind::Call) return program_.function(op.function()).formals.size();
    if (is_counted(op.kind)) return op.kind == OpKind::AllToAllRows ? 4 : 3;
    const bool two = op.kind == OpKind::AllGather || op.kind == OpKind::ReduceScatter ||
                     op.kind == OpKind::AllToAll || op.kind == OpKind::Rotate || op.moves_memory();
    return two ? 2 : 1;
  }

  /// Checks that a call can reach its buffers, which are in host memory if it is on the host's
  /// stream and on the device if not, and that they have as many bytes as the formals.
  void check_call(OpId id, const Op& op, std::span<const BufferId> args) {
    const Tier tier = op.stream == Stream::Host ? Tier::Host : Tier::Device;
    const Formal* formal = program_.function(op.function()).formals.data();
    for (const BufferId arg : args) {
      const Buffer& buffer = role_.buffer(arg);
      if (buffer.tier != tier) add_out_of_reach(id, op, arg);
      if (buffer.bytes < formal->bytes) {
        faults_.add(op_at(program_, role_, id) + ": " + buffer_name(program_, role_, arg) +
                    " has " + number(buffer.bytes.v) + " bytes, but formal " + formal->name +
                    " needs " + number(formal->bytes.v));
      }
      ++formal;
    }
  }

  /// Checks that an op which is no call can reach its buffers. Copies between two tiers need one in
  /// each, and all others need them on the device.
  void check_places(OpId id, const Op& op, std::span<const BufferId> args) {
    const bool moves = op.moves_memory();
    const CopyPath path = path_of(op.kind);
    for (std::size_t k = 0; k < args.size(); ++k) {
      const Tier wanted = !moves ? Tier::Device : k == 0 ? path.from : path.to;
      if (role_.buffer(args[k]).tier != wanted) add_out_of_reach(id, op, args[k]);
    }
  }

  void add_out_of_reach(OpId id, const Op& op, BufferId buffer) {
    const Tier found = role_.buffer(buffer).tier;
    faults_.add(op_at(program_, role_, id) + " (stream " + std::string(to_string(op.stream)) +
                ") cannot reach " + buffer_name(program_, role_, buffer) +
                (found == Tier::Drive ? " on the drive"
                                      : " in " + std::string(to_string(found)) + " memory"));
  }

  /// Checks that source and destination consist of rows, for which there are counts: as many of
  /// those that go to a member as of those that come from it.
  void check_rows(OpId id, const Op& op, std::span<const BufferId> args) {
    const auto buffer = [&](std::size_t k) -> const Buffer& { return role_.buffer(args[k]); };
    const std::string name = op_at(program_, role_, id);
    if (buffer(0).dtype != buffer(1).dtype) {
      faults_.add(name + ": reads " + std::string(to_string(buffer(0).dtype)) + " but writes " +
                  std::string(to_string(buffer(1).dtype)));
    }
    const ExpectedRows rows = role_.rows_of(op);
    if (rows.count < 0 || rows.bytes <= 0 || buffer(0).bytes.v % rows.bytes != 0 ||
        buffer(1).bytes.v % rows.bytes != 0) {
      return faults_.add(name + ": its buffers do not consist of rows of " + number(rows.bytes) +
                         " bytes");
    }
    const Bytes whole = std::max(buffer(0).bytes, buffer(1).bytes);
    const Bytes one = std::min(buffer(0).bytes, buffer(1).bytes);
    const bool gathers = op.kind == OpKind::AllGatherRows;
    if (op.kind != OpKind::AllToAllRows &&
        (buffer(gathers ? 1 : 0).bytes != whole || whole != size_of_group(op.group()) * one)) {
      return faults_.add(name + ": " + number(buffer(0).bytes.v) + " bytes cannot become " +
                         number(buffer(1).bytes.v) + " bytes in a group of " +
                         number(size_of_group(op.group())));
    }
    const std::int64_t counts = buffer(2).bytes.v / size_of(DType::I32);
    const Buffer& coming = buffer(args.size() - 1);
    if (buffer(2).dtype != DType::I32 || coming.dtype != DType::I32 ||
        buffer(2).bytes != coming.bytes || counts % size_of_group(op.group()) != 0) {
      faults_.add(name + ": its rows are not counted by integers, as many for each of " +
                  number(size_of_group(op.group())) + " members");
    }
  }

  void check_two_buffers(OpId id, const Op& op, const Buffer& source, const Buffer& destination) {
    if (source.dtype != destination.dtype) {
      faults_.add(op_at(program_, role_, id) + ": reads " + std::string(to_string(source.dtype)) +
                  " but writes " + std::string(to_string(destination.dtype)));
    }
    const bool whole = op.moves_memory() || op.kind == OpKind::Rotate;
    const std::int64_t n = whole ? 1 : size_of_group(op.group());
    const std::int64_t from = source.bytes.v;
    const std::int64_t to = destination.bytes.v;
    const bool fits = op.kind == OpKind::AllGather       ? to % n == 0 && to / n == from
                      : op.kind == OpKind::ReduceScatter ? from % n == 0 && from / n == to
                                                         : from == to && from % n == 0;
    if (!fits) {
      faults_.add(op_at(program_, role_, id) + ": " + number(from) + " bytes cannot become " +
                  number(to) + " bytes in a group of " + number(n));
    }
  }

  void check_peer(OpId id, const Op& op, int pp) {
    if (pp < 0 || op.peer() < 0 || op.peer() >= program_.mesh.dims[pp].size) {
      return faults_.add(op_at(program_, role_, id) + ": there is no such pipeline peer");
    }
    if (rank_of_stage_.empty()) {  // once a role, because messages times ranks are many
      rank_of_stage_.assign(program_.mesh.dims[pp].size, -1);
      for (const Rank rank : role_.ranks) {
        Rank& first = rank_of_stage_[program_.mesh.coordinate(rank, pp)];
        if (first < 0) first = rank;
      }
    }
    const Rank same = rank_of_stage_[op.peer()];
    if (same >= 0) faults_.add(op_at(program_, same, id) + ": the peer is the rank itself");
  }

  // It is enough to check one op of each group, because membership does not depend on the op.
  void check_group_membership() {
    IndexVector<GroupId, bool> seen(program_.groups.size(), false);
    for (const OpId id : role_.ops.ids()) {
      const Op& op = role_.op(id);
      if (!is_collective(op.kind) || seen[op.group()]) continue;
      seen[op.group()] = true;
      const Rank rank = outside(op.group());
      if (rank < 0) continue;
      faults_.add(op_at(program_, rank, id) + ": the rank is outside its group " +
                  program_.group(op.group()).name);
    }
  }

  /// Whether the parameter has the sections that a unit holds of it.
  bool holds_sections(const UnitParameter& part) const {
    const auto& sections = program_.parameters[part.parameter].sections;
    const auto [first, end] = part.sections;
    return part.sections.all()
               ? first == 0
               : first >= 0 && first < end && end <= static_cast<int>(sections.size());
  }

  void check_unit(const Unit& unit) {
    const std::string name = rank_name() + "unit " + unit.name;
    if (unit.elements < 0 || unit.shard_elements < 0) {
      return faults_.add(name + " has a negative size");
    }
    if (unit.split_group.v != -1 && !in_table(unit.split_group.v, program_.groups)) {
      return faults_.add(name + " names a split group that does not exist");
    }
    for (const UnitParameter& part : unit.parameters) {
      std::int64_t end = 0;
      if (!in_table(part.parameter.v, program_.parameters)) {
        faults_.add(name + " names parameter " + number(part.parameter.v) +
                    ", which does not exist");
      } else if (!holds_sections(part)) {
        faults_.add(name + " holds sections " + number(part.sections.first) + "-" +
                    number(part.sections.end) + " of parameter " +
                    program_.parameters[part.parameter].name + ", which it does not have");
      } else if (part.offset < 0 ||
                 __builtin_add_overflow(part.offset, held_elements(program_, unit, part), &end) ||
                 end > unit.elements) {
        faults_.add(name + ": parameter " + program_.parameters[part.parameter].name +
                    " lies outside its " + number(unit.elements) + " elements");
      }
    }
    if (unit.whole_param && !unit.shard_group.valid()) {
      return faults_.add(name + " keeps whole parameters beside shards, but has no shard group");
    }
    const bool updated = std::any_of(kStates.begin(), kStates.end(), [&](const StateRow& row) {
      return row.keeper == Keeper::Optimizer && unit.has(row.kind);
    });
    if (unit.frozen && (unit.factored || updated)) {
      return faults_.add(name + " is frozen, but has states of an optimizer");
    }
    if (unit.gathered_late && !unit.whole_param) {
      return faults_.add(name + " is gathered late, but holds no whole parameters");
    }
    std::int64_t covered = unit.shard_elements;
    std::int64_t held = unit.shard_elements;  // parameters that a rank holds
    if (unit.shard_group.v != -1) {
      if (!in_table(unit.shard_group.v, program_.groups)) {
        return faults_.add(name + " names a shard group that does not exist");
      }
      const std::vector<int>& dims = program_.group(unit.shard_group).dims;
      if (std::find(dims.begin(), dims.end(), program_.replica_dim()) != dims.end()) {
        return faults_.add(name +
                           " is divided over replicas that train apart, each of which has "
                           "weights of its own");
      }
      const std::int64_t n = group_size(program_.mesh, program_.group(unit.shard_group));
      if (__builtin_mul_overflow(covered, n, &covered)) covered = unit.elements;
      if (unit.whole_param) held = covered;
    }
    if (covered < unit.elements) {
      faults_.add(name + ": its shards hold " + number(covered) + " of " + number(unit.elements) +
                  " elements");
    }
    for (const StateRow& row : kStates) {
      if (row.keeper != Keeper::Reduction) check_state(name, unit, row, held);
    }
    if (!check_low_rank(name, unit)) return;
    for (const StateRow& row : kStates) {
      if (row.keeper == Keeper::Reduction) check_state(name, unit, row, held);
    }
  }

  /// Whether the gradients that a unit sums as products can be such.
  bool check_low_rank(const std::string& name, const Unit& unit) {
    if (unit.feedback_group.v != -1 && !in_table(unit.feedback_group.v, program_.groups)) {
      faults_.add(name + " names a group of feedback that does not exist");
      return false;
    }
    for (const UnitParameter& part : unit.parameters) {
      const Parameter& parameter = program_.parameters[part.parameter];
      const auto [rows, cols] = matrix_shape(parameter);
      if (part.low_rank == 0) continue;
      if (part.low_rank < 0 || part.low_rank > std::min(rows, cols) ||
          !unit.has(StateKind::Sketch) || held_elements(program_, unit, part) != rows * cols) {
        faults_.add(name + ": " + parameter.name + " cannot be a product of rank " +
                    number(part.low_rank));
        return false;
      }
    }
    return true;
  }

  /// `held`: how many elements of its parameters a rank has.
  void check_state(const std::string& name, const Unit& unit, const StateRow& row,
                   std::int64_t held) {
    const BufferId id = unit.states[row.kind];
    std::int64_t elements = row.extent == Extent::Held   ? held
                            : row.extent == Extent::Unit ? unit.elements
                            : row.extent == Extent::Factors
                                ? sketch_offset(program_, unit, unit.parameters.size())
                                : unit.shard_elements;
    const bool required =
        elements > 0 && (row.extent == Extent::Held || row.extent == Extent::Factors);
    bool quantized = false;
    if (row.codes != StateCodes::None && in_table(id.v, role_.buffers)) {
      const Buffer& buffer = role_.buffer(id);
      quantized = buffer.dtype == DType::U8;
      const bool has_block = unit.state_block >= 1 && unit.state_block <= kMostOfBlock;
      if (quantized != has_block || (unit.state_block != 0 && !has_block)) {
        return faults_.add(name + ": " + std::string(row.name) + " is of type " +
                           std::string(to_string(buffer.dtype)) + ", but state_block is " +
                           number(unit.state_block));
      }
      quantized = quantized && elements <= buffer.bytes.v;
      if (quantized) elements = quantized_bytes(elements, unit.state_block);
    }
    if (row.history && unit.history > 0 && !quantized) {
      elements *= std::min<std::int64_t>(unit.history, kMostOfBlock);
    }
    check_unit_buffer(name, row.name, id, elements, required);
  }

  void check_unit_buffer(const std::string& unit, std::string_view what, BufferId id,
                         std::int64_t elements, bool required) {
    if (id.v == -1 && !required) return;
    const std::string name = unit + ": " + std::string(what);
    if (!in_table(id.v, role_.buffers)) return faults_.add(name + " names no buffer");
    const Buffer& buffer = role_.buffer(id);
    if (!role_.buffer(role_.root(id)).persistent()) {
      faults_.add(name + " %b" + number(id.v) + " does not keep its values between steps");
    }
    if (buffer.bytes.v / size_of(buffer.dtype) < elements) {
      faults_.add(name + " %b" + number(id.v) + " has fewer than " + number(elements) +
                  " elements");
    }
  }

  std::string rank_name() const { return "rank " + number(role_.ranks.front()) + ": "; }

  const Program& program_;
  const Role& role_;
  Faults& faults_;
  IndexVector<GroupId, Rank> outside_;     // what outside() has found
  IndexVector<GroupId, int> group_sizes_;  // those that are known; 0: not yet
  IndexVector<int, Rank> rank_of_stage_;   // by coordinate along "pp": a rank of the role, or -1
};

}  // namespace

void check_role(const Program& program, const Role& role, Faults& faults) {
  RoleCheck(program, role, faults).check();
}

}  // namespace lockstep::verification
