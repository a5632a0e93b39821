#include "cli/fit_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/json_text.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/validation/statistics.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::pair<const char*, Seconds FittedRow::*>, 3> kKinds = {{
    {"before", &FittedRow::before},
    {"after", &FittedRow::after},
    {"left out", &FittedRow::left_out},
}};

bool is_fitted(const FittedConstant& c) {
  return c.state != ParameterState::NoEffect && c.state != ParameterState::Undetermined;
}

ErrorFigures figures(const Fit& fit, Seconds FittedRow::*simulated, bool fitted) {
  std::vector<double> errors;
  for (const FittedRow& row : fit.rows) {
    if (row.fitted == fitted) errors.push_back((row.*simulated).v / row.measured.v - 1);
  }
  return figures_of(errors);
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

/// Why the value is what it is; empty if only the rows say so.
std::string remark(const FittedConstant& c) {
  switch (c.state) {
    case ParameterState::Fitted:
      return "";
    case ParameterState::AtLower:
    case ParameterState::AtUpper:
      return "at its bound";
    case ParameterState::NoEffect:
      return "kept: no row depends on it";
    case ParameterState::Undetermined:
      return c.confused_with.empty() ? "kept: the rows do not determine it"
                                     : "kept: the rows cannot tell it from " + c.confused_with;
  }
  return "";
}

std::string interval(const FittedConstant& c) {
  return c.high > 0 ? number(c.low) + " to " + number(c.high) : "";
}

std::size_t fitted_count(const Fit& fit) {
  return static_cast<std::size_t>(
      std::count_if(fit.rows.begin(), fit.rows.end(), [](const auto& row) { return row.fitted; }));
}

void add_figures(TextTable& table, const Fit& fit, bool fitted, const std::string& suffix) {
  for (const auto& [name, simulated] : kKinds) {
    const ErrorFigures f = figures(fit, simulated, fitted);
    table.add({name + suffix, std::to_string(f.count), percent_text(f.median),
               percent_text(f.percentile90), change_text(1, 1 + f.bias),
               fmt::format("{:.0f} %", 100 * f.within_10)});
  }
}

nlohmann::ordered_json figures_json(const ErrorFigures& f) {
  return {{"rows", f.count},
          {"median", f.median},
          {"percentile90", f.percentile90},
          {"bias", f.bias},
          {"within_10", f.within_10}};
}

const char* word_of(ParameterState state) {
  switch (state) {
    case ParameterState::Fitted:
      return "fitted";
    case ParameterState::AtLower:
    case ParameterState::AtUpper:
      return "at_bound";
    case ParameterState::NoEffect:
      return "no_effect";
    case ParameterState::Undetermined:
      return "undetermined";
  }
  return "";
}

}  // namespace

std::string fit_text(const Fit& fit, bool with_rows, const Screen& screen) {
  std::string text;
  if (with_rows) {
    const bool remarks = fitted_count(fit) < fit.rows.size();
    std::vector<Heading> columns = {"row", "measured", {"before", 1}, "after", "left out"};
    if (remarks) columns.push_back(Heading::words("remark"));
    TextTable table(columns);
    for (const FittedRow& row : fit.rows) {
      std::vector<std::string> cells = {row.name, time_text(row.measured)};
      for (const auto& [name, simulated] : kKinds) {
        cells.push_back(change_text(row.measured.v, (row.*simulated).v));
      }
      if (remarks) cells.emplace_back(row.fitted ? "" : "not fitted to");
      table.add(cells);
    }
    text += table.text(screen) + "\n";
  }
  if (fit.constants.empty()) {
    text += "No constant brings rows closer that it was not fitted to: the profile stays.\n";
  } else {
    TextTable table({"constant",
                     Heading::words("profile"),
                     "was",
                     "fitted",
                     {"within two errors", 1},
                     Heading::words("remark")});
    for (const FittedConstant& c : fit.constants) {
      table.add({std::string(c.target.constant->key), joined(c.profiles), number(c.before),
                 number(c.value), interval(c), remark(c)});
    }
    text += table.text(screen);
  }
  TextTable table({"error", "rows", "median", "90th %ile", "bias", "within 10 %"});
  add_figures(table, fit, true, "");
  if (fitted_count(fit) < fit.rows.size())
    add_figures(table, fit, false, ", of rows not fitted to");
  return text + "\n" + table.text(screen);
}

std::string fit_json(const Fit& fit, const std::vector<std::string>& remarks) {
  nlohmann::ordered_json json;
  json["constants"] = nlohmann::ordered_json::array();
  for (const FittedConstant& c : fit.constants) {
    json["constants"].push_back({{"key", c.target.constant->key},
                                 {"pattern", c.target.pattern},
                                 {"profiles", c.profiles},
                                 {"before", c.before},
                                 {"value", c.value},
                                 {"low", c.low},
                                 {"high", c.high},
                                 {"state", word_of(c.state)},
                                 {"remark", remark(c)}});
  }
  for (const bool fitted : {true, false}) {
    auto& all = json[fitted ? "figures" : "figures_not_fitted"];
    for (const auto& [name, simulated] : kKinds) {
      all[name == std::string("left out") ? "left_out" : name] =
          figures_json(figures(fit, simulated, fitted));
    }
  }
  json["rows"] = nlohmann::ordered_json::array();
  for (const FittedRow& row : fit.rows) {
    json["rows"].push_back({{"id", row.name},
                            {"source", row.group},
                            {"fitted", row.fitted},
                            {"measured_s", row.measured.v},
                            {"before_s", row.before.v},
                            {"after_s", row.after.v},
                            {"left_out_s", row.left_out.v}});
  }
  json["without"] = nlohmann::ordered_json::array();
  for (const Fit::Without& without : fit.without) {
    nlohmann::ordered_json values;
    for (std::size_t k = 0; k < fit.constants.size(); ++k) {
      values[fit.constants[k].target.name()] = without.values[k];
    }
    json["without"].push_back({{"source", without.group}, {"constants", values}});
  }
  json["noise"] = fit.noise;
  json["simulations"] = fit.simulations;
  json["remarks"] = remarks;
  return json_text(json);
}

std::string fit_comment(const Fit& fit, bool of_framework) {
  const ErrorFigures after = figures(fit, &FittedRow::after, true);
  const ErrorFigures left_out = figures(fit, &FittedRow::left_out, true);
  std::string text =
      fmt::format("# lockstep fit, {} rows: half of them within {}, of rows left out {}\n",
                  after.count, percent_text(after.median), percent_text(left_out.median));
  for (const FittedConstant& c : fit.constants) {
    if (c.target.constant->of_framework() != of_framework || !is_fitted(c)) continue;
    text +=
        fmt::format("# {} = {}, was {}", c.target.constant->key, number(c.value), number(c.before));
    if (c.high > 0) text += "; within two errors " + interval(c);
    text += "\n";
  }
  return text;
}

}  // namespace lockstep
