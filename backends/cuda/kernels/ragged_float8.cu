// Products in 8 bits of as many rows of each expert as counts on the device say. Tiles are widened
// as they are read: no library multiplies rows whose number the host does not know.
#include "backends/cuda/kernels/float8.hpp"
#include "backends/cuda/kernels/ragged.hpp"
#include "backends/cuda/kernels/registry.hpp"
#include "core/base/float8.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = 16;

/// Where the scales of blocks come from: one for all of them that is known, or each from the
/// largest magnitude of the block. That of every block of the grid goes to `largest`, if it is not
/// null.
template <class A>
struct BlockScales {
  Ref known;
  int mantissa;
  A* largest;
  __device__ A scale(A most) const {
    return known ? known.template get<A>(0)
                 : lockstep::power_of_two<A>(float8_exponent(most, mantissa));
  }
  __device__ void keep(int64_t block, A most) const {
    if (largest != nullptr && threadIdx.x == 0) largest[block] = most;
  }
};

/// Each block of the grid makes a block of a row. A place without a row stays as it is.
template <class T>
__global__ void quantize_rows(RaggedLayout layout, int64_t cols, int64_t along,
                              BlockScales<Acc<T>> of_blocks, const T* x, std::uint8_t* codes,
                              Ref scales) {
  using A = Acc<T>;
  const int64_t parts = (cols + along - 1) / along;
  const int64_t place = static_cast<int64_t>(blockIdx.x) / parts, part = blockIdx.x % parts;
  if (!layout.has_row(place)) return of_blocks.keep(blockIdx.x, 0);
  const int64_t begin = place * cols + part * along;
  const int64_t length = smaller(along, cols - part * along);
  A largest = 0;
  for (int64_t i = threadIdx.x; i < length; i += kThreads) {
    const A v = value(x[begin + i]), size = v < 0 ? -v : v;
    if (size > largest && size < infinity<A>()) largest = size;
  }
  largest = block_max<kThreads>(largest);
  of_blocks.keep(blockIdx.x, largest);
  const A scale = of_blocks.scale(largest);
  if (threadIdx.x == 0) scales.set(blockIdx.x, scale);
  for (int64_t i = threadIdx.x; i < length; i += kThreads) {
    codes[begin + i] = float8_code<A>(value(x[begin + i]) / scale, of_blocks.mantissa);
  }
}

/// A block of the grid makes a block of each of its columns, one a thread, which is padded.
template <class T>
__global__ void quantize_columns(RaggedLayout layout, int64_t cols, int64_t along, int64_t padded,
                                 BlockScales<Acc<T>> of_blocks, const T* x, std::uint8_t* codes,
                                 Ref scales) {
  using A = Acc<T>;
  int64_t block = blockIdx.x;
  const RaggedPart part = layout.part_of(block, along);
  const int64_t col = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const bool has_rows = part.count > 0 && col < cols;
  const int64_t row0 = block * along;
  const int64_t rows = has_rows ? smaller(along, part.count - row0) : 0;
  const int64_t from = (part.first + row0) * cols + col;
  A largest = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const A v = value(x[from + r * cols]), size = v < 0 ? -v : v;
    if (size > largest && size < infinity<A>()) largest = size;
  }
  if (of_blocks.largest != nullptr) {
    of_blocks.keep(static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x,
                   block_max<kThreads>(largest));
  }
  if (!has_rows) return;
  const A scale = of_blocks.scale(largest);
  scales.set(col * (padded / along) + blockIdx.x, scale);
  std::uint8_t* const to = codes + col * padded + static_cast<int64_t>(blockIdx.x) * along;
  for (int64_t r = 0; r < along; ++r) {
    to[r] = r < rows ? float8_code<A>(value(x[from + r * cols]) / scale, of_blocks.mantissa) : 0;
  }
}

/// A factor of a product: lines of `step` codes in blocks of `across` lines and `along` codes.
struct Lines {
  const std::uint8_t* codes;
  Ref scales;
  int64_t step, across, along;
  int mantissa;
  template <class A>
  __device__ __forceinline__ A get(int64_t line, int64_t at) const {
    return static_cast<A>(float8_value(codes[line * step + at], mantissa)) *
           scales.template get<A>(line / across * ((step + along - 1) / along) + at / along);
  }
};

/// Each block of the grid computes a tile of c.
template <class T>
__global__ void multiply_rows(RaggedLayout layout, int64_t n, int64_t k, bool beside, Lines a,
                              Lines b, Ref c) {
  using A = Acc<T>;
  __shared__ A tile_a[kTile][kTile + 1];
  __shared__ A tile_b[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  int64_t tile = blockIdx.x;
  const RaggedPart part = layout.part_of(tile, kTile);
  if (part.count == 0) return;
  const int64_t row0 = tile * kTile, col0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t line0 = beside ? 0 : part.group * n, at0 = beside ? part.group * k : 0;
  A sum = 0;
  for (int64_t k0 = 0; k0 < k; k0 += kTile) {
    const bool in = k0 + x < k;
    tile_a[y][x] =
        in && row0 + y < part.count ? a.template get<A>(part.first + row0 + y, k0 + x) : A(0);
    tile_b[x][y] = in && col0 + y < n ? b.template get<A>(line0 + col0 + y, at0 + k0 + x) : A(0);
    sync_block();
    LOCKSTEP_UNROLL
    for (int j = 0; j < kTile; ++j) sum += tile_a[y][j] * tile_b[j][x];
    sync_block();
  }
  const int64_t row = row0 + y, col = col0 + x;
  if (row < part.count && col < n) c.set((part.first + row) * n + col, sum);
}

/// Each block of the grid computes a tile of one group's gradient, over the blocks of all chunks in
/// order.
template <class T>
__global__ void multiply_columns(RaggedLayout layout, int64_t m, int64_t n, bool accumulate,
                                 Lines dy, Lines x, Ref dw) {
  using A = Acc<T>;
  __shared__ A tile_a[kTile][kTile + 1];
  __shared__ A tile_b[kTile][kTile + 1];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int64_t group = blockIdx.z;
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t col0 = static_cast<int64_t>(blockIdx.y) * kTile;
  A sum = 0;
  int64_t first = 0;
  for (int64_t part = 0; part < layout.parts; ++part) {
    const int64_t length = (layout.counts[part] + dy.along - 1) / dy.along * dy.along;
    for (int64_t k0 = 0; part % layout.groups == group && k0 < length; k0 += kTile) {
      const bool in = k0 + tx < length;
      tile_a[ty][tx] = in && row0 + ty < m ? dy.template get<A>(row0 + ty, first + k0 + tx) : A(0);
      tile_b[tx][ty] = in && col0 + ty < n ? x.template get<A>(col0 + ty, first + k0 + tx) : A(0);
      sync_block();
      LOCKSTEP_UNROLL
      for (int j = 0; j < kTile; ++j) sum += tile_a[ty][j] * tile_b[j][tx];
      sync_block();
    }
    first += length;
  }
  const int64_t row = row0 + ty, col = col0 + tx;
  if (row >= m || col >= n) return;
  const int64_t at = (group * m + row) * n + col;
  dw.set(at, accumulate ? dw.get<A>(at) + sum : sum);
}

int mantissa_of(const KernelCall& call, std::size_t i) {
  return static_cast<int>(call.kernel->scalars[i]);
}
Lines factor(const KernelCall& call, int i, int64_t step, int64_t across, int64_t along) {
  return {input<const std::uint8_t>(call, i),
          input_ref(call, 2 + i),
          step,
          across,
          along,
          mantissa_of(call, static_cast<std::size_t>(i))};
}

/// The blocks of the grid that make codes.
std::int64_t grid_of_quantize(const Kernel& kernel) {
  const auto& d = kernel.dims;
  return d[4] != 0 ? d[7] / d[5] * blocks_of(d[3], kThreads) : d[1] * blocks_of(d[3], d[5]);
}
/// Room for the largest magnitude that each of them finds.
std::int64_t room_for_largest(const Kernel& kernel) {
  const bool finds = kernel.out.size() > 2 && kernel.out[2].present();
  return finds ? grid_of_quantize(kernel) * (kernel.dtype == DType::F64 ? 8 : 4) : 0;
}

void run_ragged_quantize(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const int64_t cols = d[3], along = d[5];
  const RaggedLayout layout{input<const std::int32_t>(call, 1), d[0], d[0], d[6], d[1]};
  const Ref most = output_ref(call, 2);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto* const x = input<const T>(call, 0);
    auto* const codes = output<std::uint8_t>(call, 0);
    auto* const largest = most ? reinterpret_cast<Acc<T>*>(call.scratch) : nullptr;
    const BlockScales<Acc<T>> of_blocks{input_ref(call, 2), mantissa_of(call, 0), largest};
    if (d[4] != 0) {
      queue.launch({static_cast<unsigned>(d[7] / along), blocks_of(cols, kThreads)}, {kThreads}, 0,
                   quantize_columns<T>, layout, cols, along, d[7], of_blocks, x, codes,
                   output_ref(call, 1));
    } else {
      queue.launch({static_cast<unsigned>(d[1] * blocks_of(cols, along))}, {kThreads}, 0,
                   quantize_rows<T>, layout, cols, along, of_blocks, x, codes, output_ref(call, 1));
    }
    if (most) {
      queue.launch({1}, {kThreads}, 0, largest_of_all<Acc<T>, kThreads>, largest,
                   grid_of_quantize(*call.kernel), most);
    }
  });
}

void run_ragged_scaled_gemm(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const int64_t parts = d[0] * d[1], n = d[4], k = d[5];
  const bool beside = call.kernel->scalars[2] != 0;
  const auto tiles = static_cast<unsigned>(d[2] / kTile + parts);  // the last of a part is short
  const RaggedLayout layout{input<const std::int32_t>(call, 4), d[0], parts,
                            static_cast<int64_t>(call.kernel->scalars[3]), d[2]};
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({tiles, blocks_of(n, kTile)}, {kTile, kTile}, 0, multiply_rows<T>, layout, n, k,
                 beside, factor(call, 0, k, 1, d[7]),
                 factor(call, 1, beside ? d[0] * k : k, d[6], d[7]), output_ref(call, 0));
  });
}

void run_ragged_scaled_gemm_weight(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const RaggedLayout layout{input<const std::int32_t>(call, 4), d[0], d[0] * d[1], 1, d[2]};
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(d[4], kTile), blocks_of(d[5], kTile), static_cast<unsigned>(d[0])},
                 {kTile, kTile}, 0, multiply_columns<T>, layout, d[4], d[5],
                 call.kernel->accumulate, factor(call, 0, d[2], 1, d[6]),
                 factor(call, 1, d[2], 1, d[6]), output_ref(call, 0));
  });
}

}  // namespace

void add_ragged_float8(Registry& rows) {
  rows[KernelKind::RaggedQuantize] = {run_ragged_quantize, room_for_largest};
  rows[KernelKind::RaggedScaledGemm] = {run_ragged_scaled_gemm};
  rows[KernelKind::RaggedScaledGemmWeight] = {run_ragged_scaled_gemm_weight};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
