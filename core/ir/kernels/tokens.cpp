// Embeddings: rows of a table by the ids of tokens.
#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

std::string_view no_length(const Kernel& kernel) { return kernel.dims[2] < 1 ? "seq is 0" : ""; }

}  // namespace

std::vector<KernelRow> rows::tokens() {
  const auto dims = words("tokens cols seq vocab");
  return {
      // y[t] = table[ids[t]] + positions[t % seq], of table [vocab, cols] and positions [seq,
      // cols];
      // an id outside [0, vocab) stands for a row of zeros
      {.kind = K::EmbeddingForward,
       .name = "embedding_forward",
       .dims = dims,
       .in = {{"ids", "tokens", Index},
              {.name = "table", .extent = "vocab cols", .moved = "tokens cols"},
              {"[positions]", "seq cols"}},
       .out = {{"y", "tokens cols"}},
       .flops = "[positions] tokens cols",
       .fault = no_length},
      // dtable[ids[t]] += dy[t], except for ids outside [0, vocab); dpositions[t % seq] += dy[t];
      // both are set to zero first unless the kernel accumulates
      {.kind = K::EmbeddingBackward,
       .name = "embedding_backward",
       .dims = dims,
       .in = {{"ids", "tokens", Index}, {"dy", "tokens cols"}},
       .out = {{"dtable", "vocab cols", Mixed, Accumulate, "(2 tokens + vocab !accumulate) cols"},
               {"[dpositions]", "seq cols", Mixed, Accumulate}},
       .flops = "(1 + [dpositions]) tokens cols",
       .fault = no_length},
  };
}

}  // namespace lockstep
