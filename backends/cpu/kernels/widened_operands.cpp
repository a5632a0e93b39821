#include "backends/cpu/kernels/widened_operands.hpp"

#include <algorithm>

#include "core/base/bfloat16.hpp"

namespace lockstep::cpu {
namespace {

static_assert(kScratchOperands >= 2 * kMaxOperands);
constexpr std::int64_t kGrain = 1 << 14;  // elements; they take some microseconds

void widen(ThreadTeam& team, const std::byte* from, float* to, std::int64_t n) {
  const auto* values = reinterpret_cast<const bfloat16*>(from);
  team.parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(values[i]);
  });
}

void narrow(ThreadTeam& team, const float* from, std::byte* to, std::int64_t n) {
  auto* values = reinterpret_cast<bfloat16*>(to);
  team.parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) values[i] = bfloat16(from[i]);
  });
}

}  // namespace

WidenedOperands::WidenedOperands(const Kernel& kernel, KernelArgs& args, ThreadTeam& team)
    : team_(team) {
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (kernel.in[i].dtype != DType::BF16 || args.in[i] == nullptr) continue;
    const Copy copy = add(args.in[i], input_elements(kernel, i));
    widen(team_, copy.narrow, copy.wide, copy.elements);
    args.in[i] = reinterpret_cast<std::byte*>(copy.wide);
  }
  const Copy* const inputs_end = copies_ + num_copies_;
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    std::byte* const address = args.out[i];
    if (kernel.out[i].dtype != DType::BF16 || address == nullptr) continue;
    const Copy* const in_place =
        std::find_if(static_cast<const Copy*>(copies_), inputs_end,
                     [address](const Copy& input) { return input.narrow == address; });
    Copy copy;
    if (in_place != inputs_end) {
      copy = *in_place;
    } else {
      copy = add(address, output_elements(kernel, i));
      if (output_is_read(kernel, i) || keeps_elements(kernel, i)) {
        widen(team_, copy.narrow, copy.wide, copy.elements);
      }
    }
    args.out[i] = reinterpret_cast<std::byte*>(copy.wide);
    outputs_[num_outputs_++] = copy;
  }
}

void WidenedOperands::store() const {
  std::for_each(outputs_, outputs_ + num_outputs_, [this](const Copy& output) {
    narrow(team_, output.wide, output.narrow, output.elements);
  });
}

WidenedOperands::Copy WidenedOperands::add(std::byte* address, std::int64_t elements) {
  const auto slot = static_cast<Scratch>(static_cast<int>(Scratch::Operands) + num_copies_);
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
  return copies_[num_copies_++] = {address, static_cast<float*>(scratch(slot, bytes)), elements};
}

}  // namespace lockstep::cpu
