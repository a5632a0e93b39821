// Parity table: the rows of parity.txt, parity_images.txt and parity_patches.txt, which are layouts
// that must train as one rank does.
#pragma once

#include <string>
#include <vector>

#include "core/spec/scenario.hpp"

namespace lockstep::test {

struct ParityRow {
  std::string name;
  std::string keys;   // as in the file: "dp_shard=2 pp=2 mb=3"
  double within = 0;  // of the single rank in float32; 0: as the type of the run allows

  bool images = false;  // a residual network
  /// With `within`, whether the row is trained in float64, too, as exactly as any.
  bool in_float64 = true;

  /// The row with which this layout is compared: the same model, sequences and optimizer on one
  /// rank, which with experts or batch norm takes the same microbatches. With several microbatches,
  /// the replicas decide over which images synchronized batch norm is; then it has as many
  /// replicas.
  ParityRow single_rank() const;
  bool trains_in(DType type) const {
    return type == DType::F32 || within == 0 || (type == DType::F64 && in_float64);
  }
  /// What a difference may be in a run of this type, `otherwise` where the row says nothing.
  double tolerance(DType type, double otherwise) const {
    return within > 0 && type == DType::F32 ? within : otherwise;
  }
};

/// Requires a readable tests/integration/parity.txt; throws std::runtime_error otherwise.
std::vector<ParityRow> parity_rows();
/// Those of residual networks, parity_images.txt, with `more` keys each.
std::vector<ParityRow> image_rows(const std::string& more = {});
/// Those of vision transformers, parity_patches.txt.
std::vector<ParityRow> patch_rows();
ParityRow parity_row(std::string name, const std::string& keys);

inline constexpr int kParitySteps = 10;

/// A tiny model of any kind on a global batch of twelve sequences or images, trained for
/// `kParitySteps` steps with a schedule of the learning rate and a limit that clips gradients.
Scenario parity_scenario(Architecture architecture, const ParityRow& row, DType dtype);

}  // namespace lockstep::test
