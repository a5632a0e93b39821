// The rows of parity.txt and parity_images.txt: layouts that must train as one rank does.
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

  /// The row that a layout is compared with: this one's model, sequences and optimizer, and one
  /// rank; with experts or batch norm that takes the same microbatches. Which images synchronized
  /// batch norm joins depends on the replicas if there are several microbatches: as many replicas.
  ParityRow single_rank() const;
};

/// Requires a readable tests/integration/parity.txt; throws std::runtime_error otherwise.
std::vector<ParityRow> parity_rows();
/// Those of residual networks, parity_images.txt, with `more` keys each.
std::vector<ParityRow> image_rows(const std::string& more = {});
ParityRow parity_row(std::string name, const std::string& keys);

inline constexpr int kParitySteps = 10;

/// A tiny model of any kind on a global batch of twelve sequences or images, trained `kParitySteps`
/// steps with a schedule of learning rates and clipping that clips.
Scenario parity_scenario(Architecture architecture, const ParityRow& row, DType dtype);

}  // namespace lockstep::test
