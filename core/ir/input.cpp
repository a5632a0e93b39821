#include "core/ir/input.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

std::string_view to_string(SampleKind kind) {
  constexpr IndexArray<SampleKind, std::string_view, kNumSampleKinds> names = {"none", "tokens",
                                                                               "images"};
  return names[kind];
}

std::string_view to_string(TableKind kind) {
  constexpr IndexArray<TableKind, std::string_view, kNumTableKinds> names = {
      "order",     "shift",  "queries", "rows",  "heads",
      "positions", "starts", "columns", "parts", "shards"};
  return names[kind];
}

std::int64_t IndexList::size() const {
  std::int64_t count = 0;
  for (const IndexRange& range : ranges) count += std::int64_t{range.last} - range.first + 1;
  return count;
}

void IndexList::fill(std::span<std::int32_t> to) const {
  std::size_t i = 0;
  while (i < to.size()) {
    for (const IndexRange& range : ranges) {
      for (std::int64_t value = range.first; value <= range.last && i < to.size(); ++value, ++i) {
        to[i] = static_cast<std::int32_t>(value);
      }
    }
  }
}

void append(IndexList& list, IndexRange range) {
  if (!list.ranges.empty() && list.ranges.back().last + std::int64_t{1} == range.first) {
    list.ranges.back().last = range.last;
  } else {
    list.ranges.push_back(range);
  }
}

const IndexTable* Input::table(TableKind kind) const {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [kind](const IndexTable& table) { return table.kind == kind; });
  return found == tables.end() ? nullptr : &*found;
}

int position_over(const Mesh& mesh, std::span<const int> dims, Rank rank) {
  int position = 0;
  for (const int dim : dims) {
    position = position * mesh.dims[dim].size + mesh.coordinate(rank, dim);
  }
  return position;
}

std::int64_t size_over(const Mesh& mesh, std::span<const int> dims) {
  std::int64_t size = 1;
  for (const int dim : dims) size *= mesh.dims[dim].size;
  return size;
}

}  // namespace lockstep
