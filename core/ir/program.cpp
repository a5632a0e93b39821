#include "core/ir/program.hpp"

#include <algorithm>
#include <limits>

namespace lockstep {
namespace {

template <class Id>
bool same_slice(const std::vector<Id>& a, std::size_t a_begin, const std::vector<Id>& b,
                std::size_t b_begin, std::size_t count) {
  if (count == 0) return true;
  if (a_begin + count > a.size() || b_begin + count > b.size()) return false;
  return std::equal(a.begin() + static_cast<std::ptrdiff_t>(a_begin),
                    a.begin() + static_cast<std::ptrdiff_t>(a_begin + count),
                    b.begin() + static_cast<std::ptrdiff_t>(b_begin));
}

bool role_changes_along(const Program& program, int dim) {
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    const Rank origin = program.mesh.with_coordinate(rank, dim, 0);
    if (program.role_of_rank[rank] != program.role_of_rank[origin]) {
      return true;
    }
  }
  return false;
}

// Whether ranks of one role differ in what they do along `dim`: groups that keep some coordinates
// only tell them apart, and so do peers, which are absolute coordinates along "pp".
bool ops_look_along(const Program& program, int dim) {
  for (const Group& group : program.groups) {
    if (!group.only.empty() && !group.dims.empty() && group.dims[0] == dim) return true;
  }
  if (dim != program.mesh.index_of("pp")) return false;
  return std::any_of(program.roles.begin(), program.roles.end(), [](const Role& role) {
    return std::any_of(role.ops.begin(), role.ops.end(),
                       [](const Op& op) { return is_p2p(op.kind); });
  });
}

}  // namespace

std::int64_t sketch_offset(const Program& program, const Unit& unit, std::size_t index) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index; ++i) {
    const UnitParameter& part = unit.parameters[i];
    offset += part.low_rank * matrix_shape(program.parameters[part.parameter]).cols;
  }
  return offset;
}

int Program::replica_dim() const {
  const int dim = sync_every > 0 ? mesh.index_of("dp_replicate") : -1;
  return dim >= 0 && mesh.dims[dim].size > 1 ? dim : -1;
}

OpId first_synchronization(const Role& role) {
  const auto at = std::find_if(role.ops.begin(), role.ops.end(),
                               [](const Op& op) { return op.phase == Phase::S; });
  return {static_cast<std::int32_t>(at - role.ops.begin())};
}

Program without_synchronization(const Program& program) {
  Program inner = program;
  for (Role& role : inner.roles) role.ops.resize(to_size(first_synchronization(role)));
  return inner;
}

Work work(const Function& function) {
  Work total{};
  for (const Kernel& kernel : function.kernels) total = total + work(kernel);
  return total;
}

int split_parts(const Program& program, const Unit& unit) {
  return unit.split_group.valid() ? group_size(program.mesh, program.group(unit.split_group)) : 1;
}

std::int64_t held_elements(const Program& program, const Unit& unit, const UnitParameter& part) {
  return held_elements(program.parameters[part.parameter], split_parts(program, unit),
                       part.sections);
}

std::int64_t Role::arena_offset(BufferId id) const {
  std::int64_t offset = 0;
  for (; id.valid(); id = buffer(id).parent()) offset += buffer(id).offset;
  return offset;
}

bool Role::expect_rows(Op& op, ExpectedRows expected) {
  op.rows = -1;
  if (expected == ExpectedRows{}) return true;
  const auto known = std::find(rows.begin(), rows.end(), expected);
  const auto place = known - rows.begin();
  if (place > std::numeric_limits<std::int16_t>::max()) return false;
  if (known == rows.end()) rows.push_back(expected);
  op.rows = static_cast<std::int16_t>(place);
  return true;
}

BufferId Role::root(BufferId id) const {
  while (buffer(id).is_view()) id = buffer(id).parent();
  return id;
}

bool Role::operator==(const Role& other) const {
  if (ranks != other.ranks || ops != other.ops || buffers != other.buffers ||
      units != other.units || arena != other.arena || host_arena != other.host_arena ||
      drive_arena != other.drive_arena) {
    return false;
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& a = ops[i];
    const Op& b = other.ops[i];
    if (rows_of(a) != other.rows_of(b) ||
        !same_slice(after, a.after_begin, other.after, b.after_begin, a.after_count) ||
        !same_slice(args, a.args_begin, other.args, b.args_begin, a.args_count)) {
      return false;
    }
  }
  return true;
}

std::int64_t arena_offset(const Program& program, Rank rank, BufferId id) {
  const Role& role = program.role_of(rank);
  std::int64_t offset = 0;
  for (; id.valid(); id = role.buffer(id).parent()) {
    const Buffer& buffer = role.buffer(id);
    offset += buffer.offset;
    if (buffer.piece_of().valid()) {
      offset += position(program.mesh, program.group(buffer.piece_of()), rank) * buffer.bytes.v;
    }
  }
  return offset;
}

Bytes span_of(const Program& program, const Buffer& buffer) {
  if (!buffer.piece_of().valid()) return buffer.bytes;
  return group_size(program.mesh, program.group(buffer.piece_of())) * buffer.bytes;
}

Access access(const Program& program, const Op& op, std::size_t index) {
  switch (op.kind) {
    case OpKind::Call:
      return program.function(op.function()).formals[index].access;
    case OpKind::AllReduce:
    case OpKind::Broadcast:
      return Access::ReadWrite;
    case OpKind::AllGather:
    case OpKind::ReduceScatter:
    case OpKind::AllToAll:
    case OpKind::Rotate:
      return index == 0 ? Access::Read : Access::Write;
    case OpKind::AllToAllRows:
    case OpKind::AllGatherRows:
    case OpKind::ReduceScatterRows:
      return index == 1 ? Access::Write : Access::Read;
    case OpKind::Send:
      return Access::Read;
    case OpKind::Recv:
      return Access::Write;
    case OpKind::DeviceToHost:
    case OpKind::DriveToHost:
    case OpKind::HostToDrive:
      return index == 0 ? Access::Read : Access::Write;
    case OpKind::HostToDevice:
      return index == 0 && op.moves_memory() ? Access::Read : Access::Write;
  }
  return Access::ReadWrite;
}

Bytes payload_bytes(const Program& program, const Role& role, const Op& op) {
  if (op.kind == OpKind::Call) return Bytes{0};
  if (is_counted(op.kind)) {
    const ExpectedRows rows = role.rows_of(op);
    const Bytes one{std::int64_t{rows.count} * rows.bytes};
    return op.kind == OpKind::AllToAllRows
               ? one
               : group_size(program.mesh, program.group(op.group())) * one;
  }
  const auto args = role.args_of(op);
  const std::size_t whole = op.kind == OpKind::AllGather ? 1 : 0;
  return whole < args.size() ? role.buffer(args[whole]).bytes : Bytes{0};
}

bool reads_host_data(const Program& program) {
  const auto from_host = [](const Op& op) {
    return op.kind == OpKind::HostToDevice && !op.moves_memory();
  };
  return std::any_of(program.roles.begin(), program.roles.end(), [&](const Role& role) {
    return std::any_of(role.ops.begin(), role.ops.end(), from_host);
  });
}

std::string describe(const Program& program, const Role& role, OpId id) {
  const Op& op = role.op(id);
  const auto tagged = [](std::string_view tag, int value) {
    return value < 0 ? std::string{} : " " + std::string(tag) + std::to_string(value);
  };
  const std::string tags = tagged("s", op.stage) + tagged("mb", op.microbatch);
  if (op.kind == OpKind::Call) {
    return program.function(op.function()).name + tags + tagged("L", op.layer);
  }
  std::string text(to_string(op.kind));
  if (is_collective(op.kind)) {
    return text + " " + program.group(op.group()).name + tags + tagged("L", op.layer);
  }
  if (is_p2p(op.kind)) {
    if (op.phase != Phase::None) text += " " + std::string(to_string(op.phase));
    return text + tags + (op.kind == OpKind::Send ? " -> pp" : " <- pp") +
           std::to_string(op.peer());
  }
  return text + " " + std::string(to_string(op.host())) + tags;
}

Folding fold(const Program& program) {
  std::vector<int> folded;
  for (int dim = 0; dim < static_cast<int>(program.mesh.dims.size()); ++dim) {
    if (!role_changes_along(program, dim) && !ops_look_along(program, dim)) folded.push_back(dim);
  }
  Folding result;
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    Rank representative = rank;
    for (const int dim : folded) {
      representative = program.mesh.with_coordinate(representative, dim, 0);
    }
    if (representative == rank) result.representatives.push_back(rank);
    result.representative_of.push_back(representative);
  }
  return result;
}

}  // namespace lockstep
