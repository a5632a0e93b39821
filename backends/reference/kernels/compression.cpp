// Values in a few bits, and bases of low-rank products.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"
#include "core/base/basis.hpp"
#include "core/base/block_codes.hpp"

namespace lockstep::reference {
namespace {

void to_codes(Operands& k) {
  const Index n = k.dim(0), parts = k.dim(1), block = k.dim(3);
  const int bits = static_cast<int>(k.dim(4)), most = largest_code(bits);
  const View x = k.in(0, parts);
  View y = k.out(0, parts);
  y = 0;
  const Index blocks = (n + block - 1) / block;
  for (Index place = 0; place < parts; ++place) {
    const Index part = part_of_values(place, parts, k.dim(2));
    for (Index b = 0; b < blocks; ++b) {
      const Index begin = b * block, count = std::min(n, begin + block) - begin;
      const Row values = x.row(part).segment(begin, count);
      const bool finite = values.isFinite().all();
      const auto scale = static_cast<float>(finite ? values.abs().maxCoeff() / most : HUGE_VAL);
      std::array<std::uint8_t, sizeof scale> bytes;
      std::memcpy(bytes.data(), &scale, sizeof scale);
      for (Index i = 0; i < 4; ++i) y(place, 4 * b + i) = bytes[static_cast<std::size_t>(i)];
      for (Index i = 0; i < count; ++i) {
        const double quotient = values(i) / static_cast<double>(scale);
        const double nearest = std::nearbyint(std::clamp<double>(quotient, -most, most));
        const int code = scale > 0 && std::isfinite(scale) ? static_cast<int>(nearest) : 0;
        const Index at = begin + i, byte = 4 * blocks + at * bits / 8;
        const int shift = bits == 4 && at % 2 == 1 ? 4 : 0;
        y(place, byte) += (code & ((1 << bits) - 1)) << shift;
      }
    }
  }
}

void from_codes(Operands& k) {
  const Index n = k.dim(0), parts = k.dim(1), block = k.dim(2);
  const int bits = static_cast<int>(k.dim(3));
  const View y = k.in(0, parts);
  const Index blocks = (n + block - 1) / block;
  Matrix values(parts, n);
  for (Index part = 0; part < parts; ++part) {
    for (Index i = 0; i < n; ++i) {
      std::array<std::uint8_t, sizeof(float)> bytes;
      for (Index j = 0; j < 4; ++j) {
        bytes[static_cast<std::size_t>(j)] =
            static_cast<std::uint8_t>(y(part, 4 * (i / block) + j));
      }
      float scale = 0;
      std::memcpy(&scale, bytes.data(), sizeof scale);
      const int byte = static_cast<int>(y(part, 4 * blocks + i * bits / 8));
      const int digits = bits == 4 && i % 2 == 1 ? byte >> 4 : byte & ((1 << bits) - 1);
      const int code = digits > largest_code(bits) ? digits - (1 << bits) : digits;
      values(part, i) = static_cast<double>(code) * static_cast<double>(scale);
    }
  }
  const Index sources = k.dim(5), each = parts / sources;
  View x = k.out(0, each);
  x = 0;
  for (Index part = 0; part < parts; ++part) x.row(part % each) += values.row(part);
}

void orthonormalize(Operands& k) {
  View a = k.out(0, k.dim(0));
  const double eps = k.scalar(0);
  for (Index j = 0; j < a.cols(); ++j) {
    const auto take_out = [&] {
      const double before = std::sqrt(a.col(j).square().sum());
      for (Index i = 0; i < j; ++i) a.col(j) -= (a.col(i) * a.col(j)).sum() * a.col(i).eval();
      const double left = std::sqrt(a.col(j).square().sum());
      const bool kept = left > eps * before;
      if (kept) {
        a.col(j) /= left;
      } else {
        a.col(j) = 0;
      }
      return kept;
    };
    if (take_out() || k.scalar(1) == 0) continue;
    for (Index r = 0; r < a.rows(); ++r) a(r, j) = fixed_direction(r, j);
    take_out();
  }
}

}  // namespace

void add_compression(Definitions& kernels) {
  kernels[KernelKind::ToCodes] = to_codes;
  kernels[KernelKind::FromCodes] = from_codes;
  kernels[KernelKind::Orthonormalize] = orthonormalize;
}

}  // namespace lockstep::reference
