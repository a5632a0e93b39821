// Families of layouts: those that use the same kinds of parallelism. What a search tells of each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/plan/bounds.hpp"
#include "core/plan/estimate/estimate.hpp"
#include "core/plan/space.hpp"

namespace lockstep {

/// The kinds of parallelism of a layout without degrees: "tp + pp 1F1B + ZeRO 1".
std::string family_of(const LayoutPoint& point);

/// A layout that was estimated. The memory of `estimate` is not below its bound.
struct EstimatedLayout {
  LayoutPoint point;
  Scenario scenario;
  LayoutBound bound;
  LayoutEstimate estimate;
};

/// A family that has no layout among those that fit by their estimate.
struct LostFamily {
  std::string name;
  std::size_t layouts = 0;
  LayoutPoint point;  // of those that may fit by their bounds the fastest; else the smallest
  LayoutBound bound;  // of that point
  std::size_t large = 0, refused = 0;  // of those that were looked at
  std::string refusal;                 // of the first that was refused
};

/// Whether a rank's memory may be within `capacity` bytes; 0: no limit.
bool may_fit(const LayoutBound& bound, double capacity);

/// Adds the families of these points, whose bounds are `bounds`, and sorts all families.
void note_families(const std::vector<LayoutPoint>& points, const std::vector<LayoutBound>& bounds,
                   double capacity, std::vector<LostFamily>& families);

/// Of layouts that are sorted, best first, the first of each family.
std::vector<EstimatedLayout> best_of_families(const std::vector<EstimatedLayout>& sorted);

/// Those that no faster one needs less memory than, by time.
std::vector<EstimatedLayout> front_of(const std::vector<EstimatedLayout>& layouts);

}  // namespace lockstep
