// Bounds: what no layout can be below, in time and in memory, from its layers' functions alone.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/units.hpp"
#include "core/plan/space.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Lower bounds of a layout. `time` is `compute` and `bubble` together.
struct LayoutBound {
  Seconds time;     // no step takes less
  Seconds compute;  // that the busiest rank computes, with collectives that it must wait for
  Seconds bubble;   // that it must wait for the first and after the last microbatch
  Bytes needed;     // no rank of the layout that needs most needs less
};

/// The bounds of the layouts of one scenario. Several threads may ask at once.
class LayoutBounds {
 public:
  explicit LayoutBounds(const Scenario& base);
  ~LayoutBounds();
  LayoutBound of(const LayoutPoint& point);

 private:
  struct LayerCost;
  struct Shape;       // the layers of a rank
  struct StageCosts;  // of the stages of a pipeline
  struct InFlight;    // on a rank
  using ShapeKey = std::tuple<int, int, int, bool, int, int, int>;
  std::shared_ptr<const Shape> shape(const LayoutPoint& point);
  std::shared_ptr<const Shape> make_shape(const LayoutPoint& point) const;
  std::vector<int> ends_of_stages(const Shape& shape, int stages);
  double states(double elements, double experts, const LayoutPoint& point) const;
  double gradients(double elements, double experts, const LayoutPoint& point, bool sharded) const;
  double gathered(double elements, double experts, const LayoutPoint& point) const;
  double beside(const LayoutPoint& point) const;
  std::vector<InFlight> in_flight(const LayoutPoint& point, int microbatches);
  Bytes needed(const StageCosts& stages, const LayoutPoint& point,
               const std::vector<InFlight>& in_flight) const;

  const Scenario& base_;
  std::mutex mutex_;
  std::map<ShapeKey, std::shared_ptr<const Shape>> shapes_;
  std::map<std::vector<double>, int> balances_;
  std::map<std::pair<int, int>, std::vector<int>> ends_;  // by balance and number of stages
  std::map<std::array<int, 4>, std::vector<InFlight>> in_flight_;
};

}  // namespace lockstep
