#include "core/ir/kernels/experts.hpp"

#include "core/ir/kernels/saturating.hpp"

namespace lockstep {
namespace {

using K = KernelKind;
using saturating::product;

}  // namespace

bool is_experts(KernelKind kind) { return kind >= K::GroupedGemm && kind <= K::CombineBackward; }

std::int64_t experts_input_extent(const Kernel& kernel, std::size_t i) {
  const auto& d = kernel.dims;
  switch (kernel.kind) {
    case K::GroupedGemm:
      if (i == 0) return product(d[0], d[1], d[2], d[4]);
      return i == 1 ? product(d[0], d[4], d[3]) : product(d[0], d[3]);
    case K::GroupedGemmWeight:
      return product(d[0], d[1], d[2], i == 0 ? d[3] : d[4]);
    case K::RouteForward:
      return product(d[0], d[1]);
    case K::RouteBackward:
      return product(d[0], i == 1 ? d[1] : d[2]);
    case K::CombineForward:
      if (i == 0) return product(d[3], d[1]);
      return product(d[0], i == 3 ? d[1] : d[2]);
    case K::CombineBackward:
      if (i == 1) return product(d[3], d[1]);
      return product(d[0], i == 0 ? d[1] : d[2]);
    default:
      return 0;
  }
}

std::int64_t experts_output_extent(const Kernel& kernel, std::size_t i) {
  const auto& d = kernel.dims;
  switch (kernel.kind) {
    case K::GroupedGemm:
      return product(d[0], d[1], d[2], d[3]);
    case K::GroupedGemmWeight:
      return i == 0 ? product(d[0], d[3], d[4]) : product(d[0], d[3]);
    case K::RouteForward:
      if (i == 3) return product(d[1], d[3]);
      return product(d[0], i == 0 ? d[1] : d[2]);
    case K::RouteBackward:
    case K::CombineForward:
      return product(d[0], d[1]);
    case K::CombineBackward:
      return i == 0 ? product(d[3], d[1]) : product(d[0], d[2]);
    default:
      return 0;
  }
}

double experts_flops(const Kernel& kernel) {
  const auto d = [&](int i) {
    return static_cast<double>(kernel.dims[static_cast<std::size_t>(i)]);
  };
  switch (kernel.kind) {
    case K::GroupedGemm:
      return 2 * d(0) * d(1) * d(2) * d(3) * d(4);
    case K::GroupedGemmWeight: {
      const bool bias = kernel.out.size() > 1 && kernel.out[1].present();
      return d(0) * d(1) * d(2) * d(3) * (2 * d(4) + (bias ? 1 : 0));
    }
    case K::RouteForward:  // softmax, and a comparison per expert and choice
      return d(0) * d(1) * (4 + d(2));
    case K::RouteBackward:
      return d(0) * (5 * d(1) + 4 * d(2));
    case K::CombineForward:
      return 2 * d(0) * d(1) * d(2);
    case K::CombineBackward:
      return 3 * d(0) * d(1) * d(2);
    default:
      return 0;
  }
}

}  // namespace lockstep
