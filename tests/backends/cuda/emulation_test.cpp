// Tests that the fibers notice faults: what the emulation promises of barriers, shuffles and tensor
// cores.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/kernels/mma.hpp"
#include "tests/catch.hpp"

namespace lockstep::cuda::emulated {
namespace {

void run(emulation::Dim3 grid, emulation::Dim3 block, std::size_t shared_bytes,
         const std::function<void()>& body) {
  const Result<void> ran = emulation::run_grid(grid, block, shared_bytes, body);
  if (!ran) FAIL(to_string(ran.error()));
}
/// The fault of a grid of one block that runs `body`.
std::string fault(emulation::Dim3 block, const std::function<void()>& body) {
  const Result<void> ran = emulation::run_grid({1}, block, 64, body);
  return ran ? "none" : ran.error().message;
}

/// Each thread writes its number and reads its neighbour's, with or without a barrier between.
std::vector<int> neighbours(bool barrier, emulation::Order order) {
  constexpr unsigned kThreads = 96;
  std::vector<int> written(kThreads, -1), read(kThreads, -1);
  emulation::set_order(order);
  run({1}, {kThreads}, 0, [&] {
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
  run({1}, {256}, 0, [&] {
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
  run({2}, {70}, 0, [&] {
    if (threadIdx.x % 3 == 0) return;
    sync_block();
    ++arrived;
  });
  CHECK(arrived == 2 * 46);
}

TEST_CASE("what a GPU refuses or leaves undefined is an error", "[backends][cuda]") {
  const auto nothing = [] {};
  CHECK_FALSE(emulation::run_grid({1, 65536}, {32}, 0, nothing).ok());
  CHECK_FALSE(emulation::run_grid({1, 1, 65536}, {32}, 0, nothing).ok());
  CHECK_FALSE(emulation::run_grid({1}, {32, 33}, 0, nothing).ok());
  CHECK_FALSE(emulation::run_grid({1}, {32}, 200 << 10, nothing).ok());
  CHECK(fault({64}, nothing) == "none");

  CHECK_THAT(fault({32}, [] { threadIdx.x == 0 ? sync_block() : sync_warp(); }),
             ContainsSubstring("wait at different barriers"));
  const auto diverge = [] {
    if (threadIdx.x < 32) {
      sync_block();
    } else {
      sync_block();
    }
  };
  CHECK_THAT(fault({64}, diverge),
             ContainsSubstring("waits where others wait at emulation_test.cpp"));
  CHECK_THAT(fault({40}, [] { warp_sum(1.0f); }),
             ContainsSubstring("in a warp of 8: thread (32, 0, 0) of block (0, 0, 0)"));
  for (const unsigned ends : {0u, 31u}) {
    CHECK_THAT(
        fault({32}, [ends] { threadIdx.x == ends ? 0.0f : warp_sum(1.0f); }),
        ContainsSubstring(ends == 0 ? "in a warp of 31" : "ends while its warp exchanges values"));
  }
  alignas(16) static float line[8] = {};
  CHECK_THAT(fault({1}, [] { static_cast<void>(load<4>(line + 1)); }),
             ContainsSubstring("16 B at an address that is 4 beyond a multiple"));
  CHECK(fault({1}, [] { store<4>(line + 4, load<4>(line)); }) == "none");
  CHECK_THAT(fault({1}, [] { emulation::dynamic_shared()[64] = std::byte{0}; }),
             ContainsSubstring("behind its shared memory"));
  CHECK_THAT(fault({1}, [] { copy_async(reinterpret_cast<BF16*>(line), nullptr, false); }),
             ContainsSubstring("to what is not shared memory"));
  CHECK(fault({64}, nothing) == "none");  // and what comes after runs as ever
}

TEST_CASE("an asynchronous copy is there when its group has been waited for", "[backends][cuda]") {
  alignas(16) BF16 from[8];
  for (std::uint16_t i = 0; i < 8; ++i) from[i].bits = i;
  std::vector<std::uint16_t> seen;
  run({1}, {1}, 32, [&] {
    auto* const to = reinterpret_cast<BF16*>(emulation::dynamic_shared());
    to[5].bits = 7;
    copy_async(to, from, true);
    commit_copies();
    copy_async(to + 8, from, false);
    commit_copies();
    seen.push_back(to[5].bits);  // neither the old nor the new
    wait_for_copies<1>();
    seen.insert(seen.end(), {to[5].bits, to[13].bits});
    wait_for_copies<0>();
    seen.push_back(to[13].bits);
  });
  CHECK(seen == std::vector<std::uint16_t>{0xffff, 5, 0xffff, 0});
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
  run({1}, {32}, 0, [&] {
    const int lane = lane_of_warp();
    std::uint32_t fa[4], fb[4];
    float sums[4] = {}, others[4] = {};
    load_matrices(fa, &a[lane % 16 * 16 + lane / 16 * 8]);
    // B as [n, k] through plain loads, and as [k, n] through transposed ones.
    load_matrices(fb, &bt[lane % 8 * 16 + lane / 8 % 2 * 8]);
    multiply_add(sums, fa, fb[0], fb[1]);
    load_matrices_transposed(fb, &b[lane % 16 * 8]);
    multiply_add(others, fa, fb[0], fb[1]);
    for (int i = 0; i < 4; ++i) {
      const int at = (lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2;
      c[at] = sums[i];
      ct[at] = others[i];
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
