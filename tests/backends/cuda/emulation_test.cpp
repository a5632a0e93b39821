// That the fibers would notice: what the emulation promises of barriers, shuffles, tensor cores.
#include <random>
#include <vector>

#include "backends/cuda/kernels/mma.hpp"
#include "tests/catch.hpp"

namespace lockstep::cuda::emulated {
namespace {

/// Each thread writes its number and reads its neighbour's, with or without a barrier between.
std::vector<int> neighbours(bool barrier, emulation::Order order) {
  constexpr unsigned kThreads = 96;
  std::vector<int> written(kThreads, -1), read(kThreads, -1);
  emulation::set_order(order);
  emulation::run_grid({1}, {kThreads}, 0, [&] {
    const unsigned i = threadIdx.x;
    written[i] = static_cast<int>(i);
    if (barrier) sync_block();
    read[i] = written[(i + 1) % kThreads];
  });
  emulation::set_order(emulation::Order::Ascending);
  return read;
}

}  // namespace

TEST_CASE("a missing barrier shows as a difference between the two orders of threads",
          "[backends][cuda]") {
  using emulation::Order;
  CHECK(neighbours(true, Order::Ascending) == neighbours(true, Order::Descending));
  CHECK(neighbours(false, Order::Ascending) != neighbours(false, Order::Descending));
}

TEST_CASE("warps and blocks add up what their threads hold", "[backends][cuda]") {
  std::vector<double> sums(256), most(256);
  emulation::run_grid({1}, {256}, 0, [&] {
    const auto own = static_cast<double>(threadIdx.x);
    sums[threadIdx.x] = block_sum<256>(own);
    most[threadIdx.x] = block_max<256>(-own);
  });
  for (std::size_t i = 0; i < 256; ++i) {
    CHECK(sums[i] == 255.0 * 256 / 2);
    CHECK(most[i] == 0);
  }
}

TEST_CASE("threads that have ended do not hold up a barrier", "[backends][cuda]") {
  int arrived = 0;
  emulation::run_grid({2}, {70}, 0, [&] {
    if (threadIdx.x % 3 == 0) return;
    sync_block();
    ++arrived;
  });
  CHECK(arrived == 2 * 46);
}

TEST_CASE("a product of fragments is that of the matrices", "[backends][cuda]") {
  std::mt19937 random(2);
  std::vector<BF16> a(16 * 16), b(16 * 8), bt(8 * 16);
  for (BF16& x : a) x = to_bf16(static_cast<float>(random() % 64) - 32);
  for (std::size_t k = 0; k < 16; ++k) {
    for (std::size_t n = 0; n < 8; ++n) {
      b[k * 8 + n] = bt[n * 16 + k] = to_bf16(static_cast<float>(random() % 64) - 32);
    }
  }
  std::vector<float> c(16 * 8), ct(16 * 8);
  emulation::run_grid({1}, {32}, 0, [&] {
    const int lane = lane_of_warp();
    std::uint32_t fa[4], fb[4];
    float sums[4] = {}, others[4] = {};
    load_matrices(fa, &a[static_cast<std::size_t>(lane % 16 * 16 + lane / 16 * 8)]);
    // B as [n, k] through plain loads, and as [k, n] through transposed ones.
    load_matrices(fb, &bt[static_cast<std::size_t>(lane % 8 * 16 + lane / 8 % 2 * 8)]);
    multiply_add(sums, fa, fb[0], fb[1]);
    load_matrices_transposed(fb, &b[static_cast<std::size_t>(lane % 16 * 8)]);
    multiply_add(others, fa, fb[0], fb[1]);
    for (int i = 0; i < 4; ++i) {
      const int at = (lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2;
      c[static_cast<std::size_t>(at)] = sums[i];
      ct[static_cast<std::size_t>(at)] = others[i];
    }
  });
  for (std::size_t m = 0; m < 16; ++m) {
    for (std::size_t n = 0; n < 8; ++n) {
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k) {
        sum += to_float(a[m * 16 + k]) * to_float(b[k * 8 + n]);
      }
      CHECK(c[m * 8 + n] == sum);
      CHECK(ct[m * 8 + n] == sum);
    }
  }
}

TEST_CASE("float32 rounds to bfloat16 to the nearest, ties to even", "[backends][cuda]") {
  CHECK(to_float(to_bf16(1.0f)) == 1.0f);
  CHECK(to_bf16(1.00390625f).bits == 0x3f80);    // half way between 1 and the next: even is 1
  CHECK(to_bf16(1.01171875f).bits == 0x3f82);    // half way: even is the upper one
  CHECK(to_bf16(1.0039063692f).bits == 0x3f81);  // just above half way
  CHECK(to_bf16(3.4e38f).bits == 0x7f80);        // beyond the largest: infinity
  CHECK(std::isnan(to_float(to_bf16(__builtin_nanf("")))));
  CHECK(pack_bf16(1.0f, -2.0f) == 0xc0003f80u);
}

}  // namespace lockstep::cuda::emulated
