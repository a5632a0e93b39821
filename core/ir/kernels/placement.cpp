#include "core/ir/kernels/placement.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"

namespace lockstep {

std::string_view to_string(Along along) {
  if (along >= Along::Attended) return "rows that have met the keys of some ranks";
  if (along >= Along::Passed) return "rows that another rank has passed on";
  constexpr IndexArray<Along, std::string_view, 24> kNames = {
      "not written",
      "zeros",
      "the same",
      "rows of other samples",
      "rows of other tokens",
      "a part of the columns",
      "a part of the queries beside the same keys",
      "a part of the queries beside terms of a sum for the keys",
      "rows of other samples in places of experts",
      "rows of other tokens in places of experts",
      "rows of all samples for its experts",
      "rows of all tokens for its experts",
      "the same rows of all tokens in places of experts",
      "a part of the columns of rows in places of experts",
      "a term of a sum of rows in places of experts",
      "a shard",
      "up to date in the rank's own piece alone",
      "a term of a sum",
      "each rank's own",
      "counts of rows for its experts",
      "the terms of all ranks for its shard",
      "a term of a maximum",
      "each replica's own",
      "a part of the matrices"};
  return kNames[along];
}

namespace placing {

Along product(Along x, Along w) {
  if (w == Along::Same) {
    return has_values(x) && x != Along::Split ? x : x == Along::Partial ? x : Along::Nothing;
  }
  if (w != Along::Split) return Along::Nothing;
  return x == Along::Same ? Along::Split : x == Along::Split ? Along::Partial : Along::Nothing;
}

Along weight_gradient(Along dy, Along x) {
  if (is_rows(dy)) return dy == x ? Along::Partial : Along::Nothing;
  if (dy == Along::Same) {
    return x == Along::Same || x == Along::Split || x == Along::Partial ? x : Along::Nothing;
  }
  return (dy == Along::Split || dy == Along::Partial) && x == Along::Same ? dy : Along::Nothing;
}

Along sum_over_rows(Along x) { return is_rows(x) ? Along::Partial : x; }

bool results(const Kernel& kernel, AxisOperands& operands, std::span<const Along> made) {
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (i >= kernel.out.size() || !kernel.out[i].present()) continue;
    if (made[i] == Along::Nothing) return false;
    Along& out = operands.out[i];
    if (kernel.accumulate && output_is_read(kernel, i) && out != Along::Zero && out != made[i]) {
      return false;
    }
    out = made[i];
  }
  return true;
}

}  // namespace placing

namespace {

bool has(const std::array<Along, kMaxOperands>& operands, Along along) {
  return std::find(operands.begin(), operands.end(), along) != operands.end();
}

/// Along the axis of replicas that train apart, everything that a kernel makes of a replica's own
/// is the replica's own, too. Beside it there may be what is the same everywhere.
bool place_replica(const Kernel& kernel, AxisOperands& o) {
  const auto fits = [](Along a) {
    return a == Along::Nothing || a == Along::Zero || a == Along::Same || a == Along::Replica;
  };
  for (std::size_t i = 0; i < kMaxOperands; ++i) {
    if (!fits(o.in[i])) return false;
    if (i < kernel.out.size() && kernel.out[i].present() && output_is_read(kernel, i) &&
        !fits(o.out[i])) {
      return false;
    }
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    if (kernel.out[i].present()) o.out[i] = Along::Replica;
  }
  return true;
}

}  // namespace

bool place(const Kernel& kernel, AxisOperands& operands) {
  AxisOperands read = operands;
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    if (!output_is_read(kernel, i)) read.out[i] = Along::Nothing;
  }
  if (kernel.kind != KernelKind::ReplicaTerm &&
      (has(read.in, Along::Replica) || has(read.out, Along::Replica))) {
    return place_replica(kernel, operands);
  }
  return info(kernel.kind).place(kernel, operands);
}

}  // namespace lockstep
