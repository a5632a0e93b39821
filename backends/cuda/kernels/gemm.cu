// Matrix product: by the queue's library (cuBLASLt, in backends/cuda/toolkit), or by tiles in
// shared memory if there is no library, or none of its algorithms fits the shape and the types.
#include "backends/cuda/kernels/gemm.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kTile = 16;

/// A product. Its factors may have types of their own: a router's gradient is wider than its
/// weights.
struct Product {
  int64_t m, n, k;
  bool ta, tb, accumulate;
  Ref a, b, bias, resid, c;
  Batch batch;
};

template <class T>
__global__ void multiply_tiles(Product p) {
  using A = Acc<T>;
  __shared__ A tile_a[kTile][kTile + 1];
  __shared__ A tile_b[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t i = blockIdx.z;  // index in the batch
  const int64_t a0 = i * p.batch.a, b0 = i * p.batch.b, c0 = i * p.batch.c;
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * kTile;  // rows may be very many: x
  const int64_t col0 = static_cast<int64_t>(blockIdx.y) * kTile;
  A sum = 0;
  for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    // Neighbouring threads read neighbouring addresses, whichever way the operand is stored.
    const int64_t ar = row0 + (p.ta ? x : y), ak = k0 + (p.ta ? y : x);
    const int64_t bc = col0 + (p.tb ? y : x), bk = k0 + (p.tb ? x : y);
    const int64_t at_a = a0 + (p.ta ? ak * p.m + ar : ar * p.k + ak);
    const int64_t at_b = b0 + (p.tb ? bc * p.k + bk : bk * p.n + bc);
    const A a = ar < p.m && ak < p.k ? p.a.template get<A>(at_a) : A(0);
    const A b = bc < p.n && bk < p.k ? p.b.template get<A>(at_b) : A(0);
    tile_a[p.ta ? x : y][p.ta ? y : x] = a;
    tile_b[p.tb ? x : y][p.tb ? y : x] = b;
    sync_block();
    LOCKSTEP_UNROLL
    for (int j = 0; j < kTile; ++j) sum += tile_a[y][j] * tile_b[j][x];
    sync_block();
  }
  const int64_t row = row0 + y, col = col0 + x;
  if (row >= p.m || col >= p.n) return;
  const int64_t at = row * p.n + col;
  if (p.bias) sum += p.bias.template get<A>(i * p.batch.bias + col);
  if (p.resid) sum += p.resid.template get<A>(at);
  if (p.accumulate) sum += p.c.template get<A>(c0 + at);
  p.c.set(c0 + at, sum);
}

/// Product i of a batch.
KernelCall one_of(const KernelCall& call, const Batch& batch, int64_t i) {
  KernelCall one = call;
  one.in[0] = behind(input_ref(call, 0), i * batch.a).at;
  one.in[1] = behind(input_ref(call, 1), i * batch.b).at;
  if (call.in[2] != nullptr) one.in[2] = behind(input_ref(call, 2), i * batch.bias).at;
  one.out[0] = behind(output_ref(call, 0), i * batch.c).at;
  return one;
}

void run_batch(const KernelCall& call, const Batch& batch, Queue& queue) {
  const Kernel& kernel = *call.kernel;
  const bool of_one_type = kernel.in[0].dtype == kernel.dtype && kernel.in[1].dtype == kernel.dtype;
  if (of_one_type && queue.multiplied(call, batch)) return;
  if (of_one_type && queue.has_products() && batch.count > 1) {  // try the products one by one
    for (int64_t i = 0; i < batch.count; ++i) run_batch(one_of(call, batch, i), {}, queue);
    return;
  }
  const auto& d = kernel.dims;
  for_type(kernel.dtype, [&](auto t) {
    using T = decltype(t);
    const Product p{d[0],
                    d[1],
                    d[2],
                    d[3] != 0,
                    d[4] != 0,
                    kernel.accumulate,
                    input_ref(call, 0),
                    input_ref(call, 1),
                    input_ref(call, 2),
                    input_ref(call, 3),
                    output_ref(call, 0),
                    batch};
    queue.launch({blocks_of(p.m, kTile), blocks_of(p.n, kTile), static_cast<unsigned>(batch.count)},
                 {kTile, kTile}, 0, multiply_tiles<T>, p);
  });
}

void run_gemm(const KernelCall& call, Queue& queue) { run_batch(call, {}, queue); }

}  // namespace

void multiply(const GemmShape& shape, DType dtype, const void* a, const void* b, Ref bias,
              Ref resid, Ref c, bool accumulate, Queue& queue, const Batch& batch) {
  const auto operand = [](const void* at, DType type) {
    return Operand{static_cast<std::int16_t>(at != nullptr ? 0 : -1), type, 0};
  };
  const auto address = [](const void* at) {
    return const_cast<std::byte*>(static_cast<const std::byte*>(at));
  };
  Kernel kernel;
  kernel.kind = KernelKind::Gemm;
  kernel.accumulate = accumulate;
  kernel.dtype = dtype;
  kernel.tf32 = shape.tf32;
  kernel.dims = {shape.m, shape.n, shape.k, shape.ta, shape.tb};
  kernel.in = {operand(a, dtype), operand(b, dtype), operand(bias.at, bias.type),
               operand(resid.at, resid.type)};
  kernel.out = {operand(c.at, c.type)};
  run_batch({&kernel, {address(a), address(b), bias.at, resid.at}, {c.at}, nullptr, {}}, batch,
            queue);
}

void add_gemm(Registry& rows) {
  rows[KernelKind::Gemm] = {run_gemm};
  rows[KernelKind::Gemm].multiplies = true;
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
