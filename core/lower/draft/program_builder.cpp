#include "core/lower/draft/program_builder.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// A short text that tells functions apart: "norm_squared.64(g, squares: norm_squared float32)".
std::string signature(const Function& function) {
  std::string text = function.name + "(";
  for (const Formal& formal : function.formals) {
    text += (text.back() == '(' ? "" : ", ") + formal.name + " " + std::to_string(formal.bytes.v);
  }
  text += ":";
  for (const Kernel& kernel : function.kernels) {
    text += " " + std::string(info(kernel.kind).name) + " " + std::string(to_string(kernel.dtype));
  }
  return text + ")";
}

/// Makes room for so many more elements. The lists of roles are most of what lowering needs, so
/// they grow by a quarter and not to twice their size.
template <class T>
void make_room(std::vector<T>& list, std::size_t more) {
  const std::size_t size = list.size() + more;
  if (size > list.capacity()) list.reserve(size + size / 4);
}

}  // namespace

void ProgramBuilder::add_fault(std::string message) {
  if (!fault_) fault_ = Error{ErrorKind::Internal, std::move(message), std::nullopt};
}

std::int16_t ProgramBuilder::name(std::string_view text) {
  const auto found = names_.find(text);
  if (found != names_.end()) return found->second;
  const auto index = static_cast<std::int16_t>(program.names.size());
  if (program.names.size() == kMostNames) {
    add_fault("a program has at most " + std::to_string(kMostNames) + " names of buffers");
    return -1;
  }
  program.names.emplace_back(text);
  names_.emplace(text, index);
  return index;
}

GroupId ProgramBuilder::group(std::string_view name, const std::vector<std::string_view>& dims,
                              std::vector<int> only) {
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    if (program.groups[g].name == name) return {static_cast<std::int32_t>(g)};
  }
  Group group;
  group.name = name;
  for (std::string_view dim : dims) group.dims.push_back(program.mesh.index_of(dim));
  group.only = std::move(only);
  program.groups.push_back(std::move(group));
  return {static_cast<std::int32_t>(program.groups.size()) - 1};
}

FunctionId ProgramBuilder::function(const Function& function) {
  const auto found = functions_.find(function.name.text());
  if (found != functions_.end()) {
    const Function& known = program.function(found->second);
    if (known.emitted != fingerprint(function)) {
      add_fault("two different functions have one name: " + signature(known) + " and " +
                signature(function));
    }
    return found->second;
  }
  const FunctionId id{static_cast<std::int32_t>(program.functions.size())};
  program.functions.push_back(function);
  program.functions.back().emitted = fingerprint(function);
  functions_.emplace(function.name.text(), id);
  return id;
}

BufferId add_buffer(Role& role, Buffer buffer) {
  make_room(role.buffers, 1);
  role.buffers.push_back(buffer);
  return {static_cast<std::int32_t>(role.buffers.size()) - 1};
}

BufferId add_view(Role& role, BufferId parent, std::int64_t offset, Bytes bytes) {
  Buffer view = role.buffer(parent);
  view.set_view(parent);
  view.offset = offset;
  view.bytes = bytes;
  return add_buffer(role, view);
}

BufferId add_piece(Role& role, BufferId parent, GroupId group, Bytes bytes) {
  const BufferId piece = add_view(role, parent, 0, bytes);
  role.buffers[piece].set_view(parent, group);
  return piece;
}

BufferId own_parameters(Role& role, const Unit& unit) {
  if (!unit.whole_param) return unit.param();
  const Bytes bytes{unit.shard_elements * size_of(role.buffer(unit.param()).dtype)};
  return add_piece(role, unit.param(), unit.shard_group, bytes);
}

void add_op(Role& role, Op op, const std::vector<BufferId>& args) {
  op.args_begin = static_cast<std::uint32_t>(role.args.size());
  op.args_count = static_cast<std::uint16_t>(args.size());
  make_room(role.args, args.size());
  role.args.insert(role.args.end(), args.begin(), args.end());
  make_room(role.ops, 1);
  role.ops.push_back(op);
}

IndexVector<OpId, OpId> insert_ops(Role& role, std::vector<Insertion> insertions) {
  std::stable_sort(insertions.begin(), insertions.end(),
                   [](const Insertion& a, const Insertion& b) { return a.before < b.before; });
  IndexVector<OpId, OpId> moved_to(role.ops.size() + 1);
  if (insertions.empty()) {
    for (const OpId id : moved_to.ids()) moved_to[id] = id;
    return moved_to;
  }
  std::vector<Op> old;
  old.swap(role.ops);
  role.ops.reserve(with_room(old.size() + insertions.size()));
  std::size_t next = 0;
  for (std::size_t i = 0; i <= old.size(); ++i) {
    for (; next < insertions.size() && insertions[next].before == i; ++next) {
      add_op(role, insertions[next].op, insertions[next].args);
    }
    if (i == old.size()) break;
    moved_to[i] = {static_cast<std::int32_t>(role.ops.size())};
    role.ops.push_back(old[i]);
  }
  for (OpId& earlier : role.after) earlier = moved_to[earlier];
  moved_to.back() = {static_cast<std::int32_t>(role.ops.size())};
  return moved_to;
}

Op collective(OpKind kind, Stream stream, GroupId group, int layer) {
  Op op;
  op.kind = kind;
  op.stream = stream;
  op.target = group.v;
  op.layer = static_cast<std::int16_t>(layer);
  return op;
}

Op memory_copy(OpKind kind, int layer) {
  Op op;
  op.kind = kind;
  op.stream = kind == OpKind::HostToDevice   ? Stream::Copy
              : kind == OpKind::DeviceToHost ? Stream::CopyBack
              : kind == OpKind::DriveToHost  ? Stream::DriveRead
                                             : Stream::DriveWrite;
  op.target = static_cast<std::int32_t>(HostData::Memory);
  op.layer = static_cast<std::int16_t>(layer);
  return op;
}

}  // namespace lockstep
