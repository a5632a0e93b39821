// Causal attention with grouped queries (core/ir/kernels/attention.cpp) as the graphs in which
// cuDNN recognises its flash attention (cuDNN developer guide, "Fused Flash Attention fprop" and
// "bprop"). Queries, keys and values are read, and their gradients written, where they lie in qkv.
// The gradient of the queries is one product, and not a sum in a workspace to which blocks add when
// they end, so that every sum has one order.
#include <cmath>
#include <limits>

#include "backends/cuda/cudnn/graph.hpp"

namespace lockstep::cuda::cudnn {
namespace {

using Kind = Operation::Kind;

struct Heads {
  std::int64_t batch, seq, heads, kv_heads, head_dim;
  double scale;  // of scores
  explicit Heads(const Kernel& kernel)
      : batch(kernel.dims[0]),
        seq(kernel.dims[1]),
        heads(kernel.dims[2]),
        kv_heads(kernel.dims[3]),
        head_dim(kernel.dims[4]),
        scale(kernel.scalars[1] > 0 ? kernel.scalars[1]
                                    : 1 / std::sqrt(static_cast<double>(head_dim))) {}
  std::int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t first_key() const { return heads * head_dim; }
  std::int64_t first_value() const { return (heads + kv_heads) * head_dim; }

  Extents queries() const { return {batch, heads, seq, head_dim}; }
  Extents keys() const { return {batch, kv_heads, seq, head_dim}; }
  Extents keys_transposed() const { return {batch, kv_heads, head_dim, seq}; }
  Extents scores() const { return {batch, heads, seq, seq}; }
  Extents rows() const { return {batch, heads, seq, 1}; }

  Extents in_qkv() const { return {seq * row(), head_dim, row(), 1}; }
  Extents in_qkv_transposed() const { return {seq * row(), head_dim, 1, row()}; }
  Extents in_o() const { return {seq * heads * head_dim, head_dim, heads * head_dim, 1}; }
};

/// The scores, with -infinity where a query does not see the key.
int masked(Graph& graph, const Heads& shape, int scores) {
  const Extents dims = shape.scores();
  const int row = graph.add(Kind::Index, {scores}, dims, DType::I32);
  graph.operations.back().axis = 2;
  const int column = graph.add(Kind::Index, {scores}, dims, DType::I32);
  graph.operations.back().axis = 3;
  const int seen = graph.add(Kind::GreaterEqual, {row, column}, dims, DType::U8);
  const int hidden = graph.value(-std::numeric_limits<float>::infinity());
  return graph.add(Kind::Select, {scores, hidden, seen}, dims);
}

int scaled_scores(Graph& graph, const Heads& shape, int q, int k_transposed, int scale) {
  const int product = graph.add(Kind::MatMul, {q, k_transposed}, shape.scores());
  return graph.add(Kind::Multiply, {product, scale}, shape.scores());
}

Graph forward(const Heads& shape) {
  Graph graph;
  const int q = graph.input(0, DType::BF16, shape.queries(), shape.in_qkv());
  const int k = graph.input(0, DType::BF16, shape.keys_transposed(), shape.in_qkv_transposed(),
                            shape.first_key());
  const int v = graph.input(0, DType::BF16, shape.keys(), shape.in_qkv(), shape.first_value());
  const int o = graph.output(0, DType::BF16, shape.queries(), shape.in_o());
  const int lse = graph.output(1, DType::F32, shape.rows(), dense(shape.rows()));
  const int scale = graph.value(static_cast<float>(shape.scale));
  const int scores = masked(graph, shape, scaled_scores(graph, shape, q, k, scale));
  const int top = graph.add(Kind::Max, {scores}, shape.rows());
  const int below = graph.add(Kind::Subtract, {scores, top}, shape.scores());
  const int weights = graph.add(Kind::Exp, {below}, shape.scores());
  const int total = graph.add(Kind::Sum, {weights}, shape.rows());
  const int log = graph.add(Kind::Log, {total}, shape.rows());
  graph.add_into(Kind::Add, {top, log}, lse);
  const int p = graph.add(Kind::Divide, {weights, total}, shape.scores(), DType::BF16);
  graph.add_into(Kind::MatMul, {p, v}, o);
  return graph;
}

/// x with the last two dimensions exchanged, in bfloat16.
int transposed(Graph& graph, const Heads& shape, int x) {
  const Extents dims = dense(shape.scores());
  const int y = graph.virtual_tensor(DType::BF16, shape.scores(), {dims[0], dims[1], 1, shape.seq});
  graph.add_into(Kind::Reshape, {x}, y);
  return y;
}

/// Adds the operations for to = weightsᵀ x, summed over the heads that share a key.
void add_key_gradient(Graph& graph, const Heads& shape, int weights, int x, int to) {
  const int across = transposed(graph, shape, weights);
  if (shape.heads == shape.kv_heads) {
    graph.add_into(Kind::MatMul, {across, x}, to);
    return;
  }
  const int by_head = graph.add(Kind::MatMul, {across, x}, shape.queries(), DType::BF16);
  graph.add_into(Kind::Sum, {by_head}, to);
}

Graph backward(const Heads& shape) {
  Graph graph;
  const int q = graph.input(0, DType::BF16, shape.queries(), shape.in_qkv());
  const int k = graph.input(0, DType::BF16, shape.keys_transposed(), shape.in_qkv_transposed(),
                            shape.first_key());
  const int v = graph.input(0, DType::BF16, shape.keys_transposed(), shape.in_qkv_transposed(),
                            shape.first_value());
  const int o = graph.input(1, DType::BF16, shape.queries(), shape.in_o());
  const int lse = graph.input(2, DType::F32, shape.rows(), dense(shape.rows()));
  const int d_o = graph.input(3, DType::BF16, shape.queries(), shape.in_o());
  const int dq = graph.output(0, DType::BF16, shape.queries(), shape.in_qkv());
  const int dk = graph.output(0, DType::BF16, shape.keys(), shape.in_qkv(), shape.first_key());
  const int dv = graph.output(0, DType::BF16, shape.keys(), shape.in_qkv(), shape.first_value());
  const int delta = graph.workspace(DType::F32, shape.rows());
  const int scale = graph.value(static_cast<float>(shape.scale));

  const int products = graph.add(Kind::Multiply, {d_o, o}, shape.queries());
  const int sums = graph.add(Kind::Sum, {products}, shape.rows());
  graph.add_into(Kind::Multiply, {sums, graph.value(1)}, delta);  // where dropout would scale

  const Extents dims = shape.scores();
  const int scores = scaled_scores(graph, shape, q, k, scale);
  const int below = graph.add(Kind::Subtract, {scores, lse}, dims);  // the pattern masks after this
  const int p = graph.add(Kind::Exp, {masked(graph, shape, below)}, dims);
  add_key_gradient(graph, shape, p, d_o, dv);

  const int d_p = graph.add(Kind::MatMul, {d_o, v}, dims);
  const int centred = graph.add(Kind::Subtract, {d_p, delta}, dims);
  const int weighted = graph.add(Kind::Multiply, {centred, p}, dims);
  const int d_s = graph.add(Kind::Multiply, {weighted, scale}, dims);
  add_key_gradient(graph, shape, d_s, q, dk);

  const int keys = graph.virtual_tensor(DType::BF16, shape.keys(), shape.in_qkv());
  graph.add_into(Kind::Reshape, {k}, keys);
  graph.add_into(Kind::MatMul, {d_s, keys}, dq);
  return graph;
}

}  // namespace

std::optional<Graph> attention_graph(const Kernel& kernel) {
  const bool is_forward = kernel.kind == KernelKind::AttentionForward;
  const Operand& lse = is_forward ? kernel.out[1] : kernel.in[2];
  const std::int64_t head_dim = kernel.dims[4];
  const bool own_keys = kernel.dims[5] == 0 && kernel.dims[6] == 0;  // and no documents
  const bool causal = kernel.dims[7] == 0;         // the graphs have the mask built in
  if (kernel.scalars[0] > 0) return std::nullopt;  // its dropout draws other numbers
  if (kernel.scalars[2] > 0) return std::nullopt;  // no graph has a cap
  if (kernel.dtype != DType::BF16 || lse.dtype != DType::F32) return std::nullopt;
  if (!own_keys || !causal) return std::nullopt;
  if (head_dim % 8 != 0 || head_dim > 256) return std::nullopt;
  return is_forward ? forward(Heads(kernel)) : backward(Heads(kernel));
}

}  // namespace lockstep::cuda::cudnn
