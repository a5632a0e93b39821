#include "backends/local/collectives.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>

#include "core/base/bfloat16.hpp"
#include "core/base/float16.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::local {
namespace {

constexpr std::int64_t kBlockBytes = 8192;   // partial sums stay in the first-level cache
constexpr std::int64_t kSliceMultiple = 64;  // bytes; no two members write the same cache line

/// Adds elements [begin, end) of all sources and writes the sums to `targets`, which may be the
/// sources themselves. Sums are taken in `Sum` and rounded once. With `largest`, takes the largest
/// instead.
template <class T, class Sum = T>
void sum_range(const std::vector<const std::byte*>& sources, Slice slice,
               const std::vector<std::byte*>& targets, bool largest) {
  const auto [begin, end] = slice;
  constexpr std::int64_t kBlock = kBlockBytes / std::int64_t{sizeof(Sum)};
  IndexArray<std::int64_t, Sum, to_size(kBlock)> sum;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    const auto values = [at](const std::byte* source) {
      return reinterpret_cast<const T*>(source) + at;
    };
    const T* first = values(sources[0]);
    for (std::int64_t i = 0; i < count; ++i) sum[i] = static_cast<Sum>(first[i]);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      const T* more = values(sources[s]);
      if (largest) {
        for (std::int64_t i = 0; i < count; ++i) {
          sum[i] = std::max(sum[i], static_cast<Sum>(more[i]));
        }
      } else {
        for (std::int64_t i = 0; i < count; ++i) sum[i] += static_cast<Sum>(more[i]);
      }
    }
    for (std::byte* target : targets) {
      T* to = reinterpret_cast<T*>(target) + at;
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(sum[i]);
    }
  }
}

void all_reduce(const std::vector<Party>& parties, std::int64_t position) {
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;
  for (const Party& party : parties) {
    sources.push_back(party.source);
    targets.push_back(party.target);
  }
  // Each member adds its own slice only and writes the sums to everyone's target.
  const DType dtype = parties[0].dtype;
  const std::int64_t elements = parties[0].bytes / size_of(dtype);
  add_in_order(dtype, sources,
               slice_of(elements, dtype, static_cast<std::int64_t>(parties.size()), position),
               targets, parties[0].largest);
}

void reduce_scatter(const std::vector<Party>& parties, std::int64_t position) {
  const std::int64_t shard = parties[0].bytes / static_cast<std::int64_t>(parties.size());
  std::vector<const std::byte*> sources;
  for (const Party& party : parties) sources.push_back(party.source + position * shard);
  add_in_order(parties[0].dtype, sources, {0, shard / size_of(parties[0].dtype)},
               {parties[to_size(position)].target});
}

void all_gather(const std::vector<Party>& parties, std::int64_t position) {
  const std::int64_t shard = parties[0].bytes / static_cast<std::int64_t>(parties.size());
  std::byte* to = parties[to_size(position)].target;
  for (const Party& party : parties) {
    copy(to, party.source, shard);
    to += shard;
  }
}

void all_to_all(const std::vector<Party>& parties, std::int64_t position) {
  const std::int64_t part = parties[0].bytes / static_cast<std::int64_t>(parties.size());
  std::byte* to = parties[to_size(position)].target;
  for (const Party& party : parties) {
    copy(to, party.source + position * part, part);
    to += part;
  }
}

/// Every member's own counts say where in its source the rows for this one begin.
Result<void> all_to_all_rows(const std::vector<Party>& parties, std::int64_t position) {
  const Party& own = parties[to_size(position)];
  const auto coming = rows_of_members(own.comes, own.parts, parties.size());
  if (auto fits = check_room(own, coming); !fits) return fits;
  std::byte* to = own.target;
  for (std::size_t i = 0; i < parties.size(); ++i) {
    const Party& from = parties[i];
    const auto going = rows_of_members(from.goes, from.parts, parties.size());
    const std::int64_t before = std::accumulate(going.begin(), going.begin() + position, 0LL);
    if (going[to_size(position)] != coming[i] || before + coming[i] > from.given) {
      return Error{ErrorKind::Internal,
                   "rank " + std::to_string(from.rank) + " has " +
                       std::to_string(going[to_size(position)]) + " rows for rank " +
                       std::to_string(own.rank) + ", which expects " + std::to_string(coming[i]),
                   std::nullopt};
    }
    copy(to, from.source + before * own.bytes, coming[i] * own.bytes);
    to += coming[i] * own.bytes;
  }
  return {};
}

void all_gather_rows(const std::vector<Party>& parties, std::int64_t position) {
  const Party& own = parties[to_size(position)];
  const auto rows = rows_in_places(own, own.comes);
  for (std::size_t i = 0; i < parties.size(); ++i) {
    copy(own.target + static_cast<std::int64_t>(i) * own.places() * own.bytes, parties[i].source,
         rows[i] * own.bytes);
  }
}

void reduce_scatter_rows(const std::vector<Party>& parties, std::int64_t position) {
  const Party& own = parties[to_size(position)];
  const std::int64_t rows = rows_in_places(own, own.comes)[to_size(position)];
  std::vector<const std::byte*> sources;
  for (const Party& party : parties) {
    sources.push_back(party.source + position * own.places() * own.bytes);
  }
  add_in_order(own.dtype, sources, {0, rows * own.bytes / size_of(own.dtype)}, {own.target});
}

}  // namespace

void copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, to_size(bytes));
}

Slice slice_of(std::int64_t elements, DType dtype, std::int64_t members, std::int64_t position) {
  const std::int64_t slice = round_up(ceil_div(elements, members), kSliceMultiple / size_of(dtype));
  const std::int64_t begin = std::min(elements, position * slice);
  return {begin, std::min(elements, begin + slice)};
}

void add_in_order(DType dtype, const std::vector<const std::byte*>& sources, Slice slice,
                  const std::vector<std::byte*>& targets, bool largest) {
  switch (dtype) {
    case DType::F64:
      return sum_range<double>(sources, slice, targets, largest);
    case DType::BF16:
      return sum_range<bfloat16, float>(sources, slice, targets, largest);
    case DType::F16:
      return sum_range<float16, float>(sources, slice, targets, largest);
    case DType::I32:
      return sum_range<std::int32_t>(sources, slice, targets, largest);
    default:
      return sum_range<float>(sources, slice, targets, largest);
  }
}

bool can_sum(DType dtype) { return dtype != DType::U8; }

Result<Party> party_of(const Program& program, Rank rank, OpId op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype, int size) {
  const OpKind kind = program.role_of(rank).op(op).kind;
  const bool adds = kind == OpKind::AllReduce || kind == OpKind::ReduceScatter ||
                    kind == OpKind::ReduceScatterRows;
  if (adds && !can_sum(dtype)) {
    return Error{ErrorKind::Unsupported,
                 "a transfer does not add " + std::string(to_string(dtype)) + " values here",
                 std::nullopt};
  }
  return make_party(program, rank, op, args, bytes, dtype, size);
}

Result<void> move_share(const std::vector<Party>& parties, int position) {
  const Party& own = parties[to_size(position)];
  switch (own.kind) {
    case OpKind::AllReduce:
      all_reduce(parties, position);
      break;
    case OpKind::ReduceScatter:
      reduce_scatter(parties, position);
      break;
    case OpKind::AllGather:
      all_gather(parties, position);
      break;
    case OpKind::AllToAll:
      all_to_all(parties, position);
      break;
    case OpKind::AllToAllRows:
      return all_to_all_rows(parties, position);
    case OpKind::AllGatherRows:
      all_gather_rows(parties, position);
      break;
    case OpKind::ReduceScatterRows:
      reduce_scatter_rows(parties, position);
      break;
    case OpKind::Rotate: {
      const std::size_t before = to_size(position == 0 ? std::ssize(parties) - 1 : position - 1);
      copy(own.target, parties[before].source, own.bytes);
      break;
    }
    case OpKind::Broadcast:
    case OpKind::Recv:
      copy(own.target, parties[to_size(own.root)].source, own.bytes);
      break;
    default:
      break;  // a sender does nothing; the receiver copies
  }
  return {};
}

}  // namespace lockstep::local
