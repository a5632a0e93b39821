#include "core/lower/passes/adafactor.hpp"

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/passes/declare.hpp"
#include "core/lower/passes/update_functions.hpp"

namespace lockstep {
namespace {

/// The parameter that holds the second moments of rows, or of columns. Experts come first in both,
/// and are divided as the parameter's are.
Parameter factor_of(const Parameter& parameter, bool of_rows) {
  Parameter factor;
  factor.name = std::string(of_rows ? kFactorRows : kFactorColumns) + parameter.name;
  factor.init = InitKind::Zeros;
  const int dims = static_cast<int>(parameter.shape.size());
  if (dims == 1) {
    factor.shape = {of_rows ? parameter.shape[0] : 1};
  } else {
    for (int d = 0; d < dims; ++d) {
      if (d != (of_rows ? dims - 1 : dims - 2)) factor.shape.push_back(parameter.shape[d]);
    }
  }
  // Of experts, whose matrices begin with the second dimension, ranks may divide each.
  const bool experts = dims == 3;
  const int split = parameter.split_dim;
  const bool whole_experts = experts && split == 0;
  const bool divided = split >= 0 && (whole_experts || (split == (experts ? 1 : 0)) == of_rows);
  if (divided) {
    factor.split_dim = experts && !whole_experts ? 1 : 0;
    factor.sections = parameter.sections;
  }
  factor.first_parts = parameter.first_parts;
  return factor;
}

std::string shape_of(const FactoredParameter& p) {
  std::string text = "." + std::to_string(p.rows) + "x" + std::to_string(p.cols);
  if (p.count > 1) text += "x" + std::to_string(p.count);
  return p.divided == 0 ? text : text + (p.divided == 1 ? "r" : "c");
}

}  // namespace

std::vector<FactoredParameter> factored_parameters(const Program& program, const Unit& unit) {
  const int parts = split_parts(program, unit);
  std::vector<FactoredParameter> all;
  for (const UnitParameter& part : unit.parameters) {
    const Parameter& parameter = program.parameters[part.parameter];
    const auto& shape = parameter.shape;
    const int dims = static_cast<int>(shape.size());
    const std::int64_t held = held_elements(program, unit, part);
    FactoredParameter p;
    p.first = part.offset;
    p.whole_cols = dims == 1 ? 1 : shape[dims - 1];
    p.whole_rows = dims == 1 ? shape[0] : shape[dims - 2];
    p.rows = p.whole_rows;
    p.cols = p.whole_cols;
    const int first = dims == 3 ? 1 : 0;  // dimension of a matrix
    if (parts > 1 && parameter.split_dim >= first) {
      p.divided = parameter.split_dim == first ? 1 : 2;
      if (dims == 3) p.count = shape[0] / parameter.first_parts;
      (p.divided == 1 ? p.rows : p.cols) = held / p.count / (p.divided == 1 ? p.cols : p.rows);
    } else if (dims == 3) {
      p.count = held / (p.rows * p.cols);
    }
    all.push_back(p);
  }
  return all;
}

/// Gives out places in the two buffers of sums, one after the other.
class AdafactorStep::Places {
 public:
  Places(DType dtype, Operand own, Operand shared)
      : size_(size_of(dtype)), own_(own), shared_(shared) {}
  Operand next(bool shared, std::int64_t elements) {
    Operand& of = shared ? shared_ : own_;
    const Operand place = of;
    of.offset += elements * size_;
    return place;
  }
  Operand rows(const FactoredParameter& p) { return next(p.divided == 2, p.count * p.rows); }
  Operand cols(const FactoredParameter& p) { return next(p.divided == 1, p.count * p.cols); }
  Operand one(const FactoredParameter& p) { return next(p.divided != 0, p.count); }
  std::int64_t own_bytes() const { return own_.offset; }
  std::int64_t shared_bytes() const { return shared_.offset; }

 private:
  std::int64_t size_;
  Operand own_, shared_;
};

Operand AdafactorStep::Build::add(const char* name, Access access, DType dtype, BufferId arg,
                                  Bytes bytes) {
  if (!arg.valid()) return {-1, dtype, 0};
  const auto formal = static_cast<std::int16_t>(function.formals.size());
  function.formals.push_back({name, access, bytes});
  args.push_back(arg);
  return {formal, dtype, 0};
}

/// Begins a function of a unit with its name.
AdafactorStep::Build AdafactorStep::begin(const char* name, std::size_t u) {
  Build build;
  build.function.name = std::string(name) + "." + std::to_string(out_.role.units[u].shard_elements);
  for (const FactoredParameter& p : units_[u].parameters) build.function.name += shape_of(p);
  return build;
}

void AdafactorStep::call(const Build& build, std::size_t u) {
  Op op;
  op.kind = OpKind::Call;
  op.phase = Phase::O;
  op.target = draft_.function(build.function).v;
  op.layer = static_cast<std::int16_t>(layer_of(out_, u));
  add_op(out_.role, op, build.args);
}

/// The rank's position in the group that shards a unit.
BufferId AdafactorStep::position(const Unit& unit) {
  if (!unit.shard_group.valid()) return {};
  constexpr std::int64_t kBytes = 4;
  if (!shards_.valid()) {
    Buffer table;
    table.kind = BufferKind::Input;
    table.dtype = DType::I32;
    table.bytes = Bytes{draft_.scenario.strategy.state_shards() * kBytes};
    table.name = draft_.name("shards");
    shards_ = add_buffer(out_.role, table);
    Op op;
    op.kind = OpKind::HostToDevice;
    op.stream = Stream::Copy;
    op.phase = Phase::O;
    op.target = static_cast<std::int32_t>(HostData::Shards);
    add_op(out_.role, op, {shards_});
  }
  return add_piece(out_.role, shards_, unit.shard_group, Bytes{kBytes});
}

/// Declares the persistent unit of the factors of unit `u`.
void AdafactorStep::declare_factors(std::size_t u) {
  State& state = units_[u];
  const Unit& unit = out_.role.units[u];
  state.parameters = factored_parameters(draft_.program, unit);
  Unit factors;
  factors.name = factors_of(unit.name);
  factors.tied_copy = unit.tied_copy;
  factors.split_group = unit.split_group;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const Parameter whole = draft_.program.parameters[unit.parameters[i].parameter];
    const FactoredParameter& p = state.parameters[i];
    factors.parameters.push_back(
        {draft_.add_parameter(factor_of(whole, true)), factors.elements, {}});
    factors.parameters.push_back(
        {draft_.add_parameter(factor_of(whole, false)), factors.elements + p.count * p.rows, {}});
    factors.elements += p.factors();
  }
  factors.shard_elements = factors.elements;
  factors.states[StateKind::Param] =
      declare_buffer(draft_, out_.role, BufferKind::Optimizer, factors.name,
                     factors.elements * size_of(sums()), layer_of(out_, u));
  out_.role.buffers[factors.param()].dtype = sums();
  state.factors = factors.param();
  out_.statistics.push_back(std::move(factors));
}

AdafactorStep::Sums AdafactorStep::add_sums(const char* name, Bytes own, Bytes shared,
                                            std::size_t u) {
  const auto buffer = [&](Bytes bytes) {
    if (bytes.v == 0) return BufferId{};
    const BufferId id =
        declare_buffer(draft_, out_.role, BufferKind::Metric, name, bytes.v, layer_of(out_, u));
    return id;
  };
  return {buffer(own), buffer(shared)};
}

void AdafactorStep::reduce(const Sums& sums, std::size_t u) {
  const Unit& unit = out_.role.units[u];
  const auto add_up = [&](GroupId group, BufferId buffer) {
    if (!group.valid() || !buffer.valid()) return;
    Op op = collective(OpKind::AllReduce, Stream::Reduce, group, layer_of(out_, u));
    op.phase = Phase::O;
    add_op(out_.role, op, {buffer});
  };
  add_up(unit.shard_group, sums.own);
  add_up(unit.shard_group, sums.shared);
  if (unit.split_group.valid()) add_up(dividers(u), sums.shared);
}

/// The ranks that divide the matrices of a unit: of experts, those that divide each, if any do.
/// (Experts' biases, one above the other, are a matrix that the ranks of "ep" divide.)
GroupId AdafactorStep::dividers(std::size_t u) {
  const std::string& axis = layout_of(draft_, out_.units[u]).split_axis;
  const bool of_each = divides_experts(axis) && axis != "ep";
  return of_each ? draft_.axis_group(axis.substr(axis.find('_') + 1))
                 : out_.role.units[u].split_group;
}

Kernel AdafactorStep::kernel(KernelKind kind, std::size_t u, const FactoredParameter& p) const {
  const Unit& unit = out_.role.units[u];
  const int shards = unit.shard_group.valid()
                         ? group_size(draft_.program.mesh, draft_.program.group(unit.shard_group))
                         : 1;
  return bare_kernel(
      kind, draft_.dtype_of(BufferKind::Master),
      {unit.shard_elements, p.first, p.count, p.rows, p.elements(), p.divided, shards});
}

/// The operands that all functions of a unit's shard read.
AdafactorStep::Shared AdafactorStep::shared(Build& build, std::size_t u, BufferId coefficient) {
  const Unit& unit = out_.role.units[u];
  const DType grad = draft_.dtype_of(BufferKind::Grad);
  Shared operands;
  operands.grad = build.add("g", Access::Read, grad, out_.units[u].reduced,
                            Bytes{unit.shard_elements * size_of(grad)});
  operands.coefficient =
      build.add("coefficient", Access::Read, sums(), coefficient, Bytes{size_of(sums())});
  operands.shard = build.add("shard", Access::Read, DType::I32, units_[u].shard, Bytes{4});
  return operands;
}

void AdafactorStep::sum(std::size_t u, BufferId coefficient, BufferId weights) {
  declare_factors(u);
  State& state = units_[u];
  state.shard = position(out_.role.units[u]);
  Places room(sums(), {}, {});
  for (const FactoredParameter& p : state.parameters) {
    room.rows(p);
    room.cols(p);
    room.one(p);
  }
  const Bytes own{room.own_bytes()}, shared_bytes{room.shared_bytes()};
  state.sums = add_sums("factor_sums", own, shared_bytes, u);
  Build build = begin("factor_sums", u);
  const Shared operands = shared(build, u, coefficient);
  const DType type = draft_.dtype_of(BufferKind::Master);
  const Operand w = build.add("w", Access::Read, type, weights,
                              Bytes{out_.role.units[u].shard_elements * size_of(type)});
  const Operand to_own = build.add("own", Access::Write, sums(), state.sums.own, own);
  const Operand to_shared =
      build.add("shared", Access::Write, sums(), state.sums.shared, shared_bytes);
  Places places(sums(), to_own, to_shared);
  for (const FactoredParameter& p : state.parameters) {
    Kernel k = kernel(KernelKind::FactorSums, u, p);
    k.scalars = {1.0 / static_cast<double>(p.whole_rows * p.whole_cols)};
    k.in = {operands.grad, operands.coefficient, w, operands.shard};
    k.out = {places.rows(p), places.cols(p)};
    k.out.push_back(places.one(p));
    build.function.kernels.push_back(std::move(k));
  }
  call(build, u);
  reduce(state.sums, u);
}

void AdafactorStep::square(std::size_t u, BufferId coefficient) {
  State& state = units_[u];
  const OptimizerSpec& o = draft_.scenario.optimizer;
  const auto bytes_of = [&](BufferId id) {
    return id.valid() ? out_.role.buffer(id).bytes : Bytes{0};
  };
  const Bytes factor_bytes = bytes_of(state.factors);
  Build moments = begin("factor_moments", u);
  {
    const Operand coef =
        moments.add("coefficient", Access::Read, sums(), coefficient, Bytes{size_of(sums())});
    const Operand own =
        moments.add("own", Access::Read, sums(), state.sums.own, bytes_of(state.sums.own));
    const Operand shared =
        moments.add("shared", Access::Read, sums(), state.sums.shared, bytes_of(state.sums.shared));
    Operand f = moments.add("factors", Access::ReadWrite, sums(), state.factors, factor_bytes);
    Places places(sums(), own, shared);
    const auto update = [&](Operand sum, std::int64_t elements, std::int64_t of) {
      Kernel k =
          bare_kernel(KernelKind::FactorMoments, draft_.dtype_of(BufferKind::Master), {elements},
                      {1.0 / static_cast<double>(of), o.decay_rate, o.eps_square});
      k.in = {sum, coef};
      k.out = {f};
      f.offset += elements * size_of(sums());
      moments.function.kernels.push_back(std::move(k));
    };
    for (const FactoredParameter& p : state.parameters) {
      update(places.rows(p), p.count * p.rows, p.whole_cols);
      update(places.cols(p), p.count * p.cols, p.whole_rows);
      places.one(p);
    }
  }
  call(moments, u);

  Places room(sums(), {}, {});
  for (const FactoredParameter& p : state.parameters) room.one(p);
  const Bytes own{room.own_bytes()}, shared_bytes{room.shared_bytes()};
  state.squares = add_sums("update_squares", own, shared_bytes, u);
  Build build = begin("factored_squares", u);
  const Shared operands = shared(build, u, coefficient);
  Operand f = build.add("factors", Access::Read, sums(), state.factors, factor_bytes);
  const Operand to_own = build.add("own", Access::Write, sums(), state.squares.own, own);
  const Operand to_shared =
      build.add("shared", Access::Write, sums(), state.squares.shared, shared_bytes);
  Places places(sums(), to_own, to_shared);
  for (const FactoredParameter& p : state.parameters) {
    Kernel k = kernel(KernelKind::FactoredSquares, u, p);
    k.scalars = {1.0 / static_cast<double>(p.whole_rows * p.whole_cols)};
    const Factors factors = next_factors(f, p);
    k.in = {operands.grad, operands.coefficient, factors.rows, factors.cols, operands.shard};
    k.out = {places.one(p)};
    build.function.kernels.push_back(std::move(k));
  }
  call(build, u);
  reduce(state.squares, u);
}

void AdafactorStep::move(std::size_t u, BufferId coefficient, BufferId weights) {
  State& state = units_[u];
  const OptimizerSpec& o = draft_.scenario.optimizer;
  const Unit& unit = out_.role.units[u];
  const bool decays = layout_of(draft_, out_.units[u]).decays;
  Build build = begin(decays ? "adafactor" : "adafactor.plain", u);
  const Shared operands = shared(build, u, coefficient);
  const auto read = [&](const char* name, BufferId id) {
    return build.add(name, Access::Read, sums(), id,
                     id.valid() ? out_.role.buffer(id).bytes : Bytes{0});
  };
  Operand f = read("factors", state.factors);
  Places sums_at(sums(), read("own", state.sums.own), read("shared", state.sums.shared));
  Places squares_at(sums(), read("own_squares", state.squares.own),
                    read("shared_squares", state.squares.shared));
  const auto updated = [&](const char* name, BufferId id) {
    const DType type = id.valid() ? out_.role.buffer(id).dtype : DType::F32;
    return build.add(name, Access::ReadWrite, type, id, Bytes{unit.shard_elements * size_of(type)});
  };
  const Operand w = updated("w", weights), m = updated("m", unit.states[StateKind::Moment1]);
  for (const FactoredParameter& p : state.parameters) {
    Kernel k = kernel(KernelKind::Adafactor, u, p);
    k.dims[7] = o.relative_step ? 1 : 0;
    k.scalars = {o.scale_parameter ? o.eps_scale : 0, o.clip_threshold, o.first_moment_decay,
                 decays ? o.weight_decay : 0};
    const Factors factors = next_factors(f, p);
    sums_at.rows(p);
    sums_at.cols(p);
    const Operand scale = sums_at.one(p);
    k.in = {operands.grad, operands.coefficient, factors.rows,  factors.cols,
            scale,         squares_at.one(p),    operands.shard};
    k.out = {w, m};
    build.function.kernels.push_back(std::move(k));
  }
  call(build, u);
}

/// The factors of the next parameter, behind which `factors` goes on.
AdafactorStep::Factors AdafactorStep::next_factors(Operand& factors, const FactoredParameter& p) {
  const std::int64_t size = size_of(factors.dtype);
  Factors found{factors, factors};
  found.cols.offset += p.count * p.rows * size;
  factors.offset += p.factors() * size;
  return found;
}

}  // namespace lockstep
