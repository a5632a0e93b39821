#include "core/ir/program.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <limits>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, kNumBufferKinds> kBufferKindNames = {
    "param", "param_full", "grad",  "master", "optimizer",     "activation", "boundary",
    "comm",  "workspace",  "input", "metric", "param_version", "outer"};

constexpr std::array<std::string_view, kNumOpKinds> kOpKindNames = {"call",
                                                                    "all_reduce",
                                                                    "all_gather",
                                                                    "reduce_scatter",
                                                                    "broadcast",
                                                                    "all_to_all",
                                                                    "all_to_all_rows",
                                                                    "all_gather_rows",
                                                                    "reduce_scatter_rows",
                                                                    "rotate",
                                                                    "send",
                                                                    "recv",
                                                                    "host_to_device",
                                                                    "device_to_host",
                                                                    "drive_to_host",
                                                                    "host_to_drive"};

constexpr std::array<std::string_view, kNumStreams> kStreamNames = {
    "compute",      "layer",        "gather",        "reduce",        "replicate",
    "send_forward", "recv_forward", "send_backward", "recv_backward", "copy",
    "copy_back",    "host",         "stages",        "drive_read",    "drive_write"};

constexpr std::array<std::string_view, kNumTiers> kTierNames = {"device", "host", "drive"};

constexpr std::array<std::string_view, kNumHostData> kHostDataNames = {
    "tokens",       "targets",          "images",
    "documents",    "document_spans",   "document_positions",
    "dropout_keys", "all_dropout_keys", "attention_dropout",
    "positions",    "starts",           "columns",
    "part",         "shards",           "loss_scale",
    "loss",         "grad_norm",        "memory"};

template <class Names, class Enum>
std::string_view name_of(const Names& names, Enum value) {
  const std::size_t i = to_size(value);
  return i < names.size() ? names[i] : "?";
}

// The difference of the ranks of two neighbours along `dim`.
std::int64_t stride(const Mesh& mesh, int dim) {
  std::int64_t result = 1;
  for (std::size_t d = to_size(dim) + 1; d < mesh.dims.size(); ++d) {
    result *= mesh.dims[d].size;
  }
  return result;
}

std::vector<int> sorted_dims(const Group& group) {
  std::vector<int> dims = group.dims;
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

bool keeps(const Group& group, int coordinate) {
  return group.only.empty() ||
         std::find(group.only.begin(), group.only.end(), coordinate) != group.only.end();
}

/// How many of the coordinates below `end` along `dim`, by default of all, a group keeps.
int coordinates_below(const Mesh& mesh, const Group& group, int dim, int end = INT_MAX) {
  end = std::min(end, mesh.dims[dim].size);
  if (dim != group.dims[0] || group.only.empty()) return end;
  int count = 0;
  for (int c = 0; c < end; ++c) count += keeps(group, c);
  return count;
}

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

std::string_view to_string(BufferKind kind) { return name_of(kBufferKindNames, kind); }
std::string_view to_string(OpKind kind) { return name_of(kOpKindNames, kind); }
std::string_view to_string(Tier tier) { return name_of(kTierNames, tier); }
std::string_view to_string(Stream stream) { return name_of(kStreamNames, stream); }
std::string_view to_string(HostData data) { return name_of(kHostDataNames, data); }

int Mesh::world_size() const {
  int size = 1;
  for (const MeshDim& dim : dims) size *= dim.size;
  return size;
}

int Mesh::index_of(std::string_view name) const {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].name == name) return static_cast<int>(d);
  }
  return -1;
}

int Mesh::size_of(std::string_view name) const {
  const int dim = index_of(name);
  return dim < 0 ? 1 : dims[dim].size;
}

int tensor_ranks(const Mesh& mesh) {
  int ranks = 1;
  for (const std::string_view dim : kTensorDims) ranks *= mesh.size_of(dim);
  return ranks;
}

std::vector<int> tensor_dims(const Mesh& mesh) {
  std::vector<int> dims;
  for (const std::string_view dim : kTensorDims) {
    if (mesh.size_of(dim) > 1) dims.push_back(mesh.index_of(dim));
  }
  return dims;
}

int Mesh::coordinate(Rank rank, int dim) const {
  return static_cast<int>(rank / stride(*this, dim) % dims[dim].size);
}

Rank Mesh::with_coordinate(Rank rank, int dim, int coordinate) const {
  return static_cast<Rank>(rank + (coordinate - this->coordinate(rank, dim)) * stride(*this, dim));
}

std::vector<Rank> members(const Mesh& mesh, const Group& group, Rank rank) {
  std::vector<Rank> ranks = {rank};
  // The outermost dimension comes first, so that the product of coordinates is in rank order.
  for (const int dim : sorted_dims(group)) {
    const bool filtered = dim == group.dims[0];
    std::vector<Rank> next;
    for (const Rank base : ranks) {
      for (int c = 0; c < mesh.dims[dim].size; ++c) {
        if (!filtered || keeps(group, c)) next.push_back(mesh.with_coordinate(base, dim, c));
      }
    }
    ranks = std::move(next);
  }
  return ranks;
}

int group_size(const Mesh& mesh, const Group& group) {
  int size = 1;
  for (const int dim : sorted_dims(group)) size *= coordinates_below(mesh, group, dim);
  return size;
}

int position(const Mesh& mesh, const Group& group, Rank rank) {
  int result = 0;
  for (const int dim : sorted_dims(group)) {
    const int own = mesh.coordinate(rank, dim);
    if (dim == group.dims[0] && !keeps(group, own)) return -1;
    result =
        result * coordinates_below(mesh, group, dim) + coordinates_below(mesh, group, dim, own);
  }
  return result;
}

Rank first_member(const Mesh& mesh, const Group& group, Rank rank) {
  for (const int dim : group.dims) {
    int first = 0;
    while (dim == group.dims[0] && !keeps(group, first)) ++first;
    rank = mesh.with_coordinate(rank, dim, first);
  }
  return rank;
}

MatrixShape matrix_shape(const Parameter& parameter) {
  const std::int64_t rows = parameter.shape.empty() ? 1 : parameter.shape[0];
  return {rows, rows == 0 ? 0 : parameter.elements() / rows};
}

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

bool operator==(const Op& a, const Op& b) {
  return a.kind == b.kind && a.stream == b.stream && a.phase == b.phase &&
         a.after_count == b.after_count && a.target == b.target && a.args_count == b.args_count &&
         a.layer == b.layer && a.stage == b.stage && a.root == b.root && a.largest == b.largest &&
         a.microbatch == b.microbatch;
}

std::int64_t Parameter::elements() const {
  std::int64_t result = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(result, extent, &result)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return result;
}

std::int64_t held_elements(const Parameter& parameter, int parts, SectionRange sections) {
  Parameter held = parameter;
  const int first = parts == 1 ? 1 : parameter.first_parts;
  if (first > 1) held.shape[0] = ceil_div(held.shape[0], std::int64_t{first});
  if (parameter.split_dim < 0 || (parts == 1 && sections.all())) return held.elements();
  parts /= first;
  std::int64_t& extent = held.shape[parameter.split_dim];
  extent = 0;
  for (std::size_t s = 0; s < parameter.sections.size(); ++s) {
    const std::int64_t section = sections.holds(s) ? parameter.sections[s] : 0;
    extent += section / parts + (section % parts != 0 ? 1 : 0);
  }
  return held.elements();
}

std::string factors_of(const std::string& unit) { return unit + ".factors"; }

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
