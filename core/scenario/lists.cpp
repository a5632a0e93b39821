#include "core/scenario/lists.hpp"

#include <algorithm>

#include "core/model/model.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/keys/choices.hpp"

namespace lockstep {
namespace {

using Row = nlohmann::ordered_json;  // an object: a name for each column
using Rows = std::vector<Row>;

Scenario scenario_of_preset(const std::string& name) {
  const std::string stages = name == "synthetic" ? "[costs]\nforward = 1.0\nbackward_input = 1.0\n"
                                                   "backward_weight = 1.0\n"
                                                 : "";
  return parse_scenario("[model]\npreset = \"" + name + "\"\n" + stages, name, {})
      .points.at(0)
      .scenario;
}

std::string_view name_of(Architecture architecture) {
  for (const auto& [name, choice] : choices(Architecture{})) {
    if (choice == architecture) return name;
  }
  return "";
}

}  // namespace

Rows list_models() {
  Rows rows;
  for (const std::string& name : model_preset_names()) {
    const ModelSpec& m = scenario_of_preset(name).model;
    const Model built = build_layers(m, {});
    Row row = {{"model", name},
               {"architecture", name_of(m.architecture)},
               {"parameters", built.parameter_count()}};
    if (m.architecture != Architecture::Synthetic && !m.has_batch_norm()) {
      row["layers"] = m.layers;
      row["hidden"] = m.hidden;
      row["heads"] = m.heads;
      if (m.vocab > 0) row["vocab"] = m.vocab;
    }
    rows.push_back(row);
  }
  return rows;
}

Rows list_clusters() {
  Rows rows;
  for (const std::string& name : cluster_preset_names()) {
    std::vector<Error> errors;
    const ClusterSpec c = load_cluster(name, errors);
    const auto peak = std::find_if(c.device.peaks.begin(), c.device.peaks.end(),
                                   [](PeakRate p) { return p.dtype == DType::BF16; });
    rows.push_back(
        {{"cluster", name},
         {"device", c.device.name},
         {"per node", c.devices_per_node},
         {"memory GB", static_cast<double>(c.device.memory.v) / 1e9},
         {"bfloat16 TFLOP/s", peak == c.device.peaks.end() ? Row() : Row(peak->rate.v / 1e12)},
         {"in node GB/s", c.intra_node.bandwidth.v / 1e9},
         {"between GB/s", c.inter_node.bandwidth.v / 1e9}});
  }
  return rows;
}

}  // namespace lockstep
