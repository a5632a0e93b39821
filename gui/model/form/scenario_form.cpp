#include "gui/model/form/scenario_form.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/scenario/choices.hpp"
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

template <class E>
std::vector<std::string> names_of() {
  std::vector<std::string> out;
  for (const auto& [name, value] : choices(E{})) out.emplace_back(name);
  return out;
}

template <class E>
std::string name_of(E value) {
  for (const auto& [name, candidate] : choices(E{})) {
    if (candidate == value) return std::string(name);
  }
  return {};
}

constexpr double kMebi = 1 << 20;

/// Collects the fields one by one, group by group.
class FieldList {
 public:
  using Value = std::string (*)(const Scenario&);
  void group(const char* name) { group_ = name; }
  void numbers(const char* label, const char* key, const char* help,
               std::vector<std::string> values, Value value) {
    fields_.push_back(
        {key, group_, label, help, FormKind::Numbers, std::move(values), value, {}, {}});
  }
  void names(const char* label, const char* key, const char* help, std::vector<std::string> values,
             Value value) {
    fields_.push_back(
        {key, group_, label, help, FormKind::Names, std::move(values), value, {}, {}});
  }
  void toggle(const char* label, const char* key, const char* help, Value value) {
    fields_.push_back(
        {key, group_, label, help, FormKind::Switch, {"false", "true"}, value, {}, {}});
  }
  void say(const char* value, const char* words) { fields_.back().words.push_back({value, words}); }
  void help_with(std::vector<std::string> overrides) {
    fields_.back().helpers = std::move(overrides);
  }
  std::vector<FormField> take() { return std::move(fields_); }

 private:
  const char* group_ = "";
  std::vector<FormField> fields_;
};

std::string text(int v) { return std::to_string(v); }
std::string text(bool v) { return v ? "true" : "false"; }

void add_pipeline(FieldList& f) {
  f.group("Pipeline");
  f.names("Schedule", "parallelism.pipeline_parallel_schedule",
          "The order of forward and backward passes on each stage.", names_of<PipelineSchedule>(),
          [](const Scenario& s) { return name_of(s.strategy.pipeline_parallel_schedule); });
  // Some schedules need chunks, others have none.
  f.help_with({"parallelism.pipeline_parallel_virtual_stages=1",
               "parallelism.pipeline_parallel_virtual_stages=2"});
  f.numbers("Stages", "parallelism.pipeline_parallel_degree",
            "Ranks that a model is cut over. More stages need more microbatches to fill.",
            degrees(64),
            [](const Scenario& s) { return text(s.strategy.pipeline_parallel_degree); });
  f.numbers("Microbatches", "parallelism.pipeline_parallel_microbatches",
            "Parts of a batch that follow each other through the stages. The bubble over all time "
            "of a uniform pipeline is (p-1)/(m+p-1).",
            integers(1, 64),
            [](const Scenario& s) { return text(s.strategy.pipeline_parallel_microbatches); });
  f.numbers("Chunks", "parallelism.pipeline_parallel_virtual_stages",
            "Virtual stages of a rank: a smaller bubble for more messages.", integers(1, 16),
            [](const Scenario& s) { return text(s.strategy.pipeline_parallel_virtual_stages); });
  f.numbers("Group", "parallelism.pipeline_parallel_microbatch_group_size",
            "Interleaved1F1B: microbatches of a chunk that follow each other. Otherwise as many as "
            "PyTorch takes.",
            integers(0, 64), [](const Scenario& s) {
              return text(s.strategy.pipeline_parallel_microbatch_group_size);
            });
  f.say("0", "as PyTorch");
  f.numbers("Update every", "parallelism.pipeline_parallel_update_every",
            "PipeDream, PipeDream-2BW: microbatches from one update of the weights to the next. "
            "Otherwise one, or the number of stages.",
            integers(0, 64),
            [](const Scenario& s) { return text(s.strategy.pipeline_parallel_update_every); });
  f.say("0", "as usual");
  f.names("Messages", "parallelism.pipeline_parallel_p2p",
          "When ranks post their sends and receives, and who waits for them.",
          names_of<P2pPosting>(),
          [](const Scenario& s) { return name_of(s.strategy.pipeline_parallel_p2p); });
}

void add_data_parallel(FieldList& f) {
  f.group("Data parallel");
  f.numbers("Replicas", "parallelism.data_parallel_replicate_degree",
            "Ranks that hold copies of all states and all-reduce gradients (DDP).", degrees(1024),
            [](const Scenario& s) { return text(s.strategy.data_parallel_replicate_degree); });
  f.numbers("Shards", "parallelism.data_parallel_shard_degree",
            "Ranks that share states as the ZeRO stage says (FSDP).", degrees(1024),
            [](const Scenario& s) { return text(s.strategy.data_parallel_shard_degree); });
  f.numbers("ZeRO stage", "parallelism.zero_stage",
            "What shards share: 1 optimizer states, 2 gradients too, 3 parameters too.",
            integers(0, 3), [](const Scenario& s) { return text(s.strategy.zero_stage); });
  f.numbers("Bucket, MiB", "parallelism.bucket_cap_mb",
            "DDP: gradients are all-reduced when this many have gathered.",
            numbers({0.5, 1, 2, 4, 8, 12.5, 25, 50, 100, 200, 400, 1000}), [](const Scenario& s) {
              return number(static_cast<double>(s.strategy.bucket_cap.v) / kMebi);
            });
  f.toggle("Reduce early", "parallelism.overlap_grad_reduce",
           "Gradients are reduced during the backward pass, not after it.",
           [](const Scenario& s) { return text(s.strategy.overlap_grad_reduce); });
  f.toggle("Gather late", "parallelism.overlap_param_gather",
           "ZeRO-1, ZeRO-2: what a step updated is gathered during the next forward pass, not "
           "after the update.",
           [](const Scenario& s) { return text(s.strategy.overlap_param_gather); });
  f.names("Scatter each", "parallelism.accumulate_sharded_gradients",
          "Whether gradients are scattered after every microbatch: more is sent, less is kept.",
          names_of<AccumulateShards>(),
          [](const Scenario& s) { return name_of(s.strategy.accumulate_sharded_gradients); });
  f.toggle("Shared norms", "parallelism.sync_batch_norm",
           "Residual networks: batch norm has the statistics of all data-parallel ranks.",
           [](const Scenario& s) { return text(s.strategy.sync_batch_norm); });
  f.names("Reshard", "parallelism.fsdp_reshard_after_forward",
          "FSDP: gathered parameters are dropped after forward, and gathered again for backward.",
          names_of<ReshardAfterForward>(),
          [](const Scenario& s) { return name_of(s.strategy.fsdp_reshard_after_forward); });
  f.numbers("Reshard to", "parallelism.fsdp_reshard_degree",
            "FSDP: ranks that share what is dropped after forward.",
            numbers({0, 2, 4, 8, 16, 32, 64, 128, 256, 512}),
            [](const Scenario& s) { return text(s.strategy.fsdp_reshard_degree); });
  f.say("0", "all shards");
  f.toggle("8-bit gathers", "parallelism.zero_quantized_weights",
           "ZeRO++: parameters are gathered as codes of 8 bits, in blocks with a scale.",
           [](const Scenario& s) { return text(s.strategy.zero_quantized_weights); });
  f.toggle("4-bit gradients", "parallelism.zero_quantized_gradients",
           "ZeRO++: gradients are exchanged as codes of few bits, and added up on arrival.",
           [](const Scenario& s) { return text(s.strategy.zero_quantized_gradients); });
  f.numbers("Prefetch", "parallelism.fsdp_prefetch",
            "FSDP: units gathered ahead of the one in use.", integers(0, 8),
            [](const Scenario& s) { return text(s.strategy.fsdp_prefetch); });
}

void add_inside_layers(FieldList& f) {
  f.group("Tensor, context, experts");
  f.numbers("Tensor", "parallelism.tensor_parallel_degree",
            "Ranks that share every matrix product of a layer. Keep them inside a node.",
            degrees(64), [](const Scenario& s) { return text(s.strategy.tensor_parallel_degree); });
  f.toggle("Sequence", "parallelism.enable_sequence_parallel",
           "Ranks of a tensor-parallel group divide what lies between their matrix products, too.",
           [](const Scenario& s) { return text(s.strategy.enable_sequence_parallel); });
  f.numbers("Chunks of it", "parallelism.tensor_parallel_chunks",
            "Parts in which rows are gathered and scattered beside the products of others.",
            degrees(16), [](const Scenario& s) { return text(s.strategy.tensor_parallel_chunks); });
  f.numbers("Context", "parallelism.context_parallel_degree",
            "Ranks that divide the tokens of every sequence.", degrees(64),
            [](const Scenario& s) { return text(s.strategy.context_parallel_degree); });
  f.names("Attention", "parallelism.context_parallel_method",
          "What context-parallel ranks do about attention: exchange tokens for heads (ulysses), "
          "gather keys and values (allgather), or pass them on from rank to rank (ring).",
          names_of<ContextParallelMethod>(),
          [](const Scenario& s) { return name_of(s.strategy.context_parallel_method); });
  f.numbers("Heads of it", "parallelism.context_parallel_ulysses_degree",
            "Of the context-parallel ranks that gather keys or pass them on, neighbours that "
            "exchange tokens for heads.",
            degrees(64),
            [](const Scenario& s) { return text(s.strategy.context_parallel_ulysses_degree); });
  f.numbers("Expert", "parallelism.expert_parallel_degree",
            "Of the shards, ranks that divide the experts of a mixture, with all-to-alls around "
            "them.",
            degrees(64), [](const Scenario& s) { return text(s.strategy.expert_parallel_degree); });
  f.toggle("Fold experts", "parallelism.expert_parallel_folding",
           "Divide the experts over the ranks of tensor and context parallelism, too.",
           [](const Scenario& s) { return text(s.strategy.expert_parallel_folding); });
  f.numbers("Capacity", "model.capacity_factor",
            "Room of an expert for tokens, over its even share.",
            numbers({0, 1, 1.1, 1.25, 1.5, 2, 4}),
            [](const Scenario& s) { return number(s.model.capacity_factor); });
  f.say("0", "dropless");
  f.numbers("Divide each", "parallelism.expert_tensor_parallel_degree",
            "Ranks of tensor parallelism that divide every expert: 1, or all of them.", degrees(64),
            [](const Scenario& s) { return text(s.strategy.expert_tensor_parallel_degree); });
  f.numbers("Rows of a rank", "model.expert_rank_capacity_factor",
            "Without dropping: rows that a rank's experts have memory for, over its even share.",
            numbers({0, 1, 1.25, 1.5, 2, 4, 8}),
            [](const Scenario& s) { return number(s.model.expert_rank_capacity_factor); });
  f.say("0", "for all");
}

void add_apart(FieldList& f) {
  f.group("Replicas that train apart");
  f.names("Method", "local_sgd.method",
          "Replicas take their own steps, and are synchronized after some: by their mean "
          "(local_sgd), or by an outer optimizer (diloco).",
          names_of<SemiSyncMethod>(),
          [](const Scenario& s) { return name_of(s.strategy.local_sgd.method); });
  f.help_with({"local_sgd.sync_steps=10", "local_sgd.sync_steps=0"});
  f.numbers("Steps apart", "local_sgd.sync_steps", "Steps from one synchronization to the next.",
            numbers({0, 2, 5, 10, 20, 50, 100, 200, 500, 1000}),
            [](const Scenario& s) { return text(s.strategy.local_sgd.sync_steps); });
}

void add_memory(FieldList& f) {
  f.group("Memory");
  f.names("Recompute", "activation_checkpoint.mode",
          "What a block computes again before its backward pass instead of keeping it.",
          names_of<ActivationCheckpoint>(),
          [](const Scenario& s) { return name_of(s.activation_checkpoint.mode); });
  f.names("Selection", "activation_checkpoint.selective_ac_option",
          "Selective: every k-th block, or parts of every block.",
          {"1", "2", "3", "4", "op", "norm", "activation", "attention"},
          [](const Scenario& s) { return s.activation_checkpoint.selective_ac_option; });
  f.names("States", "training.dtype", "The type of optimizer states, and of all else by default.",
          names_of<DType>(), [](const Scenario& s) { return name_of(s.training.dtype); });
  f.names("Parameters", "training.mixed_precision_param",
          "The type of parameters as gathered, and of activations.", names_of<PartDType>(),
          [](const Scenario& s) { return name_of(s.training.mixed_precision_param); });
  f.names("Gradients", "training.mixed_precision_reduce",
          "The type of gradients as added up and reduced.", names_of<PartDType>(),
          [](const Scenario& s) { return name_of(s.training.mixed_precision_reduce); });
  f.names("8-bit products", "training.fp8",
          "Products of blocks with factors in 8 bits: all in e4m3, or gradients in e5m2 (hybrid).",
          names_of<Fp8Format>(), [](const Scenario& s) { return name_of(s.training.fp8); });
  f.help_with({"training.mixed_precision_param=bfloat16"});
  f.names("8-bit scales", "training.fp8_recipe", "Which elements share a scale.",
          names_of<Fp8Scaling>(), [](const Scenario& s) { return name_of(s.training.fp8_recipe); });
  f.names("Buffers", "training.mixed_precision_buffer",
          "The type of what batch norm keeps of its statistics from step to step.",
          names_of<PartDType>(),
          [](const Scenario& s) { return name_of(s.training.mixed_precision_buffer); });
  f.toggle("Random rounding", "training.stochastic_rounding",
           "Parameters in bfloat16 are rounded at random by the optimizer, not to nearest.",
           [](const Scenario& s) { return text(s.training.stochastic_rounding); });
  f.names("Offload", "parallelism.offload", "What lies beyond the device between its uses.",
          names_of<Offload>(), [](const Scenario& s) { return name_of(s.strategy.offload); });
  f.names("States in", "parallelism.offload_optimizer_device",
          "Where offloaded states lie: in host memory, or on the node's drives.",
          names_of<OffloadDevice>(),
          [](const Scenario& s) { return name_of(s.strategy.offload_optimizer_device); });
  f.names("Parameters in", "parallelism.offload_param_device",
          "Where offloaded parameters lie: in host memory, or on the node's drives.",
          names_of<OffloadDevice>(),
          [](const Scenario& s) { return name_of(s.strategy.offload_param_device); });
}

void add_batch(FieldList& f) {
  f.group("Batch");
  f.numbers("Local batch", "training.local_batch_size",
            "Sequences per data-parallel rank and pass.", degrees(1024),
            [](const Scenario& s) { return text(s.training.local_batch_size); });
  f.numbers("Global batch", "training.global_batch_size",
            "Sequences per step; more than the ranks take at once are accumulated.",
            numbers({-1,  1,   2,   4,   6,   8,   12,   16,   24,   32,   48,   64,   96,
                     128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192}),
            [](const Scenario& s) { return text(s.training.global_batch_size); });
  f.say("-1", "one pass");
  f.numbers("Length", "training.seq_len", "Tokens of a sequence.",
            numbers({64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072}),
            [](const Scenario& s) { return text(s.training.seq_len); });
}

void add_encoder(FieldList& f) {
  f.group("Encoder");
  f.toggle("Causal", "model.causal",
           "Whether a token sees no later one. Otherwise masked tokens are predicted (BERT).",
           [](const Scenario& s) { return text(s.model.causal); });
  f.help_with({"model.mask_token=0", "model.mask_token=-1"});
  f.numbers("Masked", "training.mask_prob", "The share of a sequence's tokens that are predicted.",
            numbers({0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5}),
            [](const Scenario& s) { return number(s.training.mask_prob); });
  f.names(
      "Norms", "model.norm_place",
      "Where norms stand: before a branch, behind its sum with the residual, behind the branch, "
      "or around it.",
      names_of<NormPlace>(), [](const Scenario& s) { return name_of(s.model.norm_place); });
  f.toggle("Embedding norm", "model.embedding_norm", "A norm follows the embeddings' sum.",
           [](const Scenario& s) { return text(s.model.embedding_norm); });
  f.numbers("Segments", "model.token_types", "Rows of the table of segments (token types).",
            integers(0, 4), [](const Scenario& s) { return std::to_string(s.model.token_types); });
  f.say("0", "no table");
  f.toggle("BERT's head", "model.head_transform",
           "A linear layer, GELU and a norm before the output layer, whose logits have a bias.",
           [](const Scenario& s) { return text(s.model.head_transform); });
}

void add_cluster(FieldList& f) {
  f.group("Cluster");
  f.names("Devices", "cluster.preset", "A profile of devices and links that comes with Lockstep.",
          cluster_preset_names(), [](const Scenario& s) { return s.cluster.name; });
  f.numbers("Nodes", "cluster.nodes", "Nodes of the cluster.", degrees(1024),
            [](const Scenario& s) { return text(s.cluster.nodes); });
  f.numbers("Memory, GB", "cluster.device.memory_gb",
            "Memory of a device, in GB of 10⁹ bytes, as all sizes are.",
            numbers({1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 141, 192, 288}),
            [](const Scenario& s) {
              return number(static_cast<double>(s.cluster.device.memory.v) / 1e9);
            });
  f.numbers("Host memory, GB", "cluster.device.host_memory_gb",
            "A device's part of its host's memory, for what is offloaded.",
            numbers({0, 16, 32, 64, 125, 240, 250, 480, 500}), [](const Scenario& s) {
              return number(static_cast<double>(s.cluster.device.host_memory.v) / 1e9);
            });
  f.say("0", "no limit");
  f.numbers("Bandwidth ×", "what_if.bandwidth_factor", "Every link this many times as fast.",
            numbers({0.03125, 0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32}),
            [](const Scenario& s) { return number(s.what_if.bandwidth_factor); });
  f.toggle("Ideal network", "what_if.ideal_network", "Transfers take no time.",
           [](const Scenario& s) { return text(s.what_if.ideal_network); });
}

void add_slow_ranks(FieldList& f) {
  f.group("Straggler and jitter");
  f.numbers("Rank", "what_if.straggler_rank", "The rank that is slow.", integers(-1, 63),
            [](const Scenario& s) { return text(s.what_if.straggler_rank); });
  f.say("-1", "none");
  f.numbers("Slowdown ×", "what_if.straggler_slowdown", "Its kernels take this many times as long.",
            numbers({1, 1.1, 1.2, 1.5, 2, 3, 4, 8}),
            [](const Scenario& s) { return number(s.what_if.straggler_slowdown); });
  f.numbers("Jitter", "what_if.jitter",
            "Standard deviation of every kernel's time, as a part of it.",
            numbers({0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5}),
            [](const Scenario& s) { return number(s.what_if.jitter); });
  f.names("Distribution", "what_if.jitter_distribution", "How jitter is distributed.",
          names_of<JitterDistribution>(),
          [](const Scenario& s) { return name_of(s.what_if.jitter_distribution); });
}

void add_data_loader(FieldList& f) {
  f.group("Data loader");
  f.numbers("Sample, ms", "data_loader.sample_ms",
            "What one worker takes to read, decode and augment one sample.",
            numbers({0, 0.1, 0.5, 1, 2, 5, 10, 20, 50, 100}),
            [](const Scenario& s) { return number(1e3 * s.cluster.loader.sample.v); });
  f.say("0", "no time");
  f.numbers("Workers", "data_loader.num_workers",
            "Processes that load for each rank; with 0 the rank's own process does.",
            integers(0, 32), [](const Scenario& s) { return text(s.cluster.loader.num_workers); });
  f.say("0", "the rank");
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

const std::vector<FormField>& form_fields() {
  static const std::vector<FormField> fields = [] {
    FieldList list;
    add_pipeline(list);
    add_data_parallel(list);
    add_inside_layers(list);
    add_apart(list);
    add_memory(list);
    add_batch(list);
    add_encoder(list);
    add_cluster(list);
    add_slow_ranks(list);
    add_data_loader(list);
    return list.take();
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
    state.own = value;
    if (state.overridden) {
      const LoadedScenario without = parse_scenario(text, file, others);
      state.own = without.ok() ? field.value(without.points.front().scenario) : "";
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
