#include "backends/cpu/kernels/widened_operands.hpp"

#include <algorithm>
#include <span>

#include "core/base/bfloat16.hpp"
#include "core/base/float16.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/quantized_state.hpp"

namespace lockstep::cpu {
namespace {

static_assert(kScratchOperands >= 2 * kMaxOperands);
constexpr std::int64_t kGrain = 1 << 14;  // elements; they take some microseconds

bool is_16_bit(DType type) { return type == DType::BF16 || type == DType::F16; }

template <class T>
void widen(ThreadTeam& team, const std::byte* from, void* wide, std::int64_t n) {
  auto* const to = static_cast<float*>(wide);
  const auto* values = reinterpret_cast<const T*>(from);
  team.parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(values[i]);
  });
}

template <class T>
void narrow(ThreadTeam& team, const void* wide, std::byte* to, std::int64_t n) {
  const auto* const from = static_cast<const float*>(wide);
  auto* values = reinterpret_cast<T*>(to);
  team.parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) values[i] = T(from[i]);
  });
}

}  // namespace

template <class Body>
void WidenedOperands::each_state(const Body& body) const {
  for (const State& state : std::span(states_, to_size(num_states_))) {
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / 16 / state.shape.block);
    team_.parallel_for(state.shape.blocks(), grain, [&](std::int64_t first, std::int64_t last) {
      if (values_are_f64_) {
        body(state, first, last, static_cast<double*>(state.values));
      } else {
        body(state, first, last, static_cast<float*>(state.values));
      }
    });
  }
}

WidenedOperands::WidenedOperands(const Kernel& kernel, KernelArgs& args, ThreadTeam& team)
    : team_(team) {
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (!is_16_bit(kernel.in[i].dtype) || args.in[i] == nullptr) continue;
    const Copy copy = add(args.in[i], input_elements(kernel, i), kernel.in[i].dtype);
    widen(copy);
    args.in[i] = static_cast<std::byte*>(copy.wide);
  }
  const Copy* const inputs_end = copies_ + num_copies_;
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    std::byte* const address = args.out[i];
    if (!is_16_bit(kernel.out[i].dtype) || address == nullptr) continue;
    const Copy* const in_place =
        std::find_if(static_cast<const Copy*>(copies_), inputs_end,
                     [address](const Copy& input) { return input.narrow == address; });
    Copy copy;
    if (in_place != inputs_end) {
      copy = *in_place;
    } else {
      copy = add(address, output_elements(kernel, i), kernel.out[i].dtype);
      if (output_is_read(kernel, i) || keeps_elements(kernel, i)) {
        widen(copy);
      }
    }
    args.out[i] = static_cast<std::byte*>(copy.wide);
    outputs_[num_outputs_++] = copy;
  }
  if (kernel.kind != KernelKind::AdamW8bit) return;
  const DType type = sum_type(kernel.dtype);
  values_are_f64_ = type == DType::F64;
  for (const int i : {1, 2}) {
    void* const values = next_scratch(to_size(kernel.dims[0] * size_of(type)));
    states_[num_states_++] = {{kernel.dims[0], kernel.dims[1], i == 1}, args.out[i], values};
    args.out[i] = static_cast<std::byte*>(values);
  }
  each_state([](const State& state, std::int64_t first, std::int64_t last, auto* values) {
    read_quantized(state.shape, state.state, first, last, values);
  });
}

void WidenedOperands::store() const {
  std::for_each(outputs_, outputs_ + num_outputs_, [this](const Copy& output) { narrow(output); });
  each_state([](const State& state, std::int64_t first, std::int64_t last, const auto* values) {
    write_quantized(state.shape, values, first, last, state.state);
  });
}

void WidenedOperands::widen(const Copy& copy) const {
  const auto run = copy.dtype == DType::F16 ? cpu::widen<float16> : cpu::widen<bfloat16>;
  run(team_, copy.narrow, copy.wide, copy.elements);
}

void WidenedOperands::narrow(const Copy& copy) const {
  const auto run = copy.dtype == DType::F16 ? cpu::narrow<float16> : cpu::narrow<bfloat16>;
  run(team_, copy.wide, copy.narrow, copy.elements);
}

void* WidenedOperands::next_scratch(std::size_t bytes) {
  return scratch(static_cast<Scratch>(static_cast<int>(Scratch::Operands) + num_scratch_++), bytes);
}

WidenedOperands::Copy WidenedOperands::add(std::byte* address, std::int64_t elements, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
  return copies_[num_copies_++] = {address, next_scratch(bytes), elements, dtype};
}

}  // namespace lockstep::cpu
