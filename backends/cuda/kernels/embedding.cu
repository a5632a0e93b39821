// Embedding forward and backward. Ids outside the table, whose rows another rank holds, stand for
// rows of zeros.
#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;

template <class T, int N>
__global__ void embedding_forward(int64_t tokens, int64_t cols, int64_t seq, int64_t vocab,
                                  const std::int32_t* ids, const T* table, const T* positions,
                                  T* y) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= tokens * cols) return;
  const int64_t t = at / cols, c = at % cols, id = ids[t];
  Values<Acc<T>, N> v{};
  if (id >= 0 && id < vocab) v = load<N>(table + id * cols + c);
  if (positions != nullptr) {
    const auto p = load<N>(positions + t % seq * cols + c);
    for (int j = 0; j < N; ++j) v[j] += p[j];
  }
  store<N>(y + at, v);
}

/// Links the tokens of equal ids to chains: next[t] is the next token with the same id, or -1, and
/// follows[t] says whether there is an earlier one. It needs neither sorting nor atomics: every
/// thread looks ahead, at kLook tokens at once, which takes no longer than looking at one.
__global__ void link_tokens(int64_t tokens, const std::int32_t* ids, std::int32_t* next,
                            std::int32_t* follows) {
  constexpr int kLook = 16;
  alignas(16) __shared__ std::int32_t tile[kThreads];
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int32_t own = t < tokens ? ids[t] : -1;
  std::int32_t found = -1;
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * kThreads; base < tokens;
       base += kThreads) {
    sync_block();
    tile[threadIdx.x] = base + threadIdx.x < tokens ? ids[base + threadIdx.x] : 0;
    sync_block();
    if (found >= 0 || t >= tokens) continue;
    const int first = base > t ? 0 : static_cast<int>(t - base) + 1;
    const int count = static_cast<int>(smaller<int64_t>(kThreads, tokens - base));
    for (int look = first / kLook * kLook; look < count && found < 0; look += kLook) {
      bool any = false;
      LOCKSTEP_UNROLL
      for (int j = 0; j < kLook; ++j) any |= tile[look + j] == own;
      if (!any) continue;
      for (int j = greater(look, first); j < smaller(look + kLook, count) && found < 0; ++j) {
        if (tile[j] == own) found = static_cast<std::int32_t>(base + j);
      }
    }
  }
  if (t >= tokens) return;
  next[t] = found;
  if (found >= 0) follows[found] = 1;
}

/// Each block takes a chain and adds its rows, in the order of the tokens, to the row of the table.
/// One thread walks along the chain, some links ahead of the others, so that rows need not wait for
/// each other.
template <class T, int N>
__global__ void add_chains(int64_t cols, int64_t vocab, const std::int32_t* ids,
                           const std::int32_t* next, const std::int32_t* follows, const T* dy,
                           Ref table) {
  using A = Acc<T>;
  constexpr int kLinks = 64;
  __shared__ std::int32_t links[kLinks], count, onward;
  const int64_t first = blockIdx.x, id = ids[first];
  if (follows[first] != 0 || id < 0 || id >= vocab) return;
  for (int64_t c0 = 0; c0 < cols; c0 += kThreads * N) {
    const int64_t c = c0 + threadIdx.x * N, at = id * cols + c;
    Values<A, N> sum{};
    if (c < cols) sum = table.get_words<N, A>(at);
    for (auto t = static_cast<std::int32_t>(first); t >= 0;) {
      sync_block();  // the links of the round before have been read
      if (threadIdx.x == 0) {
        for (count = 0; t >= 0 && count < kLinks; t = next[t]) links[count++] = t;
        onward = t;
      }
      sync_block();
      t = onward;
      if (c >= cols) continue;
      by_fours(0, count, 1, [&](int64_t i) {
        const auto v = load<N>(dy + links[i] * cols + c);
        for (int j = 0; j < N; ++j) sum[j] += v[j];
      });
    }
    if (c < cols) table.set_words(at, sum);
  }
}

template <class T, int N>
__global__ void add_positions(int64_t tokens, int64_t cols, int64_t seq, bool accumulate,
                              const T* dy, Ref positions) {
  using A = Acc<T>;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= seq * cols) return;
  Values<A, N> sum{};
  if (accumulate) sum = positions.get_words<N, A>(at);
  by_fours(at, tokens * cols, seq * cols, [&](int64_t from) {
    const auto v = load<N>(dy + from);
    for (int j = 0; j < N; ++j) sum[j] += v[j];
  });
  positions.set_words(at, sum);
}

void run_embedding_forward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t tokens = call.kernel->dims[0], cols = call.kernel->dims[1];
    T* const table = input<T>(call, 1);
    T* const positions = input<T>(call, 2);
    T* const y = output<T>(call, 0);
    for_width<T>(cols, {table, positions, y}, [&](auto w) {
      queue.launch({blocks_of(tokens * cols, int64_t{kThreads} * w.kValue)}, {kThreads}, 0,
                   embedding_forward<T, w.kValue>, tokens, cols, call.kernel->dims[2],
                   call.kernel->dims[3], input<std::int32_t>(call, 0), table, positions, y);
    });
  });
}

void run_embedding_backward(const KernelCall& call, Queue& queue) {
  const int64_t tokens = call.kernel->dims[0], cols = call.kernel->dims[1];
  const int64_t seq = call.kernel->dims[2], vocab = call.kernel->dims[3];
  const std::int32_t* const ids = input<std::int32_t>(call, 0);
  const Ref table = output_ref(call, 0), positions = output_ref(call, 1);
  auto* const next = reinterpret_cast<std::int32_t*>(call.scratch);
  std::int32_t* const follows = next + tokens;
  const bool accumulate = call.kernel->accumulate;
  if (!accumulate) {
    queue.clear(table.at, vocab * cols * size_of(table.type));
  }
  queue.clear(follows, tokens * int64_t{sizeof *follows});
  queue.launch({blocks_of(tokens, kThreads)}, {kThreads}, 0, link_tokens, tokens, ids, next,
               follows);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const T* const dy = input<T>(call, 1);
    for_width<T>(cols, {dy, table.at, positions.at}, [&](auto w) {
      queue.launch({static_cast<unsigned>(tokens)}, {kThreads}, 0, add_chains<T, w.kValue>, cols,
                   vocab, ids, next, follows, dy, table);
      if (!positions) return;
      queue.launch({blocks_of(seq * cols, int64_t{kThreads} * w.kValue)}, {kThreads}, 0,
                   add_positions<T, w.kValue>, tokens, cols, seq, accumulate, dy, positions);
    });
  });
}

std::int64_t links(const Kernel& kernel) { return 2 * 4 * kernel.dims[0]; }

}  // namespace

void add_embedding(Registry& rows) {
  rows[KernelKind::EmbeddingForward] = {run_embedding_forward};
  rows[KernelKind::EmbeddingBackward] = {run_embedding_backward, links};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
