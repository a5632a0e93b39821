// Adafactor: the update of units by second moments of the rows and columns of their matrices
// (Shazeer and Stern 2018).
//
// Sums over rows and columns are linear in the elements, so that ranks which share a unit's states,
// or divide its matrices, add up what each of them has: two small all-reduces for every unit, of
// rows + columns + 1 elements of each matrix, and of one. No gradient is gathered, and shards stay
// flat. The second moments are the same on all ranks of a shard group. With DTensors (FSDP2), where
// a rank has whole rows, the same sums are all-reduced, less those of rows.
//
// Every unit's sums are on their way before the first of them is needed.
#include "core/lower/update/adafactor.hpp"

#include <memory>
#include <string>
#include <utility>

#include "core/lower/update/update_rule.hpp"

namespace lockstep {

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

/// Gives out places in the two buffers of sums, one after the other.
class Places {
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

/// Sums that are terms of what the shard group adds up; those of what the split group divides are
/// added up over it, too.
struct Sums {
  BufferId own, shared;  // one of them may be invalid
};

/// A function's formals, with what they are bound to.
struct Build {
  Role& role;
  Function function;
  std::vector<BufferId> args;

  Operand add(const char* name, Access access, BufferId arg, Bytes bytes, DType type) {
    if (!arg.valid()) return {-1, type, 0};
    const auto formal = static_cast<std::int16_t>(function.formals.size());
    function.formals.push_back({name, access, bytes});
    args.push_back(arg);
    return {formal, type, 0};
  }
  /// The same for all of a buffer.
  Operand add(const char* name, Access access, BufferId arg) {
    const Buffer whole = arg.valid() ? role.buffer(arg) : Buffer{};
    return add(name, access, arg, whole.bytes, whole.dtype);
  }
};

class AdafactorStep {
 public:
  explicit AdafactorStep(UnitUpdate& u) : u_(u), sums_type_(u.draft.dtype_of(BufferKind::Metric)) {}

  /// Declares the factors, and adds up squares of the gradient and of the weights.
  void sum();
  /// Updates the factors, and adds up the squares of the update.
  void square();
  /// Moves the weights.
  void move();

 private:
  /// What several functions read.
  struct Shared {
    Operand grad, coefficient, shard;
  };
  struct Factors {
    Operand rows, cols;
  };

  Build begin(const char* name);
  void call(const Build& build) { u_.call(build.function, build.args); }
  void declare_factors();
  BufferId shard_number();
  Sums add_sums(const char* name, std::int64_t own_bytes, std::int64_t shared_bytes);
  void reduce(const Sums& sums);
  GroupId dividers();
  Kernel kernel(KernelKind kind, const FactoredParameter& parameter) const;
  Operand shard_operand(Build& build, const char* name, Access access, BufferId arg, DType type) {
    return build.add(name, access, arg, Bytes{u_.elements() * size_of(type)}, type);
  }
  Shared shared(Build& build);
  Operand coefficient(Build& build) {
    return build.add("coefficient", Access::Read, u_.coefficient, Bytes{size_of(sums_type_)},
                     sums_type_);
  }
  static Factors next_factors(Operand& factors, const FactoredParameter& parameter);

  UnitUpdate& u_;
  const DType sums_type_;
  std::vector<FactoredParameter> parameters_;
  BufferId factors_, shard_;  // `shard_` is invalid if the unit is not sharded
  Sums sums_, squares_;
};

/// Begins a function of the unit with its name.
Build AdafactorStep::begin(const char* name) {
  Build build{u_.role, {}, {}};
  std::string text = std::string(name) + "." + std::to_string(u_.elements());
  for (const FactoredParameter& p : parameters_) text += shape_of(p);
  build.function.name = std::move(text);
  return build;
}

/// The rank's position in the group that shards the unit.
BufferId AdafactorStep::shard_number() {
  if (!u_.unit().shard_group.valid()) return {};
  constexpr std::int64_t kBytes = 4;
  BufferId& numbers = u_.out.shard_numbers;
  if (!numbers.valid()) {
    OpWriter once{u_.draft, u_.role, u_.phase};
    numbers = once.buffer(BufferKind::Input, "shards", u_.draft.scenario.strategy.state_shards());
    once.copy(OpKind::HostToDevice, HostData::Shards, numbers);
  }
  return add_piece(u_.role, numbers, u_.unit().shard_group, Bytes{kBytes});
}

/// Declares the persistent unit of the factors.
void AdafactorStep::declare_factors() {
  const Unit& unit = u_.unit();
  parameters_ = factored_parameters(u_.draft.program, unit);
  Unit factors;
  factors.name = factors_of(unit.name);
  factors.tied_copy = unit.tied_copy;
  factors.split_group = unit.split_group;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const Parameter whole = u_.draft.program.parameters[unit.parameters[i].parameter];
    const FactoredParameter& p = parameters_[i];
    factors.parameters.push_back(
        {u_.draft.add_parameter(factor_of(whole, true)), factors.elements, {}});
    factors.parameters.push_back(
        {u_.draft.add_parameter(factor_of(whole, false)), factors.elements + p.count * p.rows, {}});
    factors.elements += p.factors();
  }
  factors.shard_elements = factors.elements;
  factors_ = u_.buffer(BufferKind::Optimizer, factors.name, factors.elements, sums_type_);
  factors.states[StateKind::Param] = factors_;
  u_.out.statistics.push_back(std::move(factors));
}

Sums AdafactorStep::add_sums(const char* name, std::int64_t own_bytes, std::int64_t shared_bytes) {
  const auto buffer = [&](std::int64_t bytes) {
    return bytes == 0 ? BufferId{}
                      : u_.buffer(BufferKind::Metric, name, bytes / size_of(sums_type_));
  };
  const BufferId own = buffer(own_bytes);
  return {own, buffer(shared_bytes)};
}

void AdafactorStep::reduce(const Sums& sums) {
  const auto add_up = [&](GroupId group, BufferId buffer) {
    if (!group.valid() || !buffer.valid()) return;
    u_.communicate(OpKind::AllReduce, Stream::Reduce, group, {buffer});
  };
  add_up(u_.unit().shard_group, sums.own);
  add_up(u_.unit().shard_group, sums.shared);
  if (u_.unit().split_group.valid()) add_up(dividers(), sums.shared);
}

/// The ranks that divide the matrices of the unit: of experts, those that divide each, if any do.
/// (Experts' biases, one above the other, are a matrix that the ranks of "ep" divide.)
GroupId AdafactorStep::dividers() {
  const std::string& axis = u_.layout().split_axis;
  const bool of_each = divides_experts(axis) && axis != "ep";
  return of_each ? u_.draft.axis_group(axis.substr(axis.find('_') + 1)) : u_.unit().split_group;
}

Kernel AdafactorStep::kernel(KernelKind kind, const FactoredParameter& p) const {
  const GroupId group = u_.unit().shard_group;
  const int shards =
      group.valid() ? group_size(u_.draft.program.mesh, u_.draft.program.group(group)) : 1;
  return bare_kernel(kind, u_.draft.dtype_of(BufferKind::Master),
                     {u_.elements(), p.first, p.count, p.rows, p.elements(), p.divided, shards});
}

/// The operands that all functions of the unit's shard read.
AdafactorStep::Shared AdafactorStep::shared(Build& build) {
  const DType grad = u_.draft.dtype_of(BufferKind::Grad);
  Shared operands;
  operands.grad = shard_operand(build, "g", Access::Read, u_.gradient, grad);
  operands.coefficient = coefficient(build);
  operands.shard = build.add("shard", Access::Read, shard_, Bytes{4}, DType::I32);
  return operands;
}

void AdafactorStep::sum() {
  declare_factors();
  shard_ = shard_number();
  Places room(sums_type_, {}, {});
  for (const FactoredParameter& p : parameters_) {
    room.rows(p);
    room.cols(p);
    room.one(p);
  }
  sums_ = add_sums("factor_sums", room.own_bytes(), room.shared_bytes());
  Build build = begin("factor_sums");
  const Shared operands = shared(build);
  const DType type = u_.draft.dtype_of(BufferKind::Master);
  const Operand w = shard_operand(build, "w", Access::Read, u_.weights(), type);
  const Operand to_own = build.add("own", Access::Write, sums_.own);
  const Operand to_shared = build.add("shared", Access::Write, sums_.shared);
  Places places(sums_type_, to_own, to_shared);
  for (const FactoredParameter& p : parameters_) {
    Kernel k = kernel(KernelKind::FactorSums, p);
    k.scalars = {1.0 / static_cast<double>(p.whole_rows * p.whole_cols)};
    k.in = {operands.grad, operands.coefficient, w, operands.shard};
    k.out = {places.rows(p), places.cols(p)};
    k.out.push_back(places.one(p));
    build.function.kernels.push_back(std::move(k));
  }
  call(build);
  reduce(sums_);
}

void AdafactorStep::square() {
  const OptimizerSpec& o = u_.optimizer();
  Build moments = begin("factor_moments");
  {
    const Operand coef = coefficient(moments);
    const Operand own = moments.add("own", Access::Read, sums_.own);
    const Operand shared = moments.add("shared", Access::Read, sums_.shared);
    Operand f = moments.add("factors", Access::ReadWrite, factors_);
    Places places(sums_type_, own, shared);
    const auto update = [&](Operand sum, std::int64_t elements, std::int64_t of) {
      Kernel k =
          bare_kernel(KernelKind::FactorMoments, u_.draft.dtype_of(BufferKind::Master), {elements},
                      {1.0 / static_cast<double>(of), o.decay_rate, o.eps_square});
      k.in = {sum, coef};
      k.out = {f};
      f.offset += elements * size_of(sums_type_);
      moments.function.kernels.push_back(std::move(k));
    };
    for (const FactoredParameter& p : parameters_) {
      update(places.rows(p), p.count * p.rows, p.whole_cols);
      update(places.cols(p), p.count * p.cols, p.whole_rows);
      places.one(p);
    }
  }
  call(moments);

  Places room(sums_type_, {}, {});
  for (const FactoredParameter& p : parameters_) room.one(p);
  squares_ = add_sums("update_squares", room.own_bytes(), room.shared_bytes());
  Build build = begin("factored_squares");
  const Shared operands = shared(build);
  Operand f = build.add("factors", Access::Read, factors_);
  const Operand to_own = build.add("own", Access::Write, squares_.own);
  const Operand to_shared = build.add("shared", Access::Write, squares_.shared);
  Places places(sums_type_, to_own, to_shared);
  for (const FactoredParameter& p : parameters_) {
    Kernel k = kernel(KernelKind::FactoredSquares, p);
    k.scalars = {1.0 / static_cast<double>(p.whole_rows * p.whole_cols)};
    const Factors factors = next_factors(f, p);
    k.in = {operands.grad, operands.coefficient, factors.rows, factors.cols, operands.shard};
    k.out = {places.one(p)};
    build.function.kernels.push_back(std::move(k));
  }
  call(build);
  reduce(squares_);
}

void AdafactorStep::move() {
  const OptimizerSpec& o = u_.optimizer();
  Build build = begin(u_.layout().decays ? "adafactor" : "adafactor.plain");
  const Shared operands = shared(build);
  Operand f = build.add("factors", Access::Read, factors_);
  const Operand of_shared = build.add("shared", Access::Read, sums_.shared);
  const Operand own = build.add("own", Access::Read, sums_.own);
  Places sums_at(sums_type_, own, of_shared);
  const Operand shared_squares = build.add("shared_squares", Access::Read, squares_.shared);
  const Operand own_squares = build.add("own_squares", Access::Read, squares_.own);
  Places squares_at(sums_type_, own_squares, shared_squares);
  const BufferId weights = u_.weights(), moment = u_.state(StateKind::Moment1);
  const Operand w = shard_operand(build, "w", Access::ReadWrite, weights, u_.dtype_of(weights));
  const Operand m = shard_operand(build, "m", Access::ReadWrite, moment,
                                  moment.valid() ? u_.dtype_of(moment) : DType::F32);
  for (const FactoredParameter& p : parameters_) {
    Kernel k = kernel(KernelKind::Adafactor, p);
    k.dims[7] = o.relative_step ? 1 : 0;
    k.scalars = {o.scale_parameter ? o.eps_scale : 0, o.clip_threshold, o.first_moment_decay,
                 u_.weight_decay()};
    const Factors factors = next_factors(f, p);
    sums_at.rows(p);
    sums_at.cols(p);
    const Operand scale = sums_at.one(p);
    k.in = {operands.grad, operands.coefficient, factors.rows,  factors.cols,
            scale,         squares_at.one(p),    operands.shard};
    k.out = {w, m};
    build.function.kernels.push_back(std::move(k));
  }
  call(build);
}

/// The factors of the next parameter, behind which `factors` goes on.
AdafactorStep::Factors AdafactorStep::next_factors(Operand& factors, const FactoredParameter& p) {
  const std::int64_t size = size_of(factors.dtype);
  Factors found{factors, factors};
  found.cols.offset += p.count * p.rows * size;
  factors.offset += p.factors() * size;
  return found;
}

std::vector<UpdatePart> adafactor_parts(UnitUpdate& update) {
  const auto step = std::make_shared<AdafactorStep>(update);
  return {{Lead::AllUnits, [step] { step->sum(); }},
          {Lead::AllUnits, [step] { step->square(); }},
          {Lead::None, [step] { step->move(); }}};
}

}  // namespace

const UpdateRule update_rules::kAdafactor{
    .keeps = [](const OptimizerSpec& optimizer) -> std::vector<StateKind> {
      if (optimizer.first_moment_decay > 0) return {StateKind::Moment1};
      return {};
    },
    .parts = adafactor_parts,
    .describe = [](const Scenario& /*scenario*/, const UnitLayout& /*layout*/,
                   Unit& unit) { unit.factored = true; },
    .reads_shard_number = true,
};

}  // namespace lockstep
