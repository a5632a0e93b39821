#include <algorithm>
#include <numeric>

#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostResnetStages = 8;
constexpr std::int64_t kMostResnetBlocks = 1 << 12;

}  // namespace

void validate_resnet(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  validate_image_target(s, faults);
  if (m.blocks.empty() || *std::min_element(m.blocks.begin(), m.blocks.end()) < 1) {
    faults.add("model.blocks", "a residual network needs stages of at least one block each");
    return;
  }
  const std::int64_t blocks = std::accumulate(m.blocks.begin(), m.blocks.end(), std::int64_t{0});
  if (blocks != m.layers) {
    faults.add("model.layers", "layers=" + std::to_string(m.layers) +
                                   " is not the sum of blocks, " + std::to_string(blocks));
  }
  if (m.blocks.size() > kMostResnetStages || blocks > kMostResnetBlocks) {
    faults.add("model.blocks", "a residual network has at most " +
                                   std::to_string(kMostResnetStages) + " stages and " +
                                   std::to_string(kMostResnetBlocks) + " blocks");
    return;
  }
  // Variance needs two values: the last stage has the fewest.
  std::int64_t side = m.image_size;
  const std::size_t halvings = m.blocks.size() - 1 + (m.small_stem ? 0 : 2);
  for (std::size_t i = 0; i < halvings; ++i) side = ceil_div(side, std::int64_t{2});
  const std::int64_t together =
      s.microbatch_size() * (s.strategy.sync_batch_norm ? s.strategy.synchronous_ranks() : 1);
  if (side * side * together < 2) {
    faults.add(
        "training.local_batch_size",
        "batch norm has one value per channel in the last stage (one image of one position): "
        "its variance is 0; use larger images or microbatches");
  }
}

}  // namespace lockstep
