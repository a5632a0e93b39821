#include "core/lower/draft.hpp"

#include <algorithm>

#include "core/lower/shard.hpp"

namespace lockstep {

std::int32_t Draft::name(std::string_view text) {
  const auto found = names_.find(text);
  if (found != names_.end()) return found->second;
  const auto index = static_cast<std::int32_t>(program.names.size());
  program.names.emplace_back(text);
  names_.emplace(text, index);
  return index;
}

GroupId Draft::group(std::string_view name, const std::vector<std::string_view>& dims,
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

FunctionId Draft::function(const Function& function) {
  const auto found = functions_.find(function.name);
  if (found != functions_.end()) return found->second;
  const FunctionId id{static_cast<std::int32_t>(program.functions.size())};
  program.functions.push_back(function);
  program.functions.back().emitted = fingerprint(function);
  functions_.emplace(function.name, id);
  return id;
}

FunctionId Draft::function(const Function& function, FunctionOrigin origin) {
  const FunctionId id = this->function(function);
  const auto i = static_cast<std::size_t>(id.v);
  if (origins_.size() <= i) origins_.resize(i + 1);
  origins_[i] = origin;
  return id;
}

FunctionOrigin Draft::origin(FunctionId function) const {
  const auto i = static_cast<std::size_t>(function.v);
  return i < origins_.size() ? origins_[i] : FunctionOrigin{};
}

std::vector<LayerStep> Draft::steps(int kind, Phase phase,
                                    const std::vector<std::string>& accumulate) {
  const FunctionBuilder& f = model.kinds[static_cast<std::size_t>(kind)].functions;
  switch (phase) {
    case Phase::F:
      return f.forward();
    case Phase::R:
      return f.recomputation();
    case Phase::I:
      return f.backward(Part::InputGrad, {});
    case Phase::W:
      return f.backward(Part::WeightGrad, accumulate);
    default:
      return f.backward(accumulate);
  }
}

GroupId Draft::axis_group(const std::string& axis) {
  return axis == "dp" ? data_group(*this) : group(axis, {axis});
}

DType Draft::dtype_of(BufferKind kind) const {
  const TrainingSpec& training = scenario.training;
  switch (kind) {
    case BufferKind::Master:
    case BufferKind::Optimizer:
      return training.dtype;
    case BufferKind::Grad:
      return training.reduce_dtype();
    case BufferKind::Metric:
      return sum_type(training.dtype);
    case BufferKind::Input:
      return DType::I32;
    default:
      return training.param_dtype();
  }
}

BufferId add_buffer(Role& role, const Buffer& buffer) {
  role.buffers.push_back(buffer);
  return {static_cast<std::int32_t>(role.buffers.size()) - 1};
}

BufferId add_view(Role& role, BufferId parent, std::int64_t offset, Bytes bytes) {
  Buffer view = role.buffer(parent);
  view.parent = parent;
  view.offset = offset;
  view.bytes = bytes;
  return add_buffer(role, view);
}

BufferId add_piece(Role& role, BufferId parent, GroupId group, Bytes bytes) {
  const BufferId piece = add_view(role, parent, 0, bytes);
  role.buffers[static_cast<std::size_t>(piece.v)].piece_of = group;
  return piece;
}

void add_op(Role& role, Op op, const std::vector<BufferId>& args) {
  op.args_begin = static_cast<std::uint32_t>(role.args.size());
  op.args_count = static_cast<std::uint16_t>(args.size());
  role.args.insert(role.args.end(), args.begin(), args.end());
  role.ops.push_back(op);
}

void insert_ops(Role& role, std::vector<Insertion> insertions) {
  std::stable_sort(insertions.begin(), insertions.end(),
                   [](const Insertion& a, const Insertion& b) { return a.before < b.before; });
  std::vector<Op> old;
  old.swap(role.ops);
  role.ops.reserve(old.size() + insertions.size());
  std::vector<OpId> moved_to(old.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i <= old.size(); ++i) {
    for (; next < insertions.size() && insertions[next].before == i; ++next) {
      add_op(role, insertions[next].op, insertions[next].args);
    }
    if (i == old.size()) break;
    moved_to[i] = {static_cast<std::int32_t>(role.ops.size())};
    role.ops.push_back(old[i]);
  }
  for (OpId& earlier : role.after) earlier = moved_to[static_cast<std::size_t>(earlier.v)];
}

}  // namespace lockstep
