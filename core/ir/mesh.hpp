// Mesh: the ranks of a program as a grid, and groups of them.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {

struct MeshDim {
  std::string name;  // "pp", "dp_replicate", "dp_shard", "dp_reshard", "ep", "cp", "cp_heads", "tp"
                     // "etp" or "kv_replicate"
  int size = 1;
  bool operator==(const MeshDim&) const = default;
};

/// Ranks as a grid, outermost dimension first: the last one varies fastest with the rank.
struct Mesh {
  IndexVector<int, MeshDim> dims;
  int world_size() const;
  int index_of(std::string_view name) const;  // -1 if there is no such dimension
  int size_of(std::string_view name) const;   // 1 if there is no such dimension
  int coordinate(Rank rank, int dim) const;
  Rank with_coordinate(Rank rank, int dim, int coordinate) const;
  bool operator==(const Mesh&) const = default;
};

/// The dimensions of tensor parallelism, outermost first: its ranks, or groups of them that divide
/// each expert ("etp") or hold the same key and value heads.
inline constexpr std::array<std::string_view, 3> kTensorDims = {"tp", "etp", "kv_replicate"};
/// How many ranks of tensor parallelism there are, and the dimensions along which they differ.
int tensor_ranks(const Mesh& mesh);
std::vector<int> tensor_dims(const Mesh& mesh);

/// A group, relative to a rank's place in the mesh: a rank's own group holds the ranks that differ
/// from it in `dims` only, in rank order. If `only` is not empty, the group keeps only ranks whose
/// coordinate along dims[0] is listed, such as the first and last pipeline stage, which share a
/// tied embedding.
struct Group {
  std::string name;
  std::vector<int> dims;
  std::vector<int> only;
  bool operator==(const Group&) const = default;
};
std::vector<Rank> members(const Mesh& mesh, const Group& group, Rank rank);
int group_size(const Mesh& mesh, const Group& group);
/// The position of `rank` among members(); -1 if it is outside its own group (see Group::only).
int position(const Mesh& mesh, const Group& group, Rank rank);
/// members().front() of a rank that is inside its own group.
Rank first_member(const Mesh& mesh, const Group& group, Rank rank);

}  // namespace lockstep
