// Cases for attention and for the kernels that lay out its operands.
#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {

using K = KernelKind;

void ConformanceCases::attention(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                                 std::int64_t kv_heads, std::int64_t dim) {
  const std::vector<std::int64_t> dims = {batch, seq, heads, kv_heads, dim};
  const std::int64_t qkv = batch * seq * (heads + 2 * kv_heads) * dim;
  const ConformanceCase forward{
      .kind = K::AttentionForward, .dims = dims, .in = {random(qkv, 2.0)}, .wide_out = "-w"};
  add(forward);
  const auto saved = outputs(forward);
  add({.kind = K::AttentionBackward,
       .dims = dims,
       .in = {forward.in[0], saved[0], saved[1], random(batch * seq * heads * dim)},
       .absent_out = {false, true},
       .wide_in = "--w-"});
}

void ConformanceCases::gathered_attention(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                                          std::int64_t kv_heads, std::int64_t dim,
                                          std::int64_t parts) {
  const std::vector<std::int64_t> dims = {batch, seq, heads, kv_heads, dim, parts};
  const std::int64_t qkv = batch * seq * (heads + 2 * kv_heads) * dim;
  const auto add_pieces = [&](std::int64_t rank, Numbers& to) {
    to.push_back(static_cast<double>(rank * (seq / 2)));
    to.push_back(static_cast<double>((2 * parts - 1 - rank) * (seq / 2)));
  };
  for (std::int64_t rank = 0; rank < parts; ++rank) {
    Numbers starts;
    add_pieces(rank, starts);
    for (std::int64_t part = 0; part < parts; ++part) add_pieces(part, starts);
    const ConformanceCase forward{
        .kind = K::AttentionForward,
        .dims = dims,
        .in = {random(qkv, 2.0), random(parts * batch * seq * 2 * kv_heads * dim, 2.0), starts},
        .wide_out = "-w"};
    add(forward);
    const auto saved = outputs(forward);
    add({.kind = K::AttentionBackward,
         .dims = dims,
         .in = {forward.in[0], saved[0], saved[1], random(batch * seq * heads * dim), forward.in[1],
                starts},
         .initial = {random(qkv)},  // whose keys and values stay
         .wide_in = "--w---"});
  }
}

void ConformanceCases::rope(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                            std::int64_t dim, std::int64_t row_heads) {
  for (const std::int64_t inverse : {0, 1}) {
    add({.kind = K::Rope,
         .dims = {batch, seq, heads, dim, row_heads, inverse},
         .scalars = {10000.0},
         .in = {random(batch * seq * row_heads * dim)},
         .aliases = {0}});
    if (seq % 2 != 0) continue;
    add({.kind = K::Rope,  // two pieces, from elsewhere in the sequence
         .dims = {batch, seq, heads, dim, row_heads, inverse},
         .scalars = {10000.0, 8, 60, 10},  // slowed, of wavelengths on either side
         .in = {random(batch * seq * row_heads * dim), {static_cast<double>(seq), 3.0 * seq}},
         .aliases = {0}});
  }
}

void ConformanceCases::regroup(std::int64_t rows, std::int64_t parts, std::int64_t a,
                               std::int64_t b, std::int64_t skip) {
  const std::int64_t moved = parts * (a + 2 * b);
  add({.kind = K::Regroup,
       .dims = {rows, parts, a, b, b, 0, skip},
       .in = {random(rows * (skip + moved))}});
  add({.kind = K::Regroup,
       .dims = {rows, parts, a, b, b, 1, skip},
       .in = {random(rows * moved)},
       .initial = {random(rows * (skip + moved))}});  // whose first columns stay
}

void ConformanceCases::columns(std::int64_t rows, std::int64_t a, std::int64_t b) {
  add({.kind = K::JoinColumns, .dims = {rows, a, b}, .in = {random(rows * a), random(rows * b)}});
  add({.kind = K::PartColumns, .dims = {rows, a, b}, .in = {random(rows * (a + b))}});
}

}  // namespace lockstep::test
