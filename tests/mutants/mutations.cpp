#include "tests/mutants/mutations.hpp"

#include "tests/mutants/mutator.hpp"

namespace lockstep::test {

std::string_view to_string(MutantClass which) {
  constexpr IndexArray<MutantClass, std::string_view, kNumMutantClasses> kNames = {
      "order", "reduction", "message", "result", "operand", "data",
      "tag",   "function",  "buffer",  "unit",   "table",   "parameter"};
  return kNames[which];
}

std::optional<Mutant> Mutator::make(MutantClass which) {
  using Change = bool (Mutator::*)();
  constexpr IndexArray<MutantClass, Change, kNumMutantClasses> kChanges = {
      &Mutator::change_list,   &Mutator::change_collective, &Mutator::change_message,
      &Mutator::change_result, &Mutator::change_operand,    &Mutator::change_data,
      &Mutator::change_tag,    &Mutator::change_function,   &Mutator::change_buffer,
      &Mutator::change_unit,   &Mutator::change_table,      &Mutator::change_parameter};
  const Program before = p_;
  const bool made = (this->*kChanges[which])();
  if (!made || p_ == before) return std::nullopt;
  return Mutant{std::move(p_), std::move(what_)};
}

std::optional<Mutant> mutate(const Program& program, MutantClass which, std::mt19937& random) {
  return Mutator(program, random).make(which);
}

}  // namespace lockstep::test
