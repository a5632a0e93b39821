// A comparison as JSON: both reports, and in what they differ.
#include <nlohmann/json.hpp>

#include "core/analysis/compare.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// Times of the same name in both runs.
template <class Differences, class Name>
Json times_json(const Differences& differences, Name name) {
  Json list = Json::array();
  for (const auto& d : differences) {
    list.push_back({{"name", name(d)},
                    {"a_s", d.a.time.v},
                    {"b_s", d.b.time.v},
                    {"a_count", d.a.count},
                    {"b_count", d.b.count}});
  }
  return list;
}

}  // namespace

std::string comparison_json(const Report& a, const Report& b, const Comparison& c) {
  Json memory = Json::array();
  for (const MemoryDifference& d : c.memory) {
    memory.push_back({{"kind", d.kind}, {"a_bytes", d.a.v}, {"b_bytes", d.b.v}});
  }
  const Json json = {
      {"a", Json::parse(report_json(a))},
      {"b", Json::parse(report_json(b))},
      {"same_program", c.same_program},
      {"same_order", c.same_order},
      {"same_memory", c.same_memory},
      {"kinds", times_json(c.kinds, [](const KindDifference& d) { return d.kind; })},
      {"ops", times_json(c.ops, [](const OpDifference& d) { return d.name; })},
      {"streams", times_json(c.streams, [](const StreamDifference& d) { return d.name; })},
      {"memory", memory},
      {"losses", {{"steps", c.losses.steps}, {"largest_difference", c.losses.largest}}},
      {"conclusion", c.conclusion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
