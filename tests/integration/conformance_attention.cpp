// Cases for attention and for the kernels that lay out its operands.
#include "core/base/dropout.hpp"
#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {

using K = KernelKind;

namespace {

/// Where the documents begin, and behind these, if `whole`, where they end, of the tokens at these
/// positions of each of `batch` sequences of `length` tokens. Documents are of `document` tokens on
/// average; none is given if that is 0.
Numbers documents_of(std::int64_t batch, const std::vector<std::int64_t>& positions,
                     std::int64_t document, bool whole, std::int64_t length) {
  Numbers starts, ends;
  for (std::int64_t b = 0; document > 0 && b < batch; ++b) {
    const auto begins = [&](std::int64_t at) {
      const auto mixed = static_cast<std::uint64_t>(at + 1000 * b) * 2654435761U >> 7;
      return mixed % static_cast<std::uint64_t>(document) == 0;
    };
    for (const std::int64_t position : positions) {
      std::int64_t start = position, end = position + 1;
      while (start > 0 && !begins(start)) --start;
      while (end < length && !begins(end)) ++end;
      starts.push_back(static_cast<double>(start));
      if (whole) ends.push_back(static_cast<double>(end));
    }
  }
  starts.insert(starts.end(), ends.begin(), ends.end());
  return starts;
}

/// What dropout draws from: the numbers of heads, then the keys of tokens at these positions; of
/// one in seven nothing is dropped.
Numbers drawn_from(std::int64_t batch, std::int64_t heads, const std::vector<std::int64_t>& at) {
  Numbers values;
  for (std::int64_t h = 0; h < heads; ++h) values.push_back(static_cast<double>(h + 5));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (const std::int64_t position : at) {
      values.push_back(position % 7 == 6 ? -1.0 : static_cast<double>(dropout_key(3, b, position)));
    }
  }
  return values;
}

}  // namespace

void ConformanceCases::attention(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                                 std::int64_t kv_heads, std::int64_t dim, std::int64_t document,
                                 std::int64_t whole) {
  const std::vector<std::int64_t> dims = {batch, seq, heads, kv_heads, dim, 0, document, whole};
  const std::int64_t qkv = batch * seq * (heads + 2 * kv_heads) * dim;
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < seq; ++i) positions.push_back(i);
  const Numbers documents = documents_of(batch, positions, document, whole == 1, seq);
  const Numbers dropout = share_ > 0 ? drawn_from(batch, heads, positions) : Numbers{};
  const ConformanceCase forward{.kind = K::AttentionForward,
                                .dims = dims,
                                .scalars = {share_, scale_, cap_},
                                .in = {random(qkv, 2.0), {}, {}, documents, dropout},
                                .wide_out = "-w"};
  add(forward);
  const auto saved = outputs(forward);
  add({.kind = K::AttentionBackward,
       .dims = dims,
       .scalars = {share_, scale_, cap_},
       .in = {forward.in[0],
              saved[0],
              saved[1],
              random(batch * seq * heads * dim),
              {},
              {},
              documents,
              dropout},
       .absent_out = {false, true},
       .wide_in = "--w-"});
}

void ConformanceCases::gathered_attention(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                                          std::int64_t kv_heads, std::int64_t dim,
                                          std::int64_t parts, std::int64_t document,
                                          std::int64_t whole) {
  const std::vector<std::int64_t> dims = {batch, seq, heads, kv_heads, dim, parts, document, whole};
  const std::int64_t qkv = batch * seq * (heads + 2 * kv_heads) * dim;
  const auto add_pieces = [&](std::int64_t rank, Numbers& to) {
    const std::int64_t half = seq / 2;
    to.push_back(static_cast<double>(rank * half));
    to.push_back(static_cast<double>((2 * parts - 1 - rank) * half));
  };
  for (std::int64_t rank = 0; rank < parts; ++rank) {
    Numbers starts;
    add_pieces(rank, starts);
    for (std::int64_t part = 0; part < parts; ++part) add_pieces(part, starts);
    std::vector<std::int64_t> positions;
    for (std::int64_t i = 0; i < seq; ++i) {
      const auto begin = static_cast<std::int64_t>(starts[static_cast<std::size_t>(2 * i / seq)]);
      positions.push_back(begin + i % (seq / 2));
    }
    const Numbers documents = documents_of(batch, positions, document, whole == 1, parts * seq);
    const Numbers dropout = share_ > 0 ? drawn_from(batch, heads, positions) : Numbers{};
    const ConformanceCase forward{
        .kind = K::AttentionForward,
        .dims = dims,
        .scalars = {share_, scale_, cap_},
        .in = {random(qkv, 2.0), random(parts * batch * seq * 2 * kv_heads * dim, 2.0), starts,
               documents, dropout},
        .wide_out = "-w"};
    add(forward);
    const auto saved = outputs(forward);
    const ConformanceCase backward{
        .kind = K::AttentionBackward,
        .dims = dims,
        .scalars = {share_, scale_, cap_},
        .in = {forward.in[0], saved[0], saved[1], random(batch * seq * heads * dim), forward.in[1],
               starts, documents, dropout},
        .initial = {random(qkv)},  // whose keys and values stay
        .wide_in = "--w----"};
    add(backward);
    for (std::int64_t other = 0; other < parts; ++other) {
      if (other != rank) passed_attention(forward, backward, rank, other);
    }
  }
}

/// Goes on from what other keys gave with those of another rank, of which a query may see none.
void ConformanceCases::passed_attention(ConformanceCase forward, ConformanceCase backward,
                                        std::int64_t rank, std::int64_t other) {
  const auto parts = static_cast<std::size_t>(forward.dims[5]);
  const auto part_of = [&](const Numbers& all, std::int64_t part, std::size_t count) {
    const auto begin = all.begin() + part * static_cast<std::ptrdiff_t>(count);
    return Numbers(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  const Numbers keys = part_of(forward.in[1], other, forward.in[1].size() / parts);
  Numbers starts = part_of(forward.in[2], rank + 1, 2);
  const Numbers theirs = part_of(forward.in[2], other + 1, 2);
  starts.insert(starts.end(), theirs.begin(), theirs.end());
  forward.initial = {backward.in[1], backward.in[2]};
  for (ConformanceCase* c : {&forward, &backward}) {
    c->dims[5] = 1;
    c->accumulate = true;
    const std::size_t at = c == &forward ? 1 : 4;
    c->in[at] = keys;
    c->in[at + 1] = starts;
    add(*c);
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
    add({.kind = K::Rope,  // of the first elements of a head
         .dims = {batch, seq, heads, dim, row_heads, inverse, 0, 6},
         .scalars = {10000.0},
         .in = {wave(batch * seq * row_heads * (dim + 6), 1.0)},
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

void ConformanceCases::latent(std::int64_t rows, std::int64_t heads, std::int64_t nope,
                              std::int64_t rope, std::int64_t value) {
  const std::int64_t head = nope + rope;
  const std::vector<std::int64_t> dims = {rows, heads, nope, rope, value};
  add({.kind = K::JoinLatent,
       .dims = dims,
       .in = {wave(rows * heads * head, 1.0), wave(rows * heads * (nope + value), 0.7),
              wave(rows * rope, 0.4)}});
  add({.kind = K::PartLatent, .dims = dims, .in = {wave(rows * 3 * heads * head, 1.0)}});
  add({.kind = K::Rope,
       .dims = {1, rows, 2 * heads, rope, 3 * heads, 0, nope},
       .scalars = {10000.0},
       .in = {wave(rows * 3 * heads * head, 1.0)},
       .aliases = {0}});
}

}  // namespace lockstep::test
