// Values in 8 bits with scales of blocks, and their products: by the queue's library, or by tiles
// in shared memory that are widened as they are read.
#include "backends/cuda/kernels/registry.hpp"
#include "core/base/float8.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = 16;

/// The matrix y [rows, cols] that is made 8 bits wide, an x that may be transposed.
template <class T>
struct Quantized {
  const T* x;
  std::uint8_t* codes;
  Ref scales;
  int64_t rows, cols, row_step, col_step, across, along;
  int64_t parts;  // blocks side by side
  int mantissa;
};

/// A block of the grid makes one of y. Neighbouring threads take neighbours in x.
template <class T>
__global__ void quantize_block(Quantized<T> q) {
  using A = Acc<T>;
  const int64_t block = blockIdx.x;
  const int64_t row0 = block / q.parts * q.across, col0 = block % q.parts * q.along;
  const int64_t rows = smaller(q.across, q.rows - row0), cols = smaller(q.along, q.cols - col0);
  const bool by_rows = q.row_step == 1;
  A largest = 0;
  for (int64_t i = threadIdx.x; i < rows * cols; i += kThreads) {
    const int64_t r = row0 + (by_rows ? i % rows : i / cols);
    const int64_t c = col0 + (by_rows ? i / rows : i % cols);
    const A v = value(q.x[r * q.row_step + c * q.col_step]), size = v < 0 ? -v : v;
    if (size > largest && size < infinity<A>()) largest = size;
  }
  const int exponent = float8_exponent(block_max<kThreads>(largest), q.mantissa);
  if (threadIdx.x == 0) {
    q.scales.set(block, lockstep::power_of_two<A>(exponent));
  }
  const A factor = lockstep::power_of_two<A>(-exponent);
  for (int64_t i = threadIdx.x; i < rows * cols; i += kThreads) {
    const int64_t r = row0 + (by_rows ? i % rows : i / cols);
    const int64_t c = col0 + (by_rows ? i / rows : i % cols);
    const A v = value(q.x[r * q.row_step + c * q.col_step]);
    if (q.codes != nullptr) q.codes[r * q.cols + c] = float8_code<A>(v * factor, q.mantissa);
  }
}

/// The part of a matrix of n elements whose largest magnitude one block finds.
constexpr int64_t kPart = 1 << 14;

template <class T>
__global__ void largest_of_parts(const T* x, int64_t n, Acc<T>* largest) {
  using A = Acc<T>;
  const int64_t begin = blockIdx.x * kPart, end = smaller(n, begin + kPart);
  A most = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const A v = value(x[i]), size = v < 0 ? -v : v;
    if (size > most && size < infinity<A>()) most = size;
  }
  most = block_max<kThreads>(most);
  if (threadIdx.x == 0) largest[blockIdx.x] = most;
}

/// The scale of a matrix that is one block, of the largest magnitudes of its parts.
template <class A>
__global__ void scale_of_parts(const A* largest, int64_t parts, int mantissa, Ref scale) {
  A most = 0;
  for (int64_t i = threadIdx.x; i < parts; i += kThreads) most = greater(most, largest[i]);
  most = block_max<kThreads>(most);
  if (threadIdx.x == 0) scale.set(0, lockstep::power_of_two<A>(float8_exponent(most, mantissa)));
}

/// The largest of `count` scales, as that of all blocks.
__global__ void take_largest(Ref from, int64_t count, Ref scales, int64_t blocks) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i) most = greater(most, from.get<double>(i));
  for (int64_t i = threadIdx.x; i < blocks; i += kThreads) scales.set(i, most);
}

/// The codes of a matrix whose blocks all have the first of the scales. Index i counts elements of
/// x.
template <class T>
__global__ void code_all(Quantized<T> q) {
  using A = Acc<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= q.rows * q.cols) return;
  const bool transposed = q.row_step == 1 && q.cols > 1;
  const int64_t at = transposed ? i % q.rows * q.cols + i / q.rows : i;
  q.codes[at] = float8_code<A>(value(q.x[i]) / q.scales.template get<A>(0), q.mantissa);
}

void quantize(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto& d = call.kernel->dims;
    const bool transposed = d[2] != 0;
    const int64_t rows = d[transposed ? 1 : 0], cols = d[transposed ? 0 : 1];
    const Quantized<T> q{input<T>(call, 0),
                         output<std::uint8_t>(call, 0),
                         output_ref(call, 1),
                         rows,
                         cols,
                         transposed ? 1 : cols,
                         transposed ? rows : 1,
                         d[3],
                         d[4],
                         blocks_of(cols, d[4]),
                         static_cast<int>(call.kernel->scalars[0])};
    const int64_t blocks = blocks_of(rows, d[3]) * q.parts;
    if (const Ref others = input_ref(call, 1)) {
      queue.launch({1}, {kThreads}, 0, take_largest, others, d[5], q.scales, blocks);
    } else if (blocks == 1) {
      auto* const largest = reinterpret_cast<Acc<T>*>(call.scratch);
      const unsigned parts = blocks_of(rows * cols, kPart);
      queue.launch({parts}, {kThreads}, 0, largest_of_parts<T>, q.x, rows * cols, largest);
      queue.launch({1}, {kThreads}, 0, scale_of_parts<Acc<T>>, largest, parts, q.mantissa,
                   q.scales);
    } else {
      return queue.launch({static_cast<unsigned>(blocks)}, {kThreads}, 0, quantize_block<T>, q);
    }
    if (q.codes == nullptr) return;
    queue.launch({blocks_of(rows * cols, kThreads)}, {kThreads}, 0, code_all<T>, q);
  });
}

std::int64_t parts_of_matrix(const Kernel& kernel) {
  return (kernel.dims[0] * kernel.dims[1] + kPart - 1) / kPart *
         (kernel.dtype == DType::F64 ? 8 : 4);
}

/// A factor of a product: codes [lines, k], and the scales of their blocks.
struct Narrow {
  const std::uint8_t* codes;
  Ref scales;
  int64_t lines, k, across, along, parts;
  int mantissa;
  template <class A>
  __device__ __forceinline__ A get(int64_t line, int64_t j) const {
    if (line >= lines || j >= k) return 0;
    return static_cast<A>(float8_value(codes[line * k + j], mantissa)) *
           scales.template get<A>(line / across * parts + j / along);
  }
};

struct Product {
  Narrow a, b;
  Ref bias, resid, c;
  bool accumulate;
};

template <class T>
__global__ void multiply_narrow(Product p) {
  using A = Acc<T>;
  __shared__ A tile_a[kTile][kTile + 1];
  __shared__ A tile_b[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * kTile;  // rows may be very many: x
  const int64_t col0 = static_cast<int64_t>(blockIdx.y) * kTile;
  A sum = 0;
  for (int64_t k0 = 0; k0 < p.a.k; k0 += kTile) {
    tile_a[y][x] = p.a.template get<A>(row0 + y, k0 + x);
    tile_b[x][y] = p.b.template get<A>(col0 + y, k0 + x);
    sync_block();
    LOCKSTEP_UNROLL
    for (int j = 0; j < kTile; ++j) sum += tile_a[y][j] * tile_b[j][x];
    sync_block();
  }
  const int64_t row = row0 + y, col = col0 + x;
  if (row >= p.a.lines || col >= p.b.lines) return;
  const int64_t at = row * p.b.lines + col;
  if (p.bias) sum += p.bias.template get<A>(col);
  if (p.resid) sum += p.resid.template get<A>(at);
  if (p.accumulate) sum += p.c.template get<A>(at);
  p.c.set(at, sum);
}

void scaled_gemm(const KernelCall& call, Queue& queue) {
  if (queue.multiplied(call, {})) return;
  const auto& d = call.kernel->dims;
  const auto factor = [&](int i, int64_t lines, int64_t across) {
    return Narrow{input<const std::uint8_t>(call, i),
                  input_ref(call, 4 + i),
                  lines,
                  d[2],
                  across,
                  d[5],
                  (d[2] + d[5] - 1) / d[5],
                  static_cast<int>(call.kernel->scalars[static_cast<std::size_t>(i)])};
  };
  const Product p{factor(0, d[0], d[3]), factor(1, d[1], d[4]), input_ref(call, 2),
                  input_ref(call, 3),    output_ref(call, 0),   call.kernel->accumulate};
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(d[0], kTile), blocks_of(d[1], kTile)}, {kTile, kTile}, 0,
                 multiply_narrow<T>, p);
  });
}

}  // namespace

void add_float8(Registry& rows) {
  rows[KernelKind::Quantize] = {quantize, parts_of_matrix};
  rows[KernelKind::ScaledGemm] = {scaled_gemm};
  rows[KernelKind::ScaledGemm].multiplies = true;
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
