// Bounds: what no layout can be below, in time and in memory, from its layers' functions alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "core/base/units.hpp"
#include "core/plan/space.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Lower bounds of a layout. `time` is at least `compute` and `bubble` together.
struct LayoutBound {
  Seconds time;     // no step takes less
  Seconds compute;  // that the busiest rank computes, with collectives that it must wait for
  Seconds bubble;   // that it must wait for the first and after the last microbatch
  Bytes needed;     // no rank of the layout that needs most needs less
};

/// The bounds of the layouts of one scenario. Several threads may ask at once.
class LayoutBounds {
 public:
  explicit LayoutBounds(const Scenario& base) : base_(base) {}
  LayoutBound of(const LayoutPoint& point);

 private:
  /// A layer's times and sizes on a rank.
  struct LayerCost {
    double forward = 0, backward = 0;  // seconds of one microbatch
    double kept = 0;                   // bytes from forward to backward
    double elements = 0;               // parameters before data parallelism shards them
    double expert_elements = 0;        // of these, those of experts
  };
  struct Shape {
    LayerCost first, block, last;  // embedding, the mean block, head
    double least_kept = 0;         // of any block
    bool valid = false;
  };
  using Key = std::tuple<int, int, int, bool, int, int>;
  std::shared_ptr<const Shape> shape(const LayoutPoint& point);

  const Scenario& base_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Shape>> shapes_;
};

}  // namespace lockstep
