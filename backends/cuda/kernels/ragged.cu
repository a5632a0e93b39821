// Products and activations of as many rows as counts on the device say, so that the host need not
// know them; and the exchange of such rows between ranks that share a GPU.
#include "backends/cuda/kernels/ragged.hpp"
#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kTile = 16;
constexpr int kThreads = 256;

/// Each block computes a tile of c.
template <class T>
__global__ void ragged_gemm(RaggedLayout layout, int64_t n, int64_t k, bool tb, bool accumulate,
                            Ref a, Ref b, Ref bias, Ref c) {
  using A = Acc<T>;
  __shared__ A tile_a[kTile][kTile + 1];
  __shared__ A tile_b[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  int64_t tile = blockIdx.x;
  const RaggedPart part = layout.part_of(tile, kTile);
  if (part.count == 0) return;
  const int64_t row0 = tile * kTile, col0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t a0 = part.first * k, b0 = part.group * n * k;
  A sum = 0;
  for (int64_t k0 = 0; k0 < k; k0 += kTile) {
    const int64_t row = row0 + y, ak = k0 + x;
    const int64_t col = col0 + (tb ? y : x), bk = k0 + (tb ? x : y);
    const bool in_a = row < part.count && ak < k, in_b = col < n && bk < k;
    tile_a[y][x] = in_a ? a.get<A>(a0 + row * k + ak) : A(0);
    tile_b[tb ? x : y][tb ? y : x] =
        in_b ? b.get<A>(b0 + (tb ? col * k + bk : bk * n + col)) : A(0);
    sync_block();
    LOCKSTEP_UNROLL
    for (int j = 0; j < kTile; ++j) sum += tile_a[y][j] * tile_b[j][x];
    sync_block();
  }
  const int64_t row = row0 + y, col = col0 + x;
  if (row >= part.count || col >= n) return;
  if (bias) sum += bias.get<A>(part.group * n + col);
  const int64_t at = (part.first + row) * n + col;
  c.set(at, accumulate ? c.get<A>(at) + sum : sum);
}

/// Each block computes a tile of one group's gradient, over the rows of all chunks in order.
template <class T>
__global__ void ragged_gemm_weight(RaggedLayout layout, int64_t m, int64_t n, bool accumulate,
                                   Ref dy, Ref x, Ref dw, Ref dbias) {
  using A = Acc<T>;
  __shared__ A tile_a[kTile][kTile + 1];
  __shared__ A tile_b[kTile][kTile + 1];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int64_t group = blockIdx.z;
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * kTile;  // of dw, a column of dy
  const int64_t col0 = static_cast<int64_t>(blockIdx.y) * kTile;
  A sum = 0, column = 0;  // column: of the bias, on the threads of the first column
  int64_t first = 0;
  for (int64_t part = 0; part < layout.parts; ++part) {
    const int64_t count = layout.counts[part];
    first = layout.begin(part, first);
    for (int64_t r0 = 0; part % layout.groups == group && r0 < count; r0 += kTile) {
      const int64_t r = r0 + ty;
      const bool in = r < count;
      tile_a[ty][tx] = in && row0 + tx < m ? dy.get<A>((first + r) * m + row0 + tx) : A(0);
      tile_b[ty][tx] = in && col0 + tx < n ? x.get<A>((first + r) * n + col0 + tx) : A(0);
      sync_block();
      LOCKSTEP_UNROLL
      for (int j = 0; j < kTile; ++j) {
        sum += tile_a[j][ty] * tile_b[j][tx];
        column += tile_a[j][ty];
      }
      sync_block();
    }
    first += count;
  }
  const int64_t row = row0 + ty, col = col0 + tx;
  if (row >= m) return;
  if (dbias && col == 0) {
    const int64_t at = group * m + row;
    dbias.set(at, accumulate ? dbias.get<A>(at) + column : column);
  }
  if (col >= n) return;
  const int64_t at = (group * m + row) * n + col;
  dw.set(at, accumulate ? dw.get<A>(at) + sum : sum);
}

template <class T>
__device__ __forceinline__ Acc<T> gelu_argument(Acc<T> x) {
  return Acc<T>(1.5957691216057307117597842397375) * (x + Acc<T>(0.044715) * x * x * x);
}

/// A thread for each element of the result without a gate. x [places, (1 + gated) cols].
template <class T>
__global__ void ragged_activation(int64_t n, int64_t cols, bool gated, RaggedLayout layout,
                                  const T* x, T* y) {
  using A = Acc<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n || !layout.has_row(i / cols)) return;
  const int64_t at = gated ? i + i / cols * cols : i;
  const A v = value(x[at]);
  put(y[i], gated ? v / (1 + exponential(-v)) * value(x[at + cols])
                  : v / (1 + exponential(-gelu_argument<T>(v))));
}

template <class T>
__global__ void ragged_activation_backward(int64_t n, int64_t cols, bool gated, RaggedLayout layout,
                                           const T* dy, const T* x, T* dx) {
  using A = Acc<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n || !layout.has_row(i / cols)) return;
  const int64_t at = gated ? i + i / cols * cols : i;
  const A v = value(x[at]), d = value(dy[i]);
  const A e = exponential(gated ? -v : -gelu_argument<T>(v));
  const A s = 1 / (1 + e);
  const A one_less_s = s > 0 ? e * s : A(1);  // 1 - s without cancellation
  if (gated) {
    const A u = value(x[at + cols]);
    put(dx[at], d * u * s * (1 + v * one_less_s));
    put(dx[at + cols], d * v * s);
  } else {
    const A slope = A(1.5957691216057307117597842397375) * (1 + A(3 * 0.044715) * v * v);
    put(dx[i], d * (s + v * s * one_less_s * slope));
  }
}

void run_ragged_gemm(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const int64_t parts = d[0] * d[1];
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto tiles = static_cast<unsigned>(d[2] / kTile + parts);  // the last of a part is short
    const RaggedLayout layout{input<std::int32_t>(call, 3), d[0], parts, d[7], d[2]};
    queue.launch({tiles, blocks_of(d[4], kTile)}, {kTile, kTile}, 0, ragged_gemm<T>, layout, d[4],
                 d[5], d[6] != 0, call.kernel->accumulate, input_ref(call, 0), input_ref(call, 1),
                 input_ref(call, 2), output_ref(call, 0));
  });
}

void run_ragged_gemm_weight(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const RaggedLayout layout{input<std::int32_t>(call, 2), d[0], d[0] * d[1], d[6], d[2]};
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(d[4], kTile), blocks_of(d[5], kTile), static_cast<unsigned>(d[0])},
                 {kTile, kTile}, 0, ragged_gemm_weight<T>, layout, d[4], d[5],
                 call.kernel->accumulate, input_ref(call, 0), input_ref(call, 1),
                 output_ref(call, 0), output_ref(call, 1));
  });
}

void run_ragged_activation(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const int64_t n = d[0] * d[2];
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(n, kThreads)}, {kThreads}, 0, ragged_activation<T>, n, d[2], d[3] != 0,
                 RaggedLayout{input<std::int32_t>(call, 1), 1, d[4], d[5], d[0]}, input<T>(call, 0),
                 output<T>(call, 0));
  });
}

void run_ragged_activation_backward(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const int64_t n = d[0] * d[2];
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(n, kThreads)}, {kThreads}, 0, ragged_activation_backward<T>, n, d[2],
                 d[3] != 0, RaggedLayout{input<std::int32_t>(call, 2), 1, d[4], d[5], d[0]},
                 input<T>(call, 0), input<T>(call, 1), output<T>(call, 0));
  });
}

/// A block copies what one member has for another, if all that comes to that one has room.
__global__ void exchange(RowExchange e) {
  const auto to = static_cast<int>(blockIdx.x), from = static_cast<int>(blockIdx.y);
  const auto rows = [&](int giver, int taker) {
    int64_t sum = 0;
    for (int64_t p = 0; p < e.parts; ++p) sum += e.goes[giver][taker * e.parts + p];
    return sum;
  };
  int64_t source = 0, target = 0, coming = 0;  // rows before those of the two, and all that come
  for (int i = 0; i < to; ++i) source += rows(from, i);
  for (int i = 0; i < e.members; ++i) {
    if (i == from) target = coming;
    coming += rows(i, to);
  }
  if (coming > e.room[to]) return;  // the host sees it, too, and ends the run
  const int64_t bytes = rows(from, to) * e.row_bytes;
  const std::byte* const x = e.source[from] + source * e.row_bytes;
  std::byte* const y = e.target[to] + target * e.row_bytes;
  // Rows are multiples of their elements, which are of 2 bytes or more.
  for (int64_t i = threadIdx.x; i < bytes / 2; i += kThreads) {
    reinterpret_cast<std::uint16_t*>(y)[i] = reinterpret_cast<const std::uint16_t*>(x)[i];
  }
}

}  // namespace

void exchange_rows(const RowExchange& e, Queue& queue) {
  const auto members = static_cast<unsigned>(e.members);
  queue.launch({members, members}, {kThreads}, 0, exchange, e);
}

void add_ragged(Registry& rows) {
  rows[KernelKind::RaggedGemm] = {run_ragged_gemm};
  rows[KernelKind::RaggedGemmWeight] = {run_ragged_gemm_weight};
  rows[KernelKind::RaggedActivationForward] = {run_ragged_activation};
  rows[KernelKind::RaggedActivationBackward] = {run_ragged_activation_backward};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
