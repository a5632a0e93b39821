// Values in 8 bits with scales of blocks, and their products: by the queue's library, or by tiles
// in shared memory that are widened as they are read.
#include "backends/cuda/kernels/float8.hpp"
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

/// The codes of a part of a matrix whose blocks all have the first of the scales, and, unless
/// `largest` is null, its largest magnitude. Index i counts elements of x.
template <class T>
__global__ void code_parts(Quantized<T> q, Acc<T>* largest) {
  using A = Acc<T>;
  const int64_t begin = blockIdx.x * kPart, end = smaller(q.rows * q.cols, begin + kPart);
  const bool transposed = q.row_step == 1 && q.cols > 1;
  const A scale = q.scales.template get<A>(0);
  A most = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const int64_t at = transposed ? i % q.rows * q.cols + i / q.rows : i;
    const A v = value(q.x[i]), size = v < 0 ? -v : v;
    if (size > most && size < infinity<A>()) most = size;
    q.codes[at] = float8_code<A>(v / scale, q.mantissa);
  }
  if (largest == nullptr) return;
  most = block_max<kThreads>(most);
  if (threadIdx.x == 0) largest[blockIdx.x] = most;
}

/// A thread for each factor of a linear layer.
template <class A>
__global__ void largest_of_factors(Ref x, Ref w, Ref dy, bool accumulate, Ref y) {
  const int i = static_cast<int>(threadIdx.x);
  const Ref from = i == 0 ? x : i == 1 ? w : dy;
  const A own = from.get<A>(0);
  y.set(i, accumulate ? greater(y.get<A>(i), own) : own);
}

/// A block for each tensor: its history moves on, and its scale follows.
template <class A>
__global__ void delayed_scale(int64_t length, int margin, bool recent, int forward, int gradient,
                              Ref now, Ref coefficient, Ref scale, Ref history) {
  if (coefficient && coefficient.get<A>(0) < 0) return;  // a gradient is not finite
  const int64_t tensor = blockIdx.x, first = tensor * length;
  const A own = now.get<A>(tensor);
  A most = own;
  // From the oldest on, so many at once as there are threads, which all read before any writes.
  for (int64_t left = length - 1; left > 0; left -= kThreads) {
    const int64_t from = left - 1 - static_cast<int64_t>(threadIdx.x);
    const A earlier = from >= 0 ? history.get<A>(first + from) : A(0);
    most = greater(most, earlier);
    sync_block();
    if (from >= 0) history.set(first + from + 1, earlier);
    sync_block();
  }
  most = block_max<kThreads>(most);
  if (threadIdx.x != 0) return;
  history.set(first, own);
  if (recent) most = own;
  if (!(most > 0) || !(most < infinity<A>())) return;
  const int exponent = delayed_exponent(most, margin, tensor % 3 == 2 ? gradient : forward);
  scale.set(tensor, lockstep::power_of_two<A>(exponent));
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
    auto* const largest = reinterpret_cast<Acc<T>*>(call.scratch);
    const unsigned parts = blocks_of(rows * cols, kPart);
    const Ref most = output_ref(call, 2);
    const auto find_largest = [&] {
      queue.launch({parts}, {kThreads}, 0, largest_of_parts<T>, q.x, rows * cols, largest);
    };
    const auto keep_largest = [&] {
      if (most) {
        queue.launch({1}, {kThreads}, 0, largest_of_all<Acc<T>, kThreads>, largest, parts, most);
      }
    };
    if (const Ref others = input_ref(call, 1)) {
      queue.launch({1}, {kThreads}, 0, take_largest, others, d[5], q.scales, blocks);
    } else if (blocks == 1) {
      find_largest();
      queue.launch({1}, {kThreads}, 0, scale_of_parts<Acc<T>>, largest, parts, q.mantissa,
                   q.scales);
    } else {
      queue.launch({static_cast<unsigned>(blocks)}, {kThreads}, 0, quantize_block<T>, q);
      if (most) find_largest();
      return keep_largest();
    }
    if (q.codes != nullptr) {
      queue.launch({parts}, {kThreads}, 0, code_parts<T>, q, most ? largest : nullptr);
    } else if (most) {
      find_largest();
    }
    keep_largest();
  });
}

void largest(const KernelCall& call, Queue& queue) {
  for_sum_type(call, [&](auto a) {
    queue.launch({1}, {3}, 0, largest_of_factors<decltype(a)>, input_ref(call, 0),
                 input_ref(call, 1), input_ref(call, 2), call.kernel->accumulate,
                 output_ref(call, 0));
  });
}

void run_delayed_scale(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const auto scalar = [&](std::size_t i) { return static_cast<int>(call.kernel->scalars[i]); };
  for_sum_type(call, [&](auto a) {
    queue.launch({static_cast<unsigned>(d[0])}, {kThreads}, 0, delayed_scale<decltype(a)>, d[1],
                 scalar(0), scalar(1) != 0, scalar(2), scalar(3), input_ref(call, 0),
                 input_ref(call, 1), output_ref(call, 0), output_ref(call, 1));
  });
}

std::int64_t parts_of_matrix(const Kernel& kernel) {
  return (kernel.dims[0] * kernel.dims[1] + kPart - 1) / kPart *
         (kernel.dtype == DType::F64 ? 8 : 4);
}

/// A factor of a product: codes of lines of `step` elements, and the scales of their blocks. Groups
/// (scaled_gemm) have lines or columns of their own, which stand in runs of `run` columns, one for
/// each chunk.
struct Narrow {
  const std::uint8_t* codes;
  Ref scales;
  int64_t step, across, along;
  int mantissa;
  int64_t run, groups;
  /// Element j of what group `group` has of a line; `line` counts those of all groups.
  template <class A>
  __device__ __forceinline__ A get(int64_t line, int64_t group, int64_t j) const {
    const int64_t col = groups == 1 ? j : (j / run * groups + group) * run + j % run;
    const int64_t parts = (step + along - 1) / along;
    return static_cast<A>(float8_value(codes[line * step + col], mantissa)) *
           scales.template get<A>(line / across * parts + col / along);
  }
};

struct Product {
  Narrow a, b;
  int64_t m, n, k;        // of one product, of which there are groups × chunks
  int64_t groups;         // products in a row have these, one after the other
  bool a_lines, b_lines;  // whether each product (each group) has lines of its own
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
  const int64_t product = blockIdx.z, group = product % p.groups;
  const int64_t a0 = p.a_lines ? product * p.m : 0, b0 = p.b_lines ? group * p.n : 0;
  A sum = 0;
  for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    const bool in = k0 + x < p.k;
    tile_a[y][x] = in && row0 + y < p.m ? p.a.template get<A>(a0 + row0 + y, group, k0 + x) : A(0);
    tile_b[x][y] = in && col0 + y < p.n ? p.b.template get<A>(b0 + col0 + y, group, k0 + x) : A(0);
    sync_block();
    LOCKSTEP_UNROLL
    for (int j = 0; j < kTile; ++j) sum += tile_a[y][j] * tile_b[j][x];
    sync_block();
  }
  const int64_t row = row0 + y, col = col0 + x;
  if (row >= p.m || col >= p.n) return;
  const int64_t at = (product * p.m + row) * p.n + col;
  if (p.bias) sum += p.bias.template get<A>(group * p.n + col);
  if (p.resid) sum += p.resid.template get<A>(at);
  if (p.accumulate) sum += p.c.template get<A>(at);
  p.c.set(at, sum);
}

/// Room for the scales of both factors as cuBLASLt wants those of blocks (toolkit/multiplier.cu),
/// which pads them to tiles of 128 by 4.
std::int64_t laid_scales(const Kernel& kernel) {
  const auto& d = kernel.dims;
  const auto of_factor = [&](int64_t lines, int64_t across) {
    const int64_t rows = ((lines + across - 1) / across + 127) / 128 * 128;
    const int64_t parts = ((d[2] + d[5] - 1) / d[5] + 3) / 4 * 4;
    return (rows * parts * 4 + 255) / 256 * 256;
  };
  return d[7] > 0 ? 0 : of_factor(d[0], d[3]) + of_factor(d[1], d[4]);
}

void scaled_gemm(const KernelCall& call, Queue& queue) {
  if (queue.multiplied(call, {})) return;
  const auto& d = call.kernel->dims;
  const auto& scalars = call.kernel->scalars;
  const bool by_rows = d[6] != 0, beside = scalars[3] != 0;
  const int64_t groups = d[7] > 0 ? d[7] : 1;
  const int64_t chunks = d[7] > 0 ? static_cast<int64_t>(scalars[2]) : 1;
  const auto factor = [&](int i, int64_t step, int64_t across, bool columns) {
    return Narrow{input<const std::uint8_t>(call, i),
                  input_ref(call, 4 + i),
                  step,
                  across,
                  d[5],
                  static_cast<int>(scalars[static_cast<std::size_t>(i)]),
                  columns ? (by_rows ? step / (groups * chunks) : d[2]) : step,
                  columns ? groups : 1};
  };
  const Product p{factor(0, d[2], d[3], by_rows),
                  factor(1, beside ? groups * d[2] : d[2], d[4], by_rows || beside),
                  by_rows ? d[0] : d[0] / (groups * chunks),
                  d[1],
                  by_rows ? d[2] / groups : d[2],
                  groups,
                  !by_rows,
                  !by_rows && !beside,
                  input_ref(call, 2),
                  input_ref(call, 3),
                  output_ref(call, 0),
                  call.kernel->accumulate};
  const auto products = static_cast<unsigned>(by_rows ? groups : groups * chunks);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(p.m, kTile), blocks_of(p.n, kTile), products}, {kTile, kTile}, 0,
                 multiply_narrow<T>, p);
  });
}

}  // namespace

void add_float8(Registry& rows) {
  rows[KernelKind::Quantize] = {quantize, parts_of_matrix};
  rows[KernelKind::Largest] = {largest};
  rows[KernelKind::DelayedScale] = {run_delayed_scale};
  rows[KernelKind::ScaledGemm] = {scaled_gemm, laid_scales};
  rows[KernelKind::ScaledGemm].multiplies = true;
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
