#include "core/lower/passes/muon.hpp"

#include <string>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/passes/update_functions.hpp"

namespace lockstep {

std::vector<HeldMatrix> matrices_of(const Program& program, const OptimizerSpec& optimizer,
                                    const UnitLayout& layout, const Unit& unit) {
  std::vector<HeldMatrix> matrices;
  const int parts = split_parts(program, unit);
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& parameter = layout.parameters[i];
    const bool experts = parameter.shape.size() == 3;
    const bool divided = !experts && parameter.split_dim >= 0 && parts > 1;
    const std::int64_t cols = parameter.shape[parameter.shape.size() - 1];
    std::int64_t offset = layout.offsets[i];
    const std::int64_t count =
        !experts ? 1 : parameter.shape[0] / (parameter.split_dim == 0 ? parts : 1);
    for (std::int64_t expert = 0; expert < count; ++expert) {
      const std::vector<std::int64_t>& sections = layout.matrix_rows[i];
      for (std::size_t s = 0; s < sections.size(); ++s) {
        if (!layout.sections[i].holds(s)) continue;
        HeldMatrix matrix{offset, sections[s], cols};
        matrix.factor = optimizer.adjustment(sections[s], cols);
        if (divided) {
          matrix.parts = parts;
          matrix.by_columns = parameter.split_dim == 1;
          std::int64_t& side = matrix.by_columns ? matrix.cols : matrix.rows;
          side = ceil_div(side, parts);
        }
        offset += matrix.elements();
        matrices.push_back(matrix);
      }
    }
  }
  return matrices;
}

DType MuonStep::dtype() const {
  const Scenario& s = draft_.scenario;
  return type_of(s.optimizer.ns_dtype, s.training.dtype);
}

BufferId MuonStep::buffer(const char* name, DType dtype, std::int64_t elements, std::size_t u) {
  Buffer buffer;
  buffer.kind = BufferKind::Workspace;
  buffer.dtype = dtype;
  buffer.bytes = Bytes{elements * size_of(dtype)};
  buffer.layer = static_cast<std::int16_t>(layer_of(out_, u));
  buffer.name = draft_.name(name);
  return add_buffer(out_.role, buffer);
}

void MuonStep::call(const Function& function, const std::vector<BufferId>& args, std::size_t u) {
  call(draft_.function(function), args, u);
}

void MuonStep::call(FunctionId function, const std::vector<BufferId>& args, std::size_t u) {
  Op op;
  op.kind = OpKind::Call;
  op.phase = Phase::O;
  op.target = function.v;
  op.layer = static_cast<std::int16_t>(layer_of(out_, u));
  add_op(out_.role, op, args);
}

void MuonStep::gather(GroupId group, Stream stream, BufferId from, BufferId to, std::size_t u) {
  Op op = collective(OpKind::AllGather, stream, group, layer_of(out_, u));
  op.phase = Phase::O;
  add_op(out_.role, op, {from, to});
}

void MuonStep::begin(std::size_t u, BufferId coefficient) {
  if (directions_[u].valid()) return;
  const OptimizerSpec& o = draft_.scenario.optimizer;
  const std::int64_t elements = out_.role.units[u].shard_elements;
  const BufferId moment = out_.role.units[u].states[StateKind::Moment1];
  const DType moments = out_.role.buffer(moment).dtype;
  const BufferId direction = buffer("direction", dtype(), elements, u);
  std::vector<BufferId> args = {out_.units[u].reduced};
  if (coefficient.valid()) args.push_back(coefficient);
  args.insert(args.end(), {moment, direction});
  call(one_kernel("momentum." + std::to_string(elements),
                  bare_kernel(KernelKind::Momentum, draft_.dtype_of(BufferKind::Master), {elements},
                              {o.momentum, o.nesterov ? 1.0 : 0.0}),
                  {{"g", draft_.dtype_of(BufferKind::Grad)},
                   {coefficient.valid() ? "coefficient" : "", draft_.dtype_of(BufferKind::Metric)}},
                  {{"m", moments}, {"direction", dtype()}}),
       args, u);
  directions_[u] = direction;
  if (!gathers(u)) return;
  const GroupId group = out_.role.units[u].shard_group;
  const int shards = group_size(draft_.program.mesh, draft_.program.group(group));
  directions_[u] = buffer("directions", dtype(), elements * shards, u);
  gather(group, Stream::Gather, direction, directions_[u], u);
}

void MuonStep::finish(std::size_t u, BufferId coefficient, BufferId weights) {
  const OptimizerSpec& o = draft_.scenario.optimizer;
  const Unit& unit = out_.role.units[u];
  const std::int64_t elements = unit.shard_elements;
  const std::int64_t size = size_of(dtype());
  BufferId direction = std::exchange(directions_[u], {});
  const std::int64_t padding = out_.role.buffer(direction).bytes.v / size - unit.elements;
  if (padding > 0) {
    call(
        one_kernel("zero_direction." + std::to_string(padding),
                   bare_kernel(KernelKind::Fill, dtype(), {padding}), {}, {{"direction", dtype()}}),
        {add_view(out_.role, direction, unit.elements * size, Bytes{padding * size})}, u);
  }
  orthogonalize(u, direction);
  if (gathers(u)) {
    direction = add_piece(out_.role, direction, unit.shard_group, Bytes{elements * size});
  }
  std::vector<BufferId> args = {direction};
  if (coefficient.valid()) args.push_back(coefficient);
  args.push_back(weights);
  const DType type = draft_.dtype_of(BufferKind::Master);
  call(one_kernel(
           "muon." + std::to_string(elements),
           bare_kernel(KernelKind::Muon, type, {elements}, {o.muon_lr_factor(), o.weight_decay}),
           {{"direction", dtype()},
            {coefficient.valid() ? "coefficient" : "", draft_.dtype_of(BufferKind::Metric)}},
           {{"w", type}}),
       args, u);
}

/// Gathers each matrix that ranks divide while the one before it is computed.
void MuonStep::orthogonalize(std::size_t u, BufferId direction) {
  const Unit& unit = out_.role.units[u];
  const std::int64_t size = size_of(dtype());
  const std::vector<HeldMatrix> matrices = matrices_of(draft_.program, draft_.scenario.optimizer,
                                                       layout_of(draft_, out_.units[u]), unit);
  const GroupId group = unit.split_group;
  std::vector<BufferId> own, whole;  // by matrix: what the rank holds, and all parts of it
  const auto bring = [&](std::size_t k) {
    const HeldMatrix& matrix = matrices[k];
    own.push_back(
        add_view(out_.role, direction, matrix.offset * size, Bytes{matrix.elements() * size}));
    whole.push_back(own[k]);
    if (matrix.parts == 1) return;
    whole[k] = buffer("matrix", dtype(), matrix.elements() * matrix.parts, u);
    gather(group, Stream::Layer, own[k], whole[k], u);
  };
  bring(0);
  for (std::size_t k = 0; k < matrices.size(); ++k) {
    if (k + 1 < matrices.size()) bring(k + 1);
    const HeldMatrix& matrix = matrices[k];
    orthogonalize(u, matrix, whole[k]);
    if (matrix.parts == 1) continue;
    const BufferId part = add_piece(out_.role, whole[k], group, Bytes{matrix.elements() * size});
    call(copy_function(draft_, matrix.elements(), dtype(), dtype(), false), {part, own[k]}, u);
  }
}

void MuonStep::orthogonalize(std::size_t u, const HeldMatrix& matrix, BufferId whole) {
  const Scenario& s = draft_.scenario;
  NewtonSchulz what;
  what.rows = matrix.rows * (matrix.by_columns ? 1 : matrix.parts);
  what.cols = matrix.cols * (matrix.by_columns ? matrix.parts : 1);
  what.column_parts = matrix.by_columns ? matrix.parts : 1;
  what.dtype = dtype();
  what.tf32 = dtype() == DType::F32 && s.cluster.device.tf32_rate.v > 0 &&
              s.training.float32_matmul == Float32Products::Tf32;
  what.steps = s.optimizer.ns_steps;
  what.factor = matrix.factor;
  const std::int64_t n = std::min(what.rows, what.cols);
  call(newton_schulz(what),
       {whole, buffer("other", dtype(), what.rows * what.cols, u),
        buffer("product", dtype(), n * n, u), buffer("polynomial", dtype(), n * n, u),
        buffer("norm", sum_type(dtype()), 1, u)},
       u);
}

}  // namespace lockstep
