// Attention of bfloat16 heads of 64 or 128 elements on tensor cores (Dao, FlashAttention-2, 2023):
// a warp owns 16 rows of a tile; weights pass from the sums of one product to the operand of the
// next in registers. Backward makes two passes, so that no sum needs atomic additions.
#include "backends/cuda/kernels/attention.hpp"
#include "backends/cuda/kernels/mma.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = 64;  // rows of a block: 16 for each warp
constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;

/// Rows of D elements, 16 bytes apart beyond that: ldmatrix then meets no bank twice.
template <int D>
constexpr int kStride = D + 8;

/// Lane 4 g + t of a warp.
struct Lane {
  int all, g, t, warp;
  __device__ Lane()
      : all(static_cast<int>(threadIdx.x) % kWarp),
        g(all / 4),
        t(all % 4),
        warp(static_cast<int>(threadIdx.x) / kWarp) {}
};

/// Rows s0 … s0 + kRows - 1 to shared memory, those from `seq` on zero.
template <int kRows, int D>
__device__ __forceinline__ void read_tile(BF16* to, const BF16* from, int64_t stride, int64_t s0,
                                          int64_t seq) {
  constexpr int kChunks = D / 8;
  LOCKSTEP_UNROLL
  for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    const int r = at / kChunks, c = at % kChunks * 8;
    const bool present = s0 + r < seq;
    copy_async(to + r * kStride<D> + c, from + (present ? r : 0) * stride + c, present);
  }
}

/// c[16, kColumns] = a[16, D] b[kColumns, D]^T, both in shared memory.
template <int kColumns, int D>
__device__ __forceinline__ void row_products(const Lane& lane, const BF16* a, const BF16* b,
                                             float (&c)[kColumns / 8][4]) {
  LOCKSTEP_UNROLL
  for (int n = 0; n < kColumns / 8; ++n) {
    for (int i = 0; i < 4; ++i) c[n][i] = 0;
  }
  LOCKSTEP_UNROLL
  for (int k = 0; k < D; k += 16) {
    std::uint32_t fa[4];
    load_matrices(fa, a + lane.all % 16 * kStride<D> + k + lane.all / 16 * 8);
    LOCKSTEP_UNROLL
    for (int n = 0; n < kColumns; n += 16) {
      std::uint32_t fb[4];
      load_matrices(
          fb, b + (n + lane.all / 16 * 8 + lane.all % 8) * kStride<D> + k + lane.all / 8 % 2 * 8);
      multiply_add(c[n / 8], fa, fb[0], fb[1]);
      multiply_add(c[n / 8 + 1], fa, fb[2], fb[3]);
    }
  }
}

/// c[16, D] += w[16, kRows] b[kRows, D]; w rounded to bfloat16, b in shared memory.
template <int kRows, int D>
__device__ __forceinline__ void add_product(const Lane& lane, const float (&w)[kRows / 8][4],
                                            const BF16* b, float (&c)[D / 8][4]) {
  LOCKSTEP_UNROLL
  for (int k = 0; k < kRows; k += 16) {
    const auto& left = w[k / 8];
    const auto& right = w[k / 8 + 1];
    const std::uint32_t fa[4] = {pack_bf16(left[0], left[1]), pack_bf16(left[2], left[3]),
                                 pack_bf16(right[0], right[1]), pack_bf16(right[2], right[3])};
    LOCKSTEP_UNROLL
    for (int n = 0; n < D; n += 16) {
      std::uint32_t fb[4];
      load_matrices_transposed(
          fb, b + (k + lane.all / 8 % 2 * 8 + lane.all % 8) * kStride<D> + n + lane.all / 16 * 8);
      multiply_add(c[n / 8], fa, fb[0], fb[1]);
      multiply_add(c[n / 8 + 1], fa, fb[2], fb[3]);
    }
  }
}

/// Rows g and g + 8 of c[16, D], times a factor each; a null row is not stored.
template <int D>
__device__ __forceinline__ void write_rows(const Lane& lane, const float (&c)[D / 8][4],
                                           float factor_low, float factor_high, BF16* low,
                                           BF16* high) {
  LOCKSTEP_UNROLL
  for (int n = 0; n < D / 8; ++n) {
    const int at = n * 8 + 2 * lane.t;
    if (low != nullptr) {
      *reinterpret_cast<std::uint32_t*>(low + at) =
          pack_bf16(c[n][0] * factor_low, c[n][1] * factor_low);
    }
    if (high != nullptr) {
      *reinterpret_cast<std::uint32_t*>(high + at) =
          pack_bf16(c[n][2] * factor_high, c[n][3] * factor_high);
    }
  }
}

/// Over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}
__device__ __forceinline__ float row_max(float x) {
  x = greater(x, shuffle_xor(x, 1));
  return greater(x, shuffle_xor(x, 2));
}

/// A block per (tile of queries, longest first; head; batch).
template <int D>
__global__ void __launch_bounds__(kThreads) forward(Attention<BF16> a) {
  LOCKSTEP_DYNAMIC_SHARED(memory);
  constexpr int kTileElements = kTile * kStride<D>;
  BF16* const queries = reinterpret_cast<BF16*>(memory);
  BF16* const keys = queries + kTileElements;     // two of them, in turn
  BF16* const values = keys + 2 * kTileElements;  // likewise
  const Lane lane;
  const int64_t q0 = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int64_t h = blockIdx.y, b = blockIdx.z, kv = h / a.group;
  const float scale = a.scale * kLog2E;
  read_tile<kTile, D>(queries, a.qkv + a.query(b, h, q0), a.row, q0, a.seq);
  read_tile<kTile, D>(keys, a.qkv + a.key(b, kv, 0), a.row, 0, a.seq);
  read_tile<kTile, D>(values, a.qkv + a.value_of(b, kv, 0), a.row, 0, a.seq);
  commit_copies();
  float out[D / 8][4] = {};
  float top[2] = {-infinity<float>(), -infinity<float>()}, total[2] = {0, 0};
  int buffer = 0;
  for (int64_t k0 = 0; k0 <= q0; k0 += kTile, buffer ^= 1) {
    if (k0 < q0) {
      const int64_t next = k0 + kTile;
      const int other = (buffer ^ 1) * kTileElements;
      read_tile<kTile, D>(keys + other, a.qkv + a.key(b, kv, next), a.row, next, a.seq);
      read_tile<kTile, D>(values + other, a.qkv + a.value_of(b, kv, next), a.row, next, a.seq);
    }
    commit_copies();
    wait_for_copies<1>();
    sync_block();
    float s[kTile / 8][4];
    row_products<kTile, D>(lane, queries + lane.warp * 16 * kStride<D>,
                           keys + buffer * kTileElements, s);
    const bool diagonal = k0 == q0;
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = lane.warp * 16 + lane.g + 8 * half;
      float most = top[half];
      LOCKSTEP_UNROLL
      for (int n = 0; n < kTile / 8; ++n) {
        LOCKSTEP_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][2 * half + i];
          x *= scale;
          if (diagonal && n * 8 + 2 * lane.t + i > row) x = -infinity<float>();
          most = greater(most, x);
        }
      }
      most = row_max(most);  // finite: every query sees key 0, which is in the first tile
      const float correction = power_of_two(top[half] - most);
      float part = 0;
      LOCKSTEP_UNROLL
      for (int n = 0; n < kTile / 8; ++n) {
        LOCKSTEP_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][2 * half + i];
          x = power_of_two(x - most);
          part += x;
        }
      }
      total[half] = total[half] * correction + part;  // the lane's own part; added up at the end
      top[half] = most;
      LOCKSTEP_UNROLL
      for (int n = 0; n < D / 8; ++n) {
        out[n][2 * half] *= correction;
        out[n][2 * half + 1] *= correction;
      }
    }
    add_product<kTile, D>(lane, s, values + buffer * kTileElements, out);
    sync_block();  // the buffer is read: the next round but one may fill it
  }
  BF16* rows[2];
  for (int half = 0; half < 2; ++half) {
    total[half] = row_sum(total[half]);
    const int64_t q = q0 + lane.warp * 16 + lane.g + 8 * half;
    rows[half] = q < a.seq ? a.out + a.out_of(b, h, q) : nullptr;
    if (q < a.seq && lane.t == 0) {
      a.lse.set(a.row_of(b, h, q), top[half] * kLn2 + logf(total[half]));
    }
  }
  write_rows<D>(lane, out, 1 / total[0], 1 / total[1], rows[0], rows[1]);
}

/// A block per (tile of keys, key head, batch): rows are keys, columns queries.
template <int D, int kQueries>
__global__ void __launch_bounds__(kThreads) backward_keys(Attention<BF16> a) {
  LOCKSTEP_DYNAMIC_SHARED(memory);
  constexpr int kTileElements = kTile * kStride<D>, kQueryElements = kQueries * kStride<D>;
  BF16* const keys = reinterpret_cast<BF16*>(memory);
  BF16* const values = keys + kTileElements;
  BF16* const queries = values + kTileElements;       // two of them, in turn
  BF16* const d_outs = queries + 2 * kQueryElements;  // likewise
  float* const lse = reinterpret_cast<float*>(d_outs + 2 * kQueryElements);
  float* const delta = lse + kQueries;
  const Lane lane;
  const int64_t k0 = static_cast<int64_t>(blockIdx.x) * kTile, kv = blockIdx.y, b = blockIdx.z;
  const float scale = a.scale * kLog2E;
  const int64_t tiles = (a.seq - k0 + kQueries - 1) / kQueries, rounds = tiles * a.group;
  const auto read_queries = [&](int64_t round, int into) {
    const int64_t h = kv * a.group + round / tiles, q0 = k0 + round % tiles * kQueries;
    read_tile<kQueries, D>(queries + into * kQueryElements, a.qkv + a.query(b, h, q0), a.row, q0,
                           a.seq);
    read_tile<kQueries, D>(d_outs + into * kQueryElements, a.d_o + a.out_of(b, h, q0), a.heads * D,
                           q0, a.seq);
  };
  read_tile<kTile, D>(keys, a.qkv + a.key(b, kv, k0), a.row, k0, a.seq);
  read_tile<kTile, D>(values, a.qkv + a.value_of(b, kv, k0), a.row, k0, a.seq);
  read_queries(0, 0);
  commit_copies();
  float d_key[D / 8][4] = {}, d_value[D / 8][4] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    const int buffer = static_cast<int>(round % 2) * kQueryElements;
    if (round + 1 < rounds) read_queries(round + 1, static_cast<int>((round + 1) % 2));
    commit_copies();
    const int64_t h = kv * a.group + round / tiles, q0 = k0 + round % tiles * kQueries;
    if (threadIdx.x < kQueries) {
      const int64_t q = smaller(q0 + threadIdx.x, a.seq - 1);
      lse[threadIdx.x] = a.lse.get<float>(a.row_of(b, h, q)) * kLog2E;
      delta[threadIdx.x] = a.delta[a.row_of(b, h, q)];
    }
    wait_for_copies<1>();
    sync_block();
    float p[kQueries / 8][4], ds[kQueries / 8][4];
    row_products<kQueries, D>(lane, keys + lane.warp * 16 * kStride<D>, queries + buffer, p);
    row_products<kQueries, D>(lane, values + lane.warp * 16 * kStride<D>, d_outs + buffer, ds);
    const bool edge = q0 < k0 + kTile || q0 + kQueries > a.seq;
    LOCKSTEP_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + 2 * lane.t + i % 2;
        float weight = power_of_two(p[n][i] * scale - lse[column]);
        if (edge) {
          const int64_t q = q0 + column, k = k0 + lane.warp * 16 + lane.g + 8 * (i / 2);
          if (k > q || q >= a.seq) weight = 0;
        }
        p[n][i] = weight;
        ds[n][i] = weight * (ds[n][i] - delta[column]);
      }
    }
    add_product<kQueries, D>(lane, p, d_outs + buffer, d_value);
    add_product<kQueries, D>(lane, ds, queries + buffer, d_key);
    sync_block();
  }
  BF16* key_rows[2];
  BF16* value_rows[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t k = k0 + lane.warp * 16 + lane.g + 8 * half;
    key_rows[half] = k < a.seq ? a.out + a.key(b, kv, k) : nullptr;
    value_rows[half] = k < a.seq ? a.out + a.value_of(b, kv, k) : nullptr;
  }
  write_rows<D>(lane, d_key, a.scale, a.scale, key_rows[0], key_rows[1]);
  write_rows<D>(lane, d_value, 1, 1, value_rows[0], value_rows[1]);
}

/// A block per (tile of queries, longest first; head; batch).
template <int D, int kKeys>
__global__ void __launch_bounds__(kThreads) backward_queries(Attention<BF16> a) {
  LOCKSTEP_DYNAMIC_SHARED(memory);
  constexpr int kTileElements = kTile * kStride<D>, kKeyElements = kKeys * kStride<D>;
  BF16* const queries = reinterpret_cast<BF16*>(memory);
  BF16* const d_outs = queries + kTileElements;
  BF16* const keys = d_outs + kTileElements;     // two of them, in turn
  BF16* const values = keys + 2 * kKeyElements;  // likewise
  const Lane lane;
  const int64_t q0 = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int64_t h = blockIdx.y, b = blockIdx.z, kv = h / a.group;
  const float scale = a.scale * kLog2E;
  const int64_t end = smaller(q0 + kTile, a.seq);
  const auto read_keys = [&](int64_t k0, int into) {
    read_tile<kKeys, D>(keys + into * kKeyElements, a.qkv + a.key(b, kv, k0), a.row, k0, a.seq);
    read_tile<kKeys, D>(values + into * kKeyElements, a.qkv + a.value_of(b, kv, k0), a.row, k0,
                        a.seq);
  };
  read_tile<kTile, D>(queries, a.qkv + a.query(b, h, q0), a.row, q0, a.seq);
  read_tile<kTile, D>(d_outs, a.d_o + a.out_of(b, h, q0), a.heads * D, q0, a.seq);
  read_keys(0, 0);
  commit_copies();
  float lse[2], delta[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t q = smaller(q0 + lane.warp * 16 + lane.g + 8 * half, a.seq - 1);
    lse[half] = a.lse.get<float>(a.row_of(b, h, q)) * kLog2E;
    delta[half] = a.delta[a.row_of(b, h, q)];
  }
  float d_query[D / 8][4] = {};
  int buffer = 0;
  for (int64_t k0 = 0; k0 < end; k0 += kKeys, buffer ^= 1) {
    if (k0 + kKeys < end) read_keys(k0 + kKeys, buffer ^ 1);
    commit_copies();
    wait_for_copies<1>();
    sync_block();
    float p[kKeys / 8][4], ds[kKeys / 8][4];
    row_products<kKeys, D>(lane, queries + lane.warp * 16 * kStride<D>,
                           keys + buffer * kKeyElements, p);
    row_products<kKeys, D>(lane, d_outs + lane.warp * 16 * kStride<D>,
                           values + buffer * kKeyElements, ds);
    const bool edge = k0 + kKeys > q0;
    LOCKSTEP_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        float weight = power_of_two(p[n][i] * scale - lse[i / 2]);
        const int64_t k = k0 + n * 8 + 2 * lane.t + i % 2;
        if (edge && k > q0 + lane.warp * 16 + lane.g + 8 * (i / 2)) weight = 0;
        ds[n][i] = weight * (ds[n][i] - delta[i / 2]);
      }
    }
    add_product<kKeys, D>(lane, ds, keys + buffer * kKeyElements, d_query);
    sync_block();
  }
  BF16* rows[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t q = q0 + lane.warp * 16 + lane.g + 8 * half;
    rows[half] = q < a.seq ? a.out + a.query(b, h, q) : nullptr;
  }
  write_rows<D>(lane, d_query, a.scale, a.scale, rows[0], rows[1]);
}

template <int D>
constexpr std::size_t tile_bytes(int rows) {
  return sizeof(BF16) * static_cast<std::size_t>(rows) * kStride<D>;
}

template <int D>
void launch_forward(const Attention<BF16>& a, Queue& queue) {
  queue.launch(
      {blocks_of(a.seq, kTile), static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)},
      {kThreads}, tile_bytes<D>(5 * kTile), forward<D>, a);
}

template <int D>
void launch_backward(const Attention<BF16>& a, Queue& queue) {
  constexpr int kOther = D == 64 ? 64 : 32;  // what registers leave room for
  const auto tiles = blocks_of(a.seq, kTile), batch = static_cast<unsigned>(a.batch);
  queue.launch({tiles, static_cast<unsigned>(a.kv_heads), batch}, {kThreads},
               tile_bytes<D>(2 * kTile + 4 * kOther) + 2 * kOther * sizeof(float),
               backward_keys<D, kOther>, a);
  queue.launch({tiles, static_cast<unsigned>(a.heads), batch}, {kThreads},
               tile_bytes<D>(2 * kTile + 4 * kOther), backward_queries<D, kOther>, a);
}

bool aligned(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

}  // namespace

bool on_tensor_cores(const KernelCall& call) {
  const int64_t D = call.kernel->dims[4];
  if (call.kernel->dtype != DType::BF16 || (D != 64 && D != 128)) return false;
  for (const std::byte* address : call.in) {
    if (!aligned(address)) return false;
  }
  return aligned(call.out[0]);
}

void attention_forward_mma(const KernelCall& call, Queue& queue) {
  const Attention<BF16> a = attention_of<BF16>(call);
  a.head_dim == 64 ? launch_forward<64>(a, queue) : launch_forward<128>(a, queue);
}

void attention_backward_mma(const KernelCall& call, Queue& queue) {
  const Attention<BF16> a = attention_of<BF16>(call);
  a.head_dim == 64 ? launch_backward<64>(a, queue) : launch_backward<128>(a, queue);
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
