// Muon: the update of a unit that consists of matrices (Jordan et al. 2024). Momentum makes a
// direction of the gradient, Newton-Schulz iterations make its matrices orthogonal, and the weights
// move by them.
//
// For that a matrix must be whole. Where data-parallel ranks share the states of a unit, they
// gather their shards of the direction; where ranks divide a matrix, they gather its parts. Every
// rank then orthogonalizes all matrices of its unit ("duplicated", as NVIDIA's Megatron calls it),
// and keeps what it updates. Experts are whole wherever they are. Momentum and weights stay
// divided.
#pragma once

#include <vector>

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// A matrix of which a rank holds rows x cols elements, from `offset` of its unit on.
struct HeldMatrix {
  std::int64_t offset = 0, rows = 0, cols = 0;
  int parts = 1;            // how many ranks divide it
  bool by_columns = false;  // each has some of the columns, and not of the rows
  double factor = 1;        // OptimizerSpec::adjustment() of the whole
  std::int64_t elements() const { return rows * cols; }
};
/// The matrices of a unit, in their order.
std::vector<HeldMatrix> matrices_of(const Program& program, const OptimizerSpec& optimizer,
                                    const UnitLayout& layout, const Unit& unit);

class MuonStep {
 public:
  MuonStep(Draft& draft, DraftRole& out)
      : draft_(draft), out_(out), directions_(out.units.size()) {}
  /// Makes the direction of unit `u` and gathers it, unless that is done. The coefficient of
  /// clipping may be invalid.
  void begin(std::size_t u, BufferId coefficient);
  /// Whether ranks share the states of the unit, so that its direction has to be gathered.
  bool gathers(std::size_t u) const { return out_.role.units[u].shard_group.valid(); }
  /// Orthogonalizes the direction and moves `weights`, the rank's shard, by it.
  void finish(std::size_t u, BufferId coefficient, BufferId weights);

 private:
  BufferId buffer(const char* name, DType dtype, std::int64_t elements, std::size_t u);
  void call(const Function& function, const std::vector<BufferId>& args, std::size_t u);
  void call(FunctionId function, const std::vector<BufferId>& args, std::size_t u);
  void gather(GroupId group, Stream stream, BufferId from, BufferId to, std::size_t u);
  void orthogonalize(std::size_t u, BufferId direction);
  void orthogonalize(std::size_t u, const HeldMatrix& matrix, BufferId whole);
  DType dtype() const;

  Draft& draft_;
  DraftRole& out_;
  IndexVector<int, BufferId> directions_;  // by unit: of all its shards; invalid before begin()
};

}  // namespace lockstep
