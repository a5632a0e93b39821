#include "core/lower/update/unit_update.hpp"

#include <string>
#include <utility>

#include "core/lower/update/update_rule.hpp"

namespace lockstep {

UnitUpdate::UnitUpdate(Draft& draft, DraftRole& out, std::size_t unit, BufferId coefficient)
    : OpWriter{draft, out.role, Phase::O, layer_of(out, unit)},
      out(out),
      index(unit),
      gradient(out.units[unit].reduced),
      coefficient(coefficient) {}

BufferId UnitUpdate::own() {
  if (!own_.valid()) own_ = own_parameters(role, unit());
  return own_;
}

BufferId UnitUpdate::weights() {
  return unit().has(StateKind::Master) ? state(StateKind::Master) : own();
}

Kernel UnitUpdate::kernel(KernelKind kind, std::array<std::int64_t, kMaxDims> dims,
                          std::array<double, 4> scalars) {
  return bare_kernel(kind, dtype_of(weights()), dims, scalars);
}

std::vector<NamedOperand> UnitUpdate::gradient_and_coefficient() const {
  return {{"g", draft.dtype_of(BufferKind::Grad)},
          {coefficient.valid() ? "coefficient" : "", draft.dtype_of(BufferKind::Metric)}};
}

std::vector<BufferId> UnitUpdate::gradient_and_coefficient_args() const {
  std::vector<BufferId> args = {gradient};
  if (coefficient.valid()) args.push_back(coefficient);
  return args;
}

void UnitUpdate::move(Kernel kernel, std::initializer_list<const char*> names) {
  std::vector<BufferId> moved = {weights()};
  for (const StateKind kind : rule_of(optimizer(), layout()).keeps(optimizer())) {
    moved.push_back(state(kind));
  }
  std::vector<BufferId> args = gradient_and_coefficient_args();
  args.insert(args.end(), moved.begin(), moved.end());
  std::vector<NamedOperand> outputs;
  for (const char* const name : names) {
    outputs.push_back({name, dtype_of(moved[outputs.size()])});
  }
  const KernelRow& row = info(kernel.kind);
  kernel.stochastic = training().stochastic_rounding && row.may_be_stochastic;
  const std::string which = (layout().decays ? "." : ".plain.") + std::to_string(elements());
  call(one_kernel(std::string(row.name) + which, std::move(kernel), gradient_and_coefficient(),
                  outputs),
       args);
}

}  // namespace lockstep
