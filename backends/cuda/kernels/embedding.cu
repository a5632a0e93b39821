// Embedding forward and backward. Ids outside the table (another rank holds their rows) stand for
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

/// next[t]: the next token with the same id, or -1; follows[t]: whether there is an earlier one.
/// Chains of equal ids in order, without sorting and without atomics: every thread looks ahead.
__global__ void link_tokens(int64_t tokens, const std::int32_t* ids, std::int32_t* next,
                            std::int32_t* follows) {
  __shared__ std::int32_t tile[kThreads];
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int32_t own = t < tokens ? ids[t] : -1;
  std::int32_t found = -1;
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * kThreads; base < tokens;
       base += kThreads) {
    sync_block();
    if (base + threadIdx.x < tokens) tile[threadIdx.x] = ids[base + threadIdx.x];
    sync_block();
    if (found >= 0 || t >= tokens) continue;
    const int count = static_cast<int>(smaller<int64_t>(kThreads, tokens - base));
    for (int j = base > t ? 0 : static_cast<int>(t - base) + 1; j < count; ++j) {
      if (tile[j] != own) continue;
      found = static_cast<std::int32_t>(base + j);
      break;
    }
  }
  if (t >= tokens) return;
  next[t] = found;
  if (found >= 0) follows[found] = 1;
}

/// One block per chain: adds its rows in the order of the tokens to the row of the table.
template <class T>
__global__ void add_chains(int64_t cols, int64_t vocab, const std::int32_t* ids,
                           const std::int32_t* next, const std::int32_t* follows, const T* dy,
                           Ref table) {
  using A = Acc<T>;
  const int64_t first = blockIdx.x, id = ids[first];
  if (follows[first] != 0 || id < 0 || id >= vocab) return;
  for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    const int64_t at = id * cols + c;
    A sum = table.get<A>(at);
    for (int64_t t = first; t >= 0; t = next[t]) sum += value(dy[t * cols + c]);
    table.set(at, sum);
  }
}

template <class T>
__global__ void add_positions(int64_t tokens, int64_t cols, int64_t seq, bool accumulate,
                              const T* dy, Ref positions) {
  using A = Acc<T>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= seq * cols) return;
  A sum = accumulate ? positions.get<A>(at) : A(0);
  for (int64_t t = at / cols; t < tokens; t += seq) sum += value(dy[t * cols + at % cols]);
  positions.set(at, sum);
}

__global__ void clear(Ref y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) y.set(i, 0.0f);
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
    queue.launch({blocks_of(vocab * cols, kThreads)}, {kThreads}, 0, clear, table, vocab * cols);
  }
  queue.launch({blocks_of(tokens, kThreads)}, {kThreads}, 0, clear,
               Ref{reinterpret_cast<std::byte*>(follows), DType::F32}, tokens);
  queue.launch({blocks_of(tokens, kThreads)}, {kThreads}, 0, link_tokens, tokens, ids, next,
               follows);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const T* const dy = input<T>(call, 1);
    queue.launch({static_cast<unsigned>(tokens)}, {kThreads}, 0, add_chains<T>, cols, vocab, ids,
                 next, follows, dy, table);
    if (!positions) return;
    queue.launch({blocks_of(seq * cols, kThreads)}, {kThreads}, 0, add_positions<T>, tokens, cols,
                 seq, accumulate, dy, positions);
  });
}

std::int64_t links(const Kernel& kernel) { return 2 * 4 * kernel.dims[0]; }

}  // namespace

void add_embedding(Registry& rows) {
  rows[KernelKind::EmbeddingForward] = {"imm", "m", run_embedding_forward};
  rows[KernelKind::EmbeddingBackward] = {"im", "ss", run_embedding_backward, links};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
