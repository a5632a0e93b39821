#include "core/analysis/expectations.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/base/index_vector.hpp"
#include "core/base/nearest.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

std::string text_of(double value) {
  std::ostringstream out;
  out.precision(10);
  out << value;
  return out.str();
}

/// Either the number at a path of report.json, or why there is none.
struct Lookup {
  std::optional<double> value;
  std::string problem;
};

const json* element(const json& list, const std::string& part) {
  int index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (error != std::errc() || end != part.data() + part.size()) return nullptr;
  const int size = static_cast<int>(list.size());
  if (index < 0) index += size;
  return index >= 0 && index < size ? &list[to_size(index)] : nullptr;
}

std::optional<double> reduce(const json& list, const std::string& how) {
  const auto is_real = [](const json& v) { return v.is_number() || v.is_null(); };
  if (list.empty() || !std::all_of(list.begin(), list.end(), is_real)) return std::nullopt;
  if (how != "min" && how != "max" && how != "sum") return std::nullopt;
  std::vector<double> values;
  for (const json& v : list) {
    if (v.is_null())
      return std::nan("");  // null stands for NaN, which makes min, max and sum NaN too
    values.push_back(v.get<double>());
  }
  if (how == "min") return *std::min_element(values.begin(), values.end());
  if (how == "max") return *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double v : values) sum += v;
  return sum;
}

Lookup look_up(const json& report, const std::string& path) {
  const json* node = &report;
  std::string so_far;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '.');) {
    if (node->is_object()) {
      if (!node->contains(part)) {
        std::vector<std::string> names;
        for (const auto& [name, value] : node->items()) names.push_back(name);
        const std::string near = nearest(part, names);
        return {std::nullopt, "the report has no '" + so_far + part + "'" +
                                  (near.empty() ? "" : "; did you mean '" + so_far + near + "'?")};
      }
      node = &(*node)[part];
    } else if (node->is_array()) {
      if (const auto reduced = reduce(*node, part)) return {reduced, ""};
      const json* next = element(*node, part);
      if (next == nullptr) {
        return {std::nullopt, "'" + so_far + part + "': the list has " +
                                  std::to_string(node->size()) + " values"};
      }
      node = next;
    } else {
      return {std::nullopt, "'" + path + "' goes beyond a single value"};
    }
    so_far += part + ".";
  }
  if (node->is_null()) return {std::nan(""), ""};
  if (node->is_number()) return {node->get<double>(), ""};
  return {std::nullopt, "'" + path + "' is not one number" +
                            (node->is_array() ? ": add an index, or .min, .max or .sum" : "")};
}

/// Why `measured` is not as expected; empty if it is.
std::string complaint(const Expectation& e, double measured) {
  const std::string is = e.key + " is " + text_of(measured) + ", expected ";
  if (e.min || e.max) {
    const bool inside = (!e.min || measured >= *e.min) && (!e.max || measured <= *e.max);
    if (inside) return "";
    return is + (e.min ? "at least " + text_of(*e.min) : "") + (e.min && e.max ? " and " : "") +
           (e.max ? "at most " + text_of(*e.max) : "");
  }
  // A scenario's decimal seconds and the clock's picoseconds round to different doubles. The
  // relative 1e-12 absorbs that and is below the clock's resolution for a step of up to a second.
  const double tolerance = (e.relative + 1e-12) * std::fabs(e.value) + e.absolute;
  if (std::fabs(measured - e.value) <= tolerance) return "";
  return is + text_of(e.value) +
         (e.relative > 0 || e.absolute > 0 ? " ± " + text_of(tolerance) : "");
}

}  // namespace

std::vector<Error> check_expectations(const Report& report,
                                      const std::vector<Expectation>& expectations) {
  if (expectations.empty()) return {};
  const json values = json::parse(report_json(report));
  const bool simulated = report.backend == "sim";
  std::vector<Error> errors;
  for (const Expectation& e : expectations) {
    const bool measured_only = e.key.starts_with("losses") || e.key.starts_with("grad_norms") ||
                               e.key.starts_with("validation");
    if (measured_only && report.losses.empty()) continue;
    const Lookup found = look_up(values, e.key);
    if (!found.value && !simulated && !measured_only) continue;
    const std::string message = found.value ? complaint(e, *found.value) : found.problem;
    if (!message.empty()) errors.push_back({ErrorKind::Expectation, message, e.where});
  }
  return errors;
}

Result<double> report_figure(const Report& report, const std::string& key) {
  const Lookup found = look_up(json::parse(report_json(report)), key);
  if (!found.value) return invalid(found.problem);
  return *found.value;
}

}  // namespace lockstep
