#include "gui/model/form/scenario_form.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "core/scenario/key_list.hpp"
#include "core/scenario/scenario_file.hpp"
#include "gui/model/form/document.hpp"

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

/// 1, 2, 4, …, and up to 64 all numbers by which people divide work.
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

constexpr std::string_view kDevices = "cluster.preset";

/// A row of the form. Without values of its own it has those that the key's names say, or both of a
/// switch.
struct FormRow {
  const char *group, *label, *key;
  std::vector<std::string> values = {};
  std::vector<std::pair<std::string, std::string>> words = {};
  std::vector<std::string> helpers = {};
};

std::vector<FormRow> form_rows() {
  return {
      {"Pipeline",
       "Schedule",
       "parallelism.pipeline_parallel_schedule",
       {},
       {},
       {"parallelism.pipeline_parallel_virtual_stages=1",
        "parallelism.pipeline_parallel_virtual_stages=2"}},
      {"Pipeline", "Stages", "parallelism.pipeline_parallel_degree", degrees(64)},
      {"Pipeline", "Microbatches", "parallelism.pipeline_parallel_microbatches", integers(1, 64)},
      {"Pipeline", "Chunks", "parallelism.pipeline_parallel_virtual_stages", integers(1, 16)},
      {"Pipeline",
       "Group",
       "parallelism.pipeline_parallel_microbatch_group_size",
       integers(0, 64),
       {{"0", "as PyTorch"}}},
      {"Pipeline",
       "Update every",
       "parallelism.pipeline_parallel_update_every",
       integers(0, 64),
       {{"0", "as usual"}}},
      {"Pipeline", "Messages", "parallelism.pipeline_parallel_p2p"},
      {"Data parallel", "Replicas", "parallelism.data_parallel_replicate_degree", degrees(1024)},
      {"Data parallel", "Shards", "parallelism.data_parallel_shard_degree", degrees(1024)},
      {"Data parallel", "ZeRO stage", "parallelism.zero_stage", integers(0, 3)},
      {"Data parallel", "Bucket, MiB", "parallelism.bucket_cap_mb",
       numbers({0.5, 1, 2, 4, 8, 12.5, 25, 50, 100, 200, 400, 1000})},
      {"Data parallel", "Overlap reduce", "parallelism.overlap_grad_reduce"},
      {"Data parallel", "Overlap gather", "parallelism.overlap_param_gather"},
      {"Data parallel", "Accumulate shards", "parallelism.accumulate_sharded_gradients"},
      {"Data parallel", "Sync batch norm", "parallelism.sync_batch_norm"},
      {"Data parallel", "Reshard", "parallelism.fsdp_reshard_after_forward"},
      {"Data parallel",
       "Reshard degree",
       "parallelism.fsdp_reshard_degree",
       numbers({0, 2, 4, 8, 16, 32, 64, 128, 256, 512}),
       {{"0", "all shards"}}},
      {"Data parallel", "8-bit gathers", "parallelism.zero_quantized_weights"},
      {"Data parallel", "4-bit gradients", "parallelism.zero_quantized_gradients"},
      {"Data parallel", "Prefetch", "parallelism.fsdp_prefetch", integers(0, 8)},
      {"Tensor, context, experts", "Tensor", "parallelism.tensor_parallel_degree", degrees(64)},
      {"Tensor, context, experts", "Sequence parallel", "parallelism.enable_sequence_parallel"},
      {"Tensor, context, experts", "Tensor chunks", "parallelism.tensor_parallel_chunks",
       degrees(16)},
      {"Tensor, context, experts", "Context", "parallelism.context_parallel_degree", degrees(64)},
      {"Tensor, context, experts", "Attention", "parallelism.context_parallel_method"},
      {"Tensor, context, experts", "Ulysses degree", "parallelism.context_parallel_ulysses_degree",
       degrees(64)},
      {"Tensor, context, experts", "Expert", "parallelism.expert_parallel_degree", degrees(64)},
      {"Tensor, context, experts", "Fold experts", "parallelism.expert_parallel_folding"},
      {"Tensor, context, experts",
       "Capacity",
       "model.capacity_factor",
       numbers({0, 1, 1.1, 1.25, 1.5, 2, 4}),
       {{"0", "dropless"}}},
      {"Tensor, context, experts", "Expert tensor", "parallelism.expert_tensor_parallel_degree",
       degrees(64)},
      {"Tensor, context, experts",
       "Rank capacity",
       "model.expert_rank_capacity_factor",
       numbers({0, 1, 1.25, 1.5, 2, 4, 8}),
       {{"0", "for all"}}},
      {"Local SGD, DiLoCo",
       "Method",
       "local_sgd.method",
       {},
       {},
       {"local_sgd.sync_steps=10", "local_sgd.sync_steps=0"}},
      {"Local SGD, DiLoCo", "Sync steps", "local_sgd.sync_steps",
       numbers({0, 2, 5, 10, 20, 50, 100, 200, 500, 1000})},
      {"Memory", "Recompute", "activation_checkpoint.mode"},
      {"Memory",
       "Selection",
       "activation_checkpoint.selective_ac_option",
       {"1", "2", "3", "4", "op", "norm", "activation", "attention", "torchtitan", "core_attn",
        "layernorm", "mla_up_proj", "mlp", "moe_act", "moe", "shared_experts"}},
      {"Memory", "States", "training.dtype"},
      {"Memory", "Parameters", "training.mixed_precision_param"},
      {"Memory", "Gradients", "training.mixed_precision_reduce"},
      {"Memory", "FP8", "training.fp8", {}, {}, {"training.mixed_precision_param=bfloat16"}},
      {"Memory", "FP8 recipe", "training.fp8_recipe"},
      {"Memory", "Buffers", "training.mixed_precision_buffer"},
      {"Memory", "Stochastic rounding", "training.stochastic_rounding"},
      {"Memory", "Offload", "parallelism.offload"},
      {"Memory", "States in", "parallelism.offload_optimizer_device"},
      {"Memory", "Parameters in", "parallelism.offload_param_device"},
      {"Batch", "Local batch", "training.local_batch_size", degrees(1024)},
      {"Batch",
       "Global batch",
       "training.global_batch_size",
       numbers({-1,  1,   2,   4,   6,   8,   12,   16,   24,   32,   48,   64,   96,
                128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192}),
       {{"-1", "one pass"}}},
      {"Batch", "Length", "training.seq_len",
       numbers({64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072})},
      {"Encoder", "Causal", "model.causal", {}, {}, {"model.mask_token=0", "model.mask_token=-1"}},
      {"Encoder", "Masked", "training.mask_prob", numbers({0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5})},
      {"Encoder", "Norms", "model.norm_place"},
      {"Encoder", "Embedding norm", "model.embedding_norm"},
      {"Encoder", "Segments", "model.token_types", integers(0, 4), {{"0", "no table"}}},
      {"Encoder", "BERT's head", "model.head_transform"},
      {"Cluster", "Devices", "cluster.preset", cluster_preset_names()},
      {"Cluster", "Nodes", "cluster.nodes", degrees(1024)},
      {"Cluster", "Memory, GB", "cluster.device.memory_gb",
       numbers({1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 141, 192, 288})},
      {"Cluster",
       "Host memory, GB",
       "cluster.device.host_memory_gb",
       numbers({0, 16, 32, 64, 125, 240, 250, 480, 500}),
       {{"0", "no limit"}}},
      {"Cluster", "Bandwidth ×", "what_if.bandwidth_factor",
       numbers({0.03125, 0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32})},
      {"Cluster", "Ideal network", "what_if.ideal_network"},
      {"Straggler and jitter",
       "Rank",
       "what_if.straggler_rank",
       integers(-1, 63),
       {{"-1", "none"}}},
      {"Straggler and jitter", "Slowdown ×", "what_if.straggler_slowdown",
       numbers({1, 1.1, 1.2, 1.5, 2, 3, 4, 8})},
      {"Straggler and jitter", "Jitter", "what_if.jitter",
       numbers({0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5})},
      {"Straggler and jitter", "Distribution", "what_if.jitter_distribution"},
      {"Data loader",
       "Sample, ms",
       "data_loader.sample_ms",
       numbers({0, 0.1, 0.5, 1, 2, 5, 10, 20, 50, 100}),
       {{"0", "no time"}}},
      {"Data loader", "Workers", "data_loader.num_workers", integers(0, 32), {{"0", "the rank"}}},
  };
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream text(list);
  for (std::string name; std::getline(text >> std::ws, name, ',');) names.push_back(name);
  return names;
}

/// A value in TOML as the form has it: without quotes, and a number as short as it can be.
std::string plain(const std::string& value) {
  if (value.starts_with('"')) return value.substr(1, value.size() - 2);
  char* end = nullptr;
  const double v = std::strtod(value.c_str(), &end);
  return value.empty() || *end != '\0' ? value : number(v);
}

FormField field_of(const FormRow& row) {
  const ScenarioKey& key = *find_key(row.key);
  const bool is_switch = key.value == "true" || key.value == "false";
  const bool is_number = !is_switch && !key.value.empty() && !key.value.starts_with('"');
  FormField field;
  field.key = row.key;
  field.group = row.group;
  field.label = row.label;
  field.help = key.meaning;
  field.kind = is_switch ? FormKind::Switch : is_number ? FormKind::Numbers : FormKind::Names;
  field.values = !row.values.empty() ? row.values
                 : is_switch         ? std::vector<std::string>{"false", "true"}
                                     : split(key.values);
  field.words = row.words;
  field.helpers = row.helpers;
  return field;
}

/// The first helper of the field with which `overrides` have no fault; empty if none has.
std::string helper_of(const FormField& field, const std::string& text, const std::string& file,
                      const std::vector<std::string>& overrides) {
  for (const std::string& helper : field.helpers) {
    std::vector<std::string> with = overrides;
    put_override(with, helper);
    if (parse_scenario(text, file, with).ok()) return helper;
  }
  return {};
}

bool same_key(const std::string& entry, const std::string& key) {
  return entry.size() > key.size() && entry.starts_with(key) && entry[key.size()] == '=';
}

}  // namespace

std::string FormField::value_in(const KeyValues& values) const {
  const auto found = values.find(key == kDevices ? "cluster.name" : key);
  return found == values.end() ? std::string() : plain(found->second);
}

const std::vector<FormField>& form_fields() {
  static const std::vector<FormField> fields = [] {
    std::vector<FormField> list;
    for (const FormRow& row : form_rows()) list.push_back(field_of(row));
    return list;
  }();
  return fields;
}

std::string FormField::text_of(const std::string& value) const {
  for (const auto& [own, meaning] : words) {
    if (own == value) return meaning;
  }
  return value;
}

std::vector<FieldState> form_state(const std::string& text, const std::string& file,
                                   const std::vector<std::string>& overrides,
                                   const Cancelled& cancelled) {
  const LoadedScenario now = parse_scenario(text, file, overrides);
  if (!now.ok()) return {};
  const KeyValues values = values_of_keys(now.points.front().scenario);
  std::vector<FieldState> states;
  for (const FormField& field : form_fields()) {
    FieldState state;
    const std::string value = field.value_in(values);
    std::vector<std::string> others;
    for (const std::string& entry : overrides) {
      if (same_key(entry, field.key)) {
        state.overridden = true;
      } else {
        others.push_back(entry);
      }
    }
    state.own = value;
    if (state.overridden) {
      const LoadedScenario without = parse_scenario(text, file, others);
      state.own =
          without.ok() ? field.value_in(values_of_keys(without.points.front().scenario)) : "";
    }
    std::vector<std::string> candidates = field.values;
    if (std::find(candidates.begin(), candidates.end(), value) == candidates.end()) {
      const auto larger = std::find_if(candidates.begin(), candidates.end(), [&](const auto& c) {
        return field.kind == FormKind::Numbers &&
               std::strtod(c.c_str(), nullptr) > std::strtod(value.c_str(), nullptr);
      });
      candidates.insert(larger, value);
    }
    for (const std::string& candidate : candidates) {
      if (cancelled) return {};
      std::string helper;
      if (candidate == value) {
        state.at = static_cast<int>(state.values.size());
      } else {
        std::vector<std::string> with = others;
        with.push_back(field.key + "=" + candidate);
        const LoadedScenario alone = parse_scenario(text, file, with);
        if (!alone.ok()) {
          helper = helper_of(field, text, file, with);
          if (helper.empty()) {
            if (state.why_not.empty()) state.why_not = alone.errors.front().message;
            continue;
          }
        }
      }
      state.values.push_back(candidate);
      state.helper.push_back(helper);
    }
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace lockstep::gui
