// The rows of parity.txt: layouts that must train as one rank does.
#pragma once

#include <string>
#include <vector>

#include "core/spec/scenario.hpp"

namespace lockstep::test {

struct ParityRow {
  std::string name;
  std::string keys;   // as in the file: "dp_shard=2 pp=2 mb=3"
  double within = 0;  // of the single rank in float32; 0: as the type of the run allows

  /// The row that a layout is compared with: this one's model and sequences, and one rank; with
  /// experts that takes the same microbatches.
  ParityRow single_rank() const;
};

/// Requires a readable tests/integration/parity.txt; throws std::runtime_error otherwise.
std::vector<ParityRow> parity_rows();
ParityRow parity_row(std::string name, const std::string& keys);

inline constexpr int kParitySteps = 10;

/// A tiny model of any kind on a global batch of twelve sequences or images, trained `kParitySteps`
/// steps with a schedule of learning rates and clipping that clips.
Scenario parity_scenario(Architecture architecture, const ParityRow& row, DType dtype);

}  // namespace lockstep::test
