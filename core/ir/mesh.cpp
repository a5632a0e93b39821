#include "core/ir/mesh.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>

namespace lockstep {
namespace {

// The difference of the ranks of two neighbours along `dim`.
std::int64_t stride(const Mesh& mesh, int dim) {
  std::int64_t result = 1;
  for (std::size_t d = to_size(dim) + 1; d < mesh.dims.size(); ++d) {
    result *= mesh.dims[d].size;
  }
  return result;
}

std::vector<int> sorted_dims(const Group& group) {
  std::vector<int> dims = group.dims;
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

bool keeps(const Group& group, int coordinate) {
  return group.only.empty() ||
         std::find(group.only.begin(), group.only.end(), coordinate) != group.only.end();
}

/// How many of the coordinates below `end` along `dim`, by default of all, a group keeps.
int coordinates_below(const Mesh& mesh, const Group& group, int dim, int end = INT_MAX) {
  end = std::min(end, mesh.dims[dim].size);
  if (dim != group.dims[0] || group.only.empty()) return end;
  int count = 0;
  for (int c = 0; c < end; ++c) count += keeps(group, c);
  return count;
}

}  // namespace

int Mesh::world_size() const {
  int size = 1;
  for (const MeshDim& dim : dims) size *= dim.size;
  return size;
}

int Mesh::index_of(std::string_view name) const {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].name == name) return static_cast<int>(d);
  }
  return -1;
}

int Mesh::size_of(std::string_view name) const {
  const int dim = index_of(name);
  return dim < 0 ? 1 : dims[dim].size;
}

int tensor_ranks(const Mesh& mesh) {
  int ranks = 1;
  for (const std::string_view dim : kTensorDims) ranks *= mesh.size_of(dim);
  return ranks;
}

std::vector<int> tensor_dims(const Mesh& mesh) {
  std::vector<int> dims;
  for (const std::string_view dim : kTensorDims) {
    if (mesh.size_of(dim) > 1) dims.push_back(mesh.index_of(dim));
  }
  return dims;
}

int Mesh::coordinate(Rank rank, int dim) const {
  return static_cast<int>(rank / stride(*this, dim) % dims[dim].size);
}

Rank Mesh::with_coordinate(Rank rank, int dim, int coordinate) const {
  return static_cast<Rank>(rank + (coordinate - this->coordinate(rank, dim)) * stride(*this, dim));
}

std::vector<Rank> members(const Mesh& mesh, const Group& group, Rank rank) {
  std::vector<Rank> ranks = {rank};
  // The outermost dimension comes first, so that the product of coordinates is in rank order.
  for (const int dim : sorted_dims(group)) {
    const bool filtered = dim == group.dims[0];
    std::vector<Rank> next;
    for (const Rank base : ranks) {
      for (int c = 0; c < mesh.dims[dim].size; ++c) {
        if (!filtered || keeps(group, c)) next.push_back(mesh.with_coordinate(base, dim, c));
      }
    }
    ranks = std::move(next);
  }
  return ranks;
}

int group_size(const Mesh& mesh, const Group& group) {
  int size = 1;
  for (const int dim : sorted_dims(group)) size *= coordinates_below(mesh, group, dim);
  return size;
}

int position(const Mesh& mesh, const Group& group, Rank rank) {
  int result = 0;
  for (const int dim : sorted_dims(group)) {
    const int own = mesh.coordinate(rank, dim);
    if (dim == group.dims[0] && !keeps(group, own)) return -1;
    result =
        result * coordinates_below(mesh, group, dim) + coordinates_below(mesh, group, dim, own);
  }
  return result;
}

Rank first_member(const Mesh& mesh, const Group& group, Rank rank) {
  for (const int dim : group.dims) {
    int first = 0;
    while (dim == group.dims[0] && !keeps(group, first)) ++first;
    rank = mesh.with_coordinate(rank, dim, first);
  }
  return rank;
}

}  // namespace lockstep
