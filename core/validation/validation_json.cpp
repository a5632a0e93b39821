#include <nlohmann/json.hpp>

#include "core/validation/training_validation.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json errors_json(const ErrorFigures& e) {
  Json json{{"rows", e.count}};
  if (e.count == 0) return json;
  json["median"] = e.median;
  json["percentile90"] = e.percentile90;
  json["bias"] = e.bias;
  json["within_10_percent"] = e.within_10;
  return json;
}

Json figures_json(const ValidationFigures& f) {
  Json json{{"source", f.source},
            {"rows", f.rows},
            {"expressed", f.expressed},
            {"step_time", errors_json(f.time)},
            {"memory", errors_json(f.memory)},
            {"memory_max_allocated", errors_json(f.memory_allocated)},
            {"fit",
             {{"ran", f.ran},
              {"wrongly_refused", f.wrongly_refused},
              {"out_of_memory", f.out_of_memory},
              {"missed", f.missed}}},
            {"order", {{"pairs", f.order.pairs}}}};
  if (f.order.pairs > 0) json["order"]["tau"] = f.order.tau();
  return json;
}

Json row_json(const ValidatedRow& r) {
  Json json{{"id", r.row.id}};
  if (!r.mapped.scenario) {
    json["reason"] = to_string(r.mapped.reason);
    json["detail"] = r.mapped.detail;
    return json;
  }
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) json[key] = *value;
  };
  add("measured_s", r.measured);
  json["simulated_s"] = r.predicted->step_time.v;
  add("time_error", r.time_error());
  add("measured_bytes", r.measured_memory());
  json["simulated_allocated_bytes"] = r.predicted->memory.allocated.v;
  json["simulated_process_bytes"] = r.predicted->memory.process.v;
  json["simulated_needed_bytes"] = r.predicted->memory.needed.v;
  add("memory_error", r.memory_error());
  json["fits"] = *r.fits();
  json["ran_out_of_memory"] = r.row.ran_out_of_memory();
  return json;
}

}  // namespace

std::string validation_json(const ValidationSummary& summary, const std::vector<ValidatedRow>& rows,
                            bool with_rows) {
  Json json{{"all", figures_json(summary.all)}};
  for (const ValidationFigures& source : summary.sources) {
    json["sources"].push_back(figures_json(source));
  }
  json["sweeps"] = Json::array();
  for (const SweepOrder& sweep : summary.sweeps) {
    json["sweeps"].push_back({{"name", sweep.name},
                              {"runs", sweep.runs},
                              {"pairs", sweep.order.pairs},
                              {"tau", sweep.order.tau()},
                              {"first_choice",
                               {{"loss", sweep.loss},
                                {"simulated_first", sweep.chosen},
                                {"measured_first", sweep.best},
                                {"gains_by", sweep.gains_by}}}});
  }
  json["unexpressed"] = Json::array();
  for (const UnexpressedRows& u : summary.unexpressed) {
    json["unexpressed"].push_back({{"reason", to_string(u.reason)},
                                   {"rows", u.ids.size()},
                                   {"details", u.details},
                                   {"ids", u.ids}});
  }
  if (with_rows) {
    for (const ValidatedRow& row : rows) json["rows"].push_back(row_json(row));
  }
  return json.dump(2) + "\n";
}

}  // namespace lockstep
