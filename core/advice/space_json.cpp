#include "core/advice/space_json.hpp"

#include "core/cluster/certainty.hpp"
#include "core/plan/explain.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json counts_json(const SpaceCounts& c) {
  return {{"layouts", c.layouts},
          {"too_large_by_bound", c.too_large},
          {"too_slow_by_bound", c.too_slow},
          {"refused", c.refused},
          {"estimated", c.estimated},
          {"too_large_by_estimate", c.estimated_large},
          {"larger_than_these", c.implied_large},
          {"small_programs", c.probes},
          {"simulated", c.simulated},
          {"too_large_as_simulated", c.simulated_large},
          {"settings_simulated", c.settings}};
}

Json estimated_json(const std::vector<EstimatedLayout>& layouts) {
  Json list = Json::array();
  for (const EstimatedLayout& e : layouts) {
    list.push_back({{"layout", layout_name(e.scenario)},
                    {"family", family_of(e.point)},
                    {"step_time_s", e.estimate.step_time.v},
                    {"needed_memory_bytes", e.estimate.needed.v}});
  }
  return list;
}

/// The best of each family, with why it is slower than the best of all, and the families that lost.
Json families_json(const SpaceResult& result) {
  Json list = estimated_json(result.families);
  for (std::size_t i = 0; i < result.families.size(); ++i) {
    list[i]["because"] = i == 0 ? "" : why_slower(result.estimated.front(), result.families[i]);
  }
  return list;
}
Json lost_json(const SpaceResult& result) {
  Json list = Json::array();
  for (const LostFamily& f : result.lost) {
    if (result.estimated.empty()) break;
    list.push_back(
        {{"family", f.name}, {"because", why_lost(f, result.estimated.front(), result.capacity)}});
  }
  return list;
}

}  // namespace

Json found_json(const FoundLayout& found, const std::string& unit) {
  const LayoutFigures& f = found.figures;
  Json json = {{"layout", layout_name(found.scenario)},
               {unit + "_per_s", f.throughput},
               {"mfu", f.mfu},
               {"step_time_s", f.step_time.v},
               {"bubble_fraction", f.bubble_fraction},
               {"exposed_comm_s", f.exposed_comm.v},
               {"peak_memory_bytes", f.peak_memory.v},
               {"needed_memory_bytes", f.memory.needed.v},
               {"scenario", print_scenario(found.scenario)}};
  if (const auto certainty = certainty_of(found.scenario.cluster)) {
    const LikelyFactors &time = certainty->step_time, &memory = certainty->memory;
    const auto needed = static_cast<double>(f.memory.needed.v);
    json["likely_step_time_s"] = {time.least * f.step_time.v, time.most * f.step_time.v};
    json["likely_memory_bytes"] = {memory.least * needed, memory.most * needed};
  }
  return json;
}

Json space_json(const SpaceResult& result, const std::string& unit) {
  Json found = Json::array();
  for (const FoundLayout& layout : result.found) found.push_back(found_json(layout, unit));
  Json json = {{"memory_of_rank_bytes", result.capacity.v},
               {"counts", counts_json(result.counts)},
               {"found", found},
               {"families", families_json(result)},
               {"lost_families", lost_json(result)},
               {"front", estimated_json(result.front)},
               {"undecided", result.undecided}};
  if (const auto sure = probability_of_first(result)) json["certainty"] = *sure;
  return json;
}

Json sensitivity_json(const SensitivityReport& report) {
  Json changes = Json::array(), tipping = changes;
  for (const Sensitivity& s : report.changes) {
    changes.push_back(
        {{"change", s.change}, {"fits", s.fits}, {"slower", s.slower}, {"winner", s.winner}});
  }
  for (const TippingPoint& t : report.tipping) {
    tipping.push_back({{"what", t.what}, {"factor", t.factor}, {"winner", t.winner}});
  }
  return {{"changes", changes}, {"tipping_points", tipping}};
}

}  // namespace lockstep
