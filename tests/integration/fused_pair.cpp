#include "tests/integration/fused_pair.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace lockstep::test {

FusedPair::FusedPair(std::int64_t m, std::int64_t n, std::int64_t k, bool backward, DType dtype)
    : backward_(backward), dtype_(dtype) {
  std::mt19937 random(5);
  const auto values = [&](std::int64_t count) {
    Numbers v(static_cast<std::size_t>(count));
    for (double& x : v) x = rounded(static_cast<double>(random()) / 2147483648.0 - 1.0, dtype);
    return v;
  };
  values_ = {values(m * k), values(n * k), values(backward ? m * n : n), values(m * n),
             values(m * n)};
  const auto at = [dtype](std::int16_t formal) { return Operand{formal, dtype, 0}; };
  product_.kind = KernelKind::Gemm;
  product_.dtype = next_.dtype = dtype;
  product_.dims = {m, n, k, 0, backward ? 0 : 1};
  product_.in = {at(0), at(1), backward ? Operand{} : at(2), {}};
  product_.out = {at(3)};
  next_.kind = backward ? KernelKind::GeluBackward : KernelKind::GeluForward;
  next_.dims = {m * n};
  next_.in = backward ? std::vector{at(3), at(2)} : std::vector{at(3)};
  next_.out = {at(4)};
}

std::vector<Numbers> FusedPair::run(cuda::Driver& gpu, bool fused) const {
  const cuda::StreamHandle stream = take(gpu.create_stream(cuda::Priority::Normal));
  std::vector<std::byte*> memory, pinned;
  for (const Numbers& v : values_) {
    const std::vector<std::byte> bytes = encoded(v, dtype_);
    const auto size = static_cast<std::int64_t>(bytes.size());
    memory.push_back(take(gpu.allocate(cuda::Memory::Device, size)));
    pinned.push_back(take(gpu.allocate(cuda::Memory::PinnedHost, size)));
    std::memcpy(pinned.back(), bytes.data(), bytes.size());
    done(gpu.copy(stream, memory.back(), pinned.back(), size));
  }
  std::byte* const scratch = take(
      gpu.allocate(cuda::Memory::Device, std::max<std::int64_t>(gpu.scratch_bytes(product_), 1)));
  const auto call_of = [&](const Kernel& kernel) {
    cuda::KernelCall call{&kernel, {}, {}, scratch, {}};
    const auto address = [&](const Operand& operand) -> std::byte* {
      return operand.present() ? memory[operand.formal] : nullptr;
    };
    std::transform(kernel.in.begin(), kernel.in.end(), call.in.begin(), address);
    std::transform(kernel.out.begin(), kernel.out.end(), call.out.begin(), address);
    return call;
  };
  bool ran = true;
  if (fused) {
    ran = take(gpu.launch_fused(stream, call_of(product_), call_of(next_)));
  } else {
    done(gpu.launch(stream, call_of(product_)));
    done(gpu.launch(stream, call_of(next_)));
  }
  std::vector<Numbers> results;
  for (const std::size_t b : {std::size_t{3}, std::size_t{4}}) {
    if (!ran || (backward_ && b == 3)) continue;
    std::vector<std::byte> bytes = encoded(values_[b], dtype_);
    done(gpu.copy(stream, pinned[b], memory[b], static_cast<std::int64_t>(bytes.size())));
    done(gpu.synchronize(stream));
    std::memcpy(bytes.data(), pinned[b], bytes.size());
    results.push_back(decoded(bytes, dtype_));
  }
  done(gpu.synchronize(stream));
  for (std::byte* block : memory) gpu.release(cuda::Memory::Device, block);
  for (std::byte* block : pinned) gpu.release(cuda::Memory::PinnedHost, block);
  gpu.release(cuda::Memory::Device, scratch);
  gpu.release(stream);
  return results;
}

}  // namespace lockstep::test
