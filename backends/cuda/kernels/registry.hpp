// Registry: the kernels that are built, with one launcher per KernelKind. A kind without a launcher
// is refused by its name before a run.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/kernels/device.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

/// How a kernel is launched. Its row in core/ir/kernels says what it computes.
struct Launcher {
  void (*launch)(const KernelCall& call, Queue& queue) = nullptr;  // null if it is not built
  std::int64_t (*scratch_bytes)(const Kernel& kernel) = nullptr;   // null if it needs none
  bool (*accepts)(const Kernel& kernel) = nullptr;                 // null if it takes every shape
  bool multiplies = false;  // it asks Queue::multiplied(), whose library needs a workspace
};

class Registry {
 public:
  Registry();
  Launcher& operator[](KernelKind kind) { return rows_[static_cast<std::size_t>(kind)]; }
  const Launcher& operator[](KernelKind kind) const {
    return rows_[static_cast<std::size_t>(kind)];
  }
  bool supports(const Kernel& kernel) const;
  std::int64_t scratch_bytes(const Kernel& kernel) const;  // without a library's workspace

 private:
  std::array<Launcher, kNumKernelKinds> rows_;
};
const Registry& registry();

// Each file of kernels has one of these.
void add_elementwise(Registry& rows);
void add_norms(Registry& rows);
void add_column_sum(Registry& rows);
void add_embedding(Registry& rows);
void add_cross_entropy(Registry& rows);
void add_reductions(Registry& rows);
void add_optimizers(Registry& rows);
void add_factors(Registry& rows);
void add_gemm(Registry& rows);
void add_attention(Registry& rows);
void add_convolution(Registry& rows);
void add_batch_norm(Registry& rows);
void add_pooling(Registry& rows);
void add_experts(Registry& rows);
void add_latent(Registry& rows);
void add_float8(Registry& rows);
void add_ragged(Registry& rows);
void add_ragged_float8(Registry& rows);
void add_compression(Registry& rows);

/// Driver::add_in_order() for at most kMaxSummands sources.
inline constexpr std::size_t kMaxSummands = 64;
void add_in_order(DType dtype, std::int64_t elements, std::span<const std::byte* const> sources,
                  std::span<std::byte* const> targets, bool largest, Queue& queue);

/// Driver::exchange_rows().
void exchange_rows(const RowExchange& exchange, Queue& queue);

// ---------------------------------------------------------------- for the rows

template <class T>
T* input(const KernelCall& call, int i) {
  return reinterpret_cast<T*>(call.in[static_cast<std::size_t>(i)]);
}
template <class T>
T* output(const KernelCall& call, int i) {
  return reinterpret_cast<T*>(call.out[static_cast<std::size_t>(i)]);
}
/// An operand with a type of its own; an empty Ref if it is absent.
inline Ref input_ref(const KernelCall& call, int i) {
  const auto at = static_cast<std::size_t>(i);
  return at < call.kernel->in.size() ? Ref{call.in[at], call.kernel->in[at].dtype} : Ref{};
}
inline Ref output_ref(const KernelCall& call, int i) {
  const auto at = static_cast<std::size_t>(i);
  return at < call.kernel->out.size() ? Ref{call.out[at], call.kernel->out[at].dtype} : Ref{};
}

/// The Ref that begins `elements` elements further on.
inline Ref behind(Ref ref, int64_t elements) {
  return {ref.at + elements * size_of(ref.type), ref.type};
}

/// Calls f with a value of the type in which the call's kernel adds up.
template <class F>
void for_sum_type(const KernelCall& call, const F& f) {
  call.kernel->dtype == DType::F64 ? f(double{}) : f(float{});
}

/// Calls f(T{}), where T is the element type of the kernel.
template <class F>
void for_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::F64:
      return f(double{});
    case DType::BF16:
      return f(BF16{});
    case DType::F16:
      return f(F16{});
    default:
      return f(float{});
  }
}

template <int N>
struct Width {
  static constexpr int kValue = N;
};
/// Calls f(Width<16 bytes of T>) if lines of `cols` elements can be read in such words from all
/// addresses, else f(Width<1>).
template <class T, class F>
void for_width(int64_t cols, std::initializer_list<const void*> addresses, const F& f) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  bool wide = cols % kWide == 0;
  for (const void* address : addresses) {
    wide = wide && reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
  }
  if (wide) return f(Width<kWide>{});
  f(Width<1>{});
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
