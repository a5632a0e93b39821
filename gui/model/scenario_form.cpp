#include "gui/model/scenario_form.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/scenario/scenario_file.hpp"

namespace lockstep::gui {
namespace {

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::vector<std::string> integers(int first, int last) {
  std::vector<std::string> out;
  for (int i = first; i <= last; ++i) out.push_back(std::to_string(i));
  return out;
}

/// 1, 2, 4, … and, up to 64, all numbers that people divide work by.
std::vector<std::string> degrees(int largest) {
  std::vector<std::string> out;
  for (int i : {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024}) {
    if (i <= largest) out.push_back(std::to_string(i));
  }
  return out;
}

std::vector<std::string> numbers(std::initializer_list<double> values) {
  std::vector<std::string> out;
  for (double v : values) out.push_back(number(v));
  return out;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> out;
  for (const ScheduleRules& rules : kSchedules) out.emplace_back(rules.name);
  return out;
}

constexpr double kMebi = 1 << 20;

std::vector<FormField> make_fields() {
  std::vector<FormField> fields;
  const auto add = [&](const char* group, const char* label, const char* key, const char* help,
                       std::vector<std::string> values, std::string (*value)(const Scenario&)) {
    fields.push_back({key, group, label, help, false, std::move(values), value});
  };
  const char* group = "Pipeline";
  add(group, "Schedule", "parallelism.pipeline_parallel_schedule",
      "The order of forward and backward passes on each stage.", schedule_names(),
      [](const Scenario& s) {
        return std::string(rules_of(s.strategy.pipeline_parallel_schedule).name);
      });
  fields.back().names = true;
  add(group, "Stages", "parallelism.pipeline_parallel_degree",
      "Ranks that a model is cut over. More stages need more microbatches to fill.", degrees(64),
      [](const Scenario& s) { return std::to_string(s.strategy.pipeline_parallel_degree); });
  add(group, "Microbatches", "parallelism.pipeline_parallel_microbatches",
      "Parts of a batch that follow each other through the stages. The bubble over all time of a "
      "uniform pipeline is (p-1)/(m+p-1).",
      integers(1, 64),
      [](const Scenario& s) { return std::to_string(s.strategy.pipeline_parallel_microbatches); });
  add(group, "Chunks", "parallelism.pipeline_parallel_virtual_stages",
      "Virtual stages of a rank: a smaller bubble for more messages.", integers(1, 16),
      [](const Scenario& s) {
        return std::to_string(s.strategy.pipeline_parallel_virtual_stages);
      });

  group = "Data and tensor parallel";
  add(group, "Replicas", "parallelism.data_parallel_replicate_degree",
      "Ranks that hold copies of all states and all-reduce gradients (DDP).", degrees(1024),
      [](const Scenario& s) { return std::to_string(s.strategy.data_parallel_replicate_degree); });
  add(group, "Shards", "parallelism.data_parallel_shard_degree",
      "Ranks that share states as the ZeRO stage says (FSDP).", degrees(1024),
      [](const Scenario& s) { return std::to_string(s.strategy.data_parallel_shard_degree); });
  add(group, "ZeRO stage", "parallelism.zero_stage",
      "What shards share: 1 optimizer states, 2 gradients too, 3 parameters too.", integers(0, 3),
      [](const Scenario& s) { return std::to_string(s.strategy.zero_stage); });
  add(group, "Context", "parallelism.context_parallel_degree",
      "Ranks that divide the tokens of every sequence.", degrees(64),
      [](const Scenario& s) { return std::to_string(s.strategy.context_parallel_degree); });
  add(group, "Tensor", "parallelism.tensor_parallel_degree",
      "Ranks that share every matrix product of a layer. Keep them inside a node.", degrees(64),
      [](const Scenario& s) { return std::to_string(s.strategy.tensor_parallel_degree); });
  add(group, "Expert", "parallelism.expert_parallel_degree",
      "Of the shards, ranks that divide the experts of a mixture, with all-to-alls around them.",
      degrees(64),
      [](const Scenario& s) { return std::to_string(s.strategy.expert_parallel_degree); });
  add(group, "Bucket, MiB", "parallelism.bucket_cap_mb",
      "DDP: gradients are all-reduced when this many have gathered.",
      numbers({0.5, 1, 2, 4, 8, 12.5, 25, 50, 100, 200, 400, 1000}), [](const Scenario& s) {
        return number(static_cast<double>(s.strategy.bucket_cap.v) / kMebi);
      });

  group = "Batch";
  add(group, "Local batch", "training.local_batch_size",
      "Sequences per data-parallel rank and pass.", degrees(1024),
      [](const Scenario& s) { return std::to_string(s.training.local_batch_size); });
  add(group, "Sequence", "training.seq_len", "Tokens of a sequence.",
      numbers({64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072}),
      [](const Scenario& s) { return std::to_string(s.training.seq_len); });

  group = "Cluster";
  add(group, "Nodes", "cluster.nodes", "Nodes of the cluster.", degrees(1024),
      [](const Scenario& s) { return std::to_string(s.cluster.nodes); });
  add(group, "Memory, GB", "cluster.device.memory_gb", "Memory of a device.",
      numbers({1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 141, 192, 288}),
      [](const Scenario& s) {
        return number(static_cast<double>(s.cluster.device.memory.v) / 1e9);
      });
  add(group, "Bandwidth ×", "what_if.bandwidth_factor", "Every link this many times as fast.",
      numbers({0.03125, 0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32}),
      [](const Scenario& s) { return number(s.what_if.bandwidth_factor); });

  group = "Straggler";
  add(group, "Rank", "what_if.straggler_rank", "The rank that is slow; -1: none.", integers(-1, 63),
      [](const Scenario& s) { return std::to_string(s.what_if.straggler_rank); });
  add(group, "Slowdown ×", "what_if.straggler_slowdown",
      "Its kernels take this many times as long.", numbers({1, 1.1, 1.2, 1.5, 2, 3, 4, 8}),
      [](const Scenario& s) { return number(s.what_if.straggler_slowdown); });
  return fields;
}

bool same_key(const std::string& entry, const std::string& key) {
  return entry.size() > key.size() && entry.starts_with(key) && entry[key.size()] == '=';
}

}  // namespace

const std::vector<FormField>& form_fields() {
  static const std::vector<FormField> fields = make_fields();
  return fields;
}

std::vector<FieldState> form_state(const std::string& text, const std::string& file,
                                   const std::vector<std::string>& overrides,
                                   const Cancelled& cancelled) {
  const LoadedScenario now = parse_scenario(text, file, overrides);
  if (!now.ok()) return {};
  std::vector<FieldState> states;
  for (const FormField& field : form_fields()) {
    FieldState state;
    const std::string value = field.value(now.points.front().scenario);
    std::vector<std::string> others;
    for (const std::string& entry : overrides) {
      if (same_key(entry, field.key)) {
        state.overridden = true;
      } else {
        others.push_back(entry);
      }
    }
    std::vector<std::string> candidates = field.values;
    if (std::find(candidates.begin(), candidates.end(), value) == candidates.end()) {
      const auto larger = std::find_if(candidates.begin(), candidates.end(), [&](const auto& c) {
        return !field.names &&
               std::strtod(c.c_str(), nullptr) > std::strtod(value.c_str(), nullptr);
      });
      candidates.insert(larger, value);
    }
    for (const std::string& candidate : candidates) {
      if (cancelled) return {};
      if (candidate == value) {
        state.at = static_cast<int>(state.values.size());
      } else {
        std::vector<std::string> with = others;
        with.push_back(field.key + "=" + candidate);
        if (!parse_scenario(text, file, with).ok()) continue;
      }
      state.values.push_back(candidate);
    }
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace lockstep::gui
