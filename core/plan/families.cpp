#include "core/plan/families.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep {

std::string family_of(const LayoutPoint& p) {
  std::string name;
  const auto add = [&](const std::string& part) { name += (name.empty() ? "" : " + ") + part; };
  if (p.tensor > 1) add("tp");
  if (p.context > 1) add("cp");
  if (p.pipeline > 1) add("pp " + std::string(rules_of(p.schedule).name));
  if (p.replicate * p.shard * p.context > 1) {
    add(p.zero == 0                      ? "DDP"
        : p.zero == 3 && p.replicate > 1 ? "HSDP"
        : p.zero == 3                    ? "FSDP"
                                         : "ZeRO " + std::to_string(p.zero));
  }
  if (p.expert > 1) add("ep");
  if (p.expert_tensor > 1) add("etp");
  if (p.offload != Offload::None) add("offload");
  return name.empty() ? "one rank" : name;
}

bool may_fit(const LayoutBound& bound, double capacity) {
  return capacity <= 0 || static_cast<double>(bound.needed.v) <= capacity;
}

void note_families(const std::vector<LayoutPoint>& points, const std::vector<LayoutBound>& bounds,
                   double capacity, std::vector<LostFamily>& families) {
  const auto better = [&](const LayoutBound& a, const LayoutBound& b) {
    if (may_fit(a, capacity) != may_fit(b, capacity)) return may_fit(a, capacity);
    return may_fit(a, capacity) ? a.time < b.time : a.needed < b.needed;
  };
  std::map<std::string, LostFamily> found;
  for (std::size_t i = 0; i < points.size(); ++i) {
    LostFamily& family = found[family_of(points[i])];
    if (family.layouts++ > 0 && !better(bounds[i], family.bound)) continue;
    family.point = points[i];
    family.bound = bounds[i];
  }
  for (auto& [name, family] : found) {
    family.name = name;
    families.push_back(std::move(family));
  }
  std::stable_sort(families.begin(), families.end(), [&](const LostFamily& a, const LostFamily& b) {
    return better(a.bound, b.bound);
  });
}

std::vector<EstimatedLayout> best_of_families(const std::vector<EstimatedLayout>& sorted) {
  std::vector<EstimatedLayout> best;
  std::set<std::string> seen;
  for (const EstimatedLayout& e : sorted) {
    if (seen.insert(family_of(e.point)).second) best.push_back(e);
  }
  return best;
}

std::vector<EstimatedLayout> front_of(const std::vector<EstimatedLayout>& layouts) {
  std::vector<const EstimatedLayout*> by_time;
  for (const EstimatedLayout& e : layouts) by_time.push_back(&e);
  std::stable_sort(by_time.begin(), by_time.end(),
                   [](const EstimatedLayout* a, const EstimatedLayout* b) {
                     return a->estimate.step_time < b->estimate.step_time;
                   });
  std::vector<EstimatedLayout> front;
  for (const EstimatedLayout* e : by_time) {
    if (front.empty() || e->estimate.needed < front.back().estimate.needed) front.push_back(*e);
  }
  return front;
}

}  // namespace lockstep
