#include "core/scenario/scenario_file.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/read_file.hpp"
#include "core/scenario/resolve.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMaxPoints = 4096;

struct SweepAxis {
  std::string path;
  const Node* values;
  const Node* fixed = nullptr;  // the value that --set gives instead of the list; null without one
  std::size_t size() const { return values->children.size(); }
};

const Node* find_path(const Node& root, std::string_view path) {
  const Node* at = &root;
  while (at && at->is_table()) {
    const std::size_t dot = path.find('.');
    at = at->find(path.substr(0, dot));
    if (dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

/// Whether an override gives the value that the file has.
bool same_value(const Node& value, const Node& override_value) {
  if (value.is_number() && override_value.is_number()) return value.number == override_value.number;
  if (value.kind == Node::Kind::String) return value.text == override_value.text;
  return to_text(value) == to_text(override_value);
}

/// The index of a fixed axis's value in its list; nullopt if the value is not in the list.
std::optional<std::size_t> place_of_fixed(const SweepAxis& axis) {
  const auto same = [&](const Node& value) { return same_value(value, *axis.fixed); };
  const std::vector<Node>& values = axis.values->children;
  const auto it = std::find_if(values.begin(), values.end(), same);
  if (it == values.end()) return std::nullopt;
  return static_cast<std::size_t>(it - values.begin());
}

/// Removes from `root` what an override replaces. Of `keys`, a section has only one, so that an
/// override of one also removes the other.
void replace_alternative(Node& root, const Node& overrides, std::string_view section,
                         const std::array<std::string_view, 2>& keys) {
  Node* table = root.find(section);
  const Node* given = overrides.find(section);
  if (!table || !given) return;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!given->find(keys[i])) continue;
    std::erase_if(table->children, [&](const Node& child) { return child.key == keys[1 - i]; });
  }
}

/// Collects the axes of [sweep] in file order.
void read_axes(const Node& table, const std::string& prefix, const Node& overrides,
               Diagnostics& diagnostics, std::vector<SweepAxis>& axes) {
  for (const Node& child : table.children) {
    const std::string path = prefix + child.key;
    if (child.is_table() && !child.inline_table && !child.children.empty()) {
      read_axes(child, path + ".", overrides, diagnostics, axes);
    } else if (child.kind != Node::Kind::Array || child.children.empty()) {
      diagnostics.add(child.at, "sweep of '" + path + "' must be a list of values");
    } else if (path == "sweep" || path.starts_with("sweep.")) {
      diagnostics.add(child.key_at, "a sweep cannot sweep itself");
    } else {
      axes.push_back({path, &child, find_path(overrides, path)});
    }
  }
}

/// LoadedScenario::departures below `prefix`. Some paths are keys of [sweep], and judged by it.
void find_departures(const Node& root, const Node& overrides, const std::string& prefix,
                     std::vector<std::string>& departures) {
  for (const Node& child : overrides.children) {
    const std::string path = prefix + child.key;
    if (path == "expect" || path == "checkpoint" || path == "campaign" || path == "name") continue;
    if (child.is_table() && !child.inline_table) {
      find_departures(root, child, path + ".", departures);
      continue;
    }
    const Node* value = find_path(root, path);
    if (value == nullptr || !same_value(*value, child)) departures.push_back(path);
  }
}

/// In a sweep, an expected value may be a list with one value for each of the sweep's `points`
/// points, counted as the file has them, before --set fixes an axis. Replaces each list by its
/// value for `point`. `point` is empty if --set gave an axis a value that is not in its list;
/// expectations with lists are removed then. Returns whether there were lists.
bool pick_expectations(Node& expect, std::optional<std::size_t> point, std::size_t points,
                       Diagnostics& diagnostics) {
  bool lists = false;
  std::erase_if(expect.children, [&](Node& child) {
    if (child.is_table()) {
      const bool inside = pick_expectations(child, point, points, diagnostics);
      return inside && !point && child.inline_table;
    }
    if (child.kind != Node::Kind::Array) return false;
    if (child.children.size() != points) {
      diagnostics.add(child.at, "expected values of '" + child.key + "': a list of " +
                                    std::to_string(child.children.size()) + " for " +
                                    std::to_string(points) + " points of the sweep");
      child.kind = Node::Kind::Integer;  // one message is enough
      return false;
    }
    lists = true;
    if (!point) return true;
    Node value = child.children[*point];
    value.key = child.key;
    value.key_at = child.key_at;
    child = std::move(value);
    return false;
  });
  return lists;
}

std::vector<SweepPoint> expand(const Node& root, const std::vector<SweepAxis>& axes,
                               const std::string& file, Software software,
                               Diagnostics& diagnostics) {
  std::vector<SweepPoint> points;
  ProfileCache profiles;
  // The index of each axis's value in its list; empty if --set gave it a value that is not there.
  std::vector<std::optional<std::size_t>> index;
  std::size_t count = 1;
  for (const SweepAxis& axis : axes) {
    index.push_back(axis.fixed ? place_of_fixed(axis) : 0);
    count *= axis.size();
  }
  while (true) {
    Node instance = root;
    SweepPoint point;
    std::optional<std::size_t> place = 0;  // of the point in the product of all lists
    for (std::size_t i = 0; i < axes.size(); ++i) {
      place = place && index[i] ? std::optional(*place * axes[i].size() + *index[i]) : std::nullopt;
      if (axes[i].fixed) continue;
      Node value = axes[i].values->children[*index[i]];
      value.key_at = axes[i].values->key_at;
      point.label += (point.label.empty() ? "" : " ") + axes[i].path + "=" + to_text(value);
      if (!set_value(instance, axes[i].path, value)) {
        diagnostics.add(value.key_at,
                        "cannot sweep '" + axes[i].path + "': not a key of a section");
      }
    }
    if (Node* expect = instance.find("expect"); expect && !axes.empty()) {
      const bool lists = pick_expectations(*expect, place, count, diagnostics);
      for (std::size_t i = 0; lists && i < axes.size(); ++i) {
        if (index[i]) continue;
        diagnostics.warn(axes[i].fixed->at, "the sweep of '" + axes[i].path +
                                                "' has no such value: lists of expected values "
                                                "are not checked");
      }
    }
    point.scenario = resolve(instance, file, software, profiles, diagnostics);
    points.push_back(std::move(point));
    std::size_t axis = axes.size();  // the last axis varies fastest
    while (axis > 0 && (axes[axis - 1].fixed || ++*index[axis - 1] == axes[axis - 1].size())) {
      if (!axes[--axis].fixed) index[axis] = 0;
    }
    if (axis == 0) return points;
  }
}

}  // namespace

LoadedScenario parse_scenario(std::string_view text, const std::string& file,
                              const std::vector<std::string>& overrides,
                              const std::string& given_by, Software software) {
  Diagnostics diagnostics;
  Node root, all_overrides;
  if (Result<Node> parsed = parse_document(text, file)) {
    root = std::move(*parsed);
  } else {
    return {{}, {parsed.error()}, {}};  // there is no tree in which to look for more faults
  }
  for (const std::string& override_text : overrides) {
    if (const Result<Node> parsed = parse_override(override_text, given_by)) {
      merge(all_overrides, *parsed);
    } else {
      diagnostics.add({*parsed.error().where, {}}, parsed.error().message);
    }
  }
  std::vector<std::string> departures;
  find_departures(root, all_overrides, "", departures);
  replace_alternative(root, all_overrides, "cluster", {"preset", "profile"});
  replace_alternative(root, all_overrides, "model", {"preset", "hf_config"});
  replace_alternative(root, all_overrides, "framework", {"preset", "profile"});
  merge(root, all_overrides);

  std::vector<SweepAxis> axes;
  if (const Node* sweep = root.find("sweep")) {
    if (sweep->is_table()) {
      read_axes(*sweep, "", all_overrides, diagnostics, axes);
    } else {
      diagnostics.add(sweep->at, "[sweep] must be a table of lists");
    }
    std::size_t count = 1;
    for (const SweepAxis& axis : axes) {
      count = std::min(count * (axis.fixed ? 1 : axis.size()), kMaxPoints + 1);
    }
    if (count > kMaxPoints) {
      diagnostics.add(sweep->at, "a sweep has at most " + std::to_string(kMaxPoints) + " points");
      axes.clear();
    }
  }
  for (const SweepAxis& axis : axes) {
    if (axis.fixed && place_of_fixed(axis)) std::erase(departures, axis.path);
  }
  LoadedScenario loaded{expand(root, axes, file, software, diagnostics), diagnostics.take(),
                        diagnostics.take_warnings(), std::move(departures)};
  if (!loaded.ok()) {
    loaded.points.clear();
    loaded.warnings.clear();
  }
  return loaded;
}

LoadedScenario load_scenario(const std::string& path, const std::vector<std::string>& overrides,
                             const std::string& given_by, Software software) {
  const Result<std::string> text = read_file(path);
  if (!text) return {{}, {text.error()}, {}};
  return parse_scenario(*text, path, overrides, given_by, software);
}

}  // namespace lockstep
