#include <algorithm>
#include <cstdlib>

#include "core/handover/flavors.hpp"
#include "core/handover/torchtitan_account.hpp"
#include "core/handover/torchtitan_names.hpp"
#include "core/scenario/presets.hpp"

namespace lockstep {
namespace {

/// 0 if it is no preset.
std::int64_t layers_of(const std::string& preset) {
  const std::optional<ModelSpec> model = find_model_preset(preset);
  return model ? model->layers : 0;
}

bool has_two_stages(const std::string& schedule) {
  return schedule != "1F1B" && schedule != "GPipe";
}

class TorchtitanReader : TorchtitanAccount {
 public:
  TorchtitanReader(const Node& root, const PlanOptions& options)
      : TorchtitanAccount(root), options_(options) {}

  Result<PlanImport> read(const std::string& file) {
    if (Result<void> model = read_model(); !model) return model.error();
    read_training();
    read_products();
    read_optimizer();
    read_degrees();
    read_recomputation();
    read_rest();
    return plan_.finish(file);
  }

 private:
  Result<void> read_model() {
    const std::string family = word("model.name", "llama3"),
                      name = word("model.flavor", "debugmodel");
    if (plan_.take_model(options_)) {
      plan_.assume("the model: " + options_.model + " instead of " + family + " " + name +
                   " (--model)");
      layers_ = layers_of(options_.model);
      return {};
    }
    // A flavor with another kernel for attention is as large: "8B_flex".
    const bool other_kernel =
        name.find("_flex") != std::string::npos || name.find("_varlen") != std::string::npos;
    const std::string size = other_kernel ? name.substr(0, name.find('_')) : name;
    for (const Flavor& f : kFlavors) {
      if (family != f.family || size != f.name) continue;
      const std::string from = "model.name = " + quote(family) + ", flavor = " + quote(name);
      if (f.preset != nullptr) {
        plan_.text("model.preset", f.preset, from);
      } else {
        plan_.text("model.architecture", "llama", from);
        plan_.text("model.name", family + "-" + name);
        plan_.set("model.layers", f.layers);
        plan_.set("model.hidden", f.hidden);
        plan_.set("model.heads", f.heads);
        plan_.set("model.kv_heads", f.kv_heads);
        plan_.set("model.head_dim", f.head_dim);
        plan_.set("model.ffn_hidden", f.ffn_hidden);
        plan_.set("model.vocab", f.vocab);
        plan_.number("model.rope_theta", f.rope_theta);
        plan_.flag("model.qk_norm", f.qk_norm);
        plan_.flag("model.tied_embeddings", f.tied);
        plan_.number("model.norm_eps", f.qk_norm ? 1e-6 : 1e-5);
      }
      layers_ = f.layers;
      return {};
    }
    for (const PresetFlavor& f : kPresetFlavors) {
      if (family != f.family || size != f.name) continue;
      const std::string from = "model.name = " + quote(family) + ", flavor = " + quote(name);
      plan_.text("model.preset", f.preset, from);
      layers_ = layers_of(std::string(f.preset));
      if (!f.differs.empty()) plan_.lose(from + ": " + std::string(f.differs));
      return {};
    }
    return unknown_model(family, name);
  }

  Error unknown_model(const std::string& family, const std::string& name) {
    std::string flavors;
    const auto note = [&](std::string_view of, std::string_view flavor) {
      if (of == family) flavors += (flavors.empty() ? "" : ", ") + std::string(flavor);
    };
    for (const Flavor& f : kFlavors) note(f.family, f.name);
    for (const PresetFlavor& f : kPresetFlavors) note(f.family, f.name);
    Error error =
        invalid("torchtitan's model " + family + ", flavor " + name + ", is not known here" +
                (flavors.empty() ? "" : ", of its flavors " + flavors + " are") +
                ": name a model with --model PRESET or --model config.json");
    for (const char* said : {"model.flavor", "model.name"}) {
      if (const Node* node = find(said); node != nullptr) {
        error.where = node->at.span;
        break;
      }
    }
    return error;
  }

  /// Products in 8 bits, by a converter of its model.
  void read_products() {
    std::string from, named;
    if (const Node* old = find("float8.enable_float8_linear"); old != nullptr) {
      const bool on = old->kind == Node::Kind::Boolean ? old->boolean : !old->text.empty();
      if (on) named = "float8", from = shown("float8.enable_float8_linear", *old);
    }
    const Node* converters = find("model.converters");
    if (converters != nullptr && (!converters->children.empty() || !converters->text.empty())) {
      named = to_text(*converters);
      from = shown("model.converters", *converters);
    }
    if (named.empty()) return;
    const std::string recipe =
        word("quantize.linear.float8.recipe_name",
             word("quantize.dense.float8.recipe_name", word("float8.recipe_name", "")));
    if (named.find(".mx") != std::string::npos || named.find("mx\"") != std::string::npos) {
      plan_.text("training.fp8", "e4m3", from);
      plan_.text("training.fp8_recipe", "mxfp8");
    } else if (named.find("float8") != std::string::npos &&
               (recipe.empty() || recipe == "tensorwise")) {
      plan_.text("training.fp8", "hybrid", from);
      plan_.text("training.fp8_recipe", "tensorwise");
      one_scale_ = true;
    } else {
      plan_.lose(from + " " + recipe +
                 ": products in 8 bits are run with scales of blocks or of the tensor at hand "
                 "(training.fp8), and those of rows simulated ([framework] fp8 = \"current\")");
    }
  }

  void read_training() {
    take("training.local_batch_size", "8");
    take("training.global_batch_size", "-1");
    if (options_.seq_len > 0) {
      find("training.seq_len");
      plan_.set("training.seq_len", options_.seq_len);
    } else {
      take("training.seq_len", "2048");
    }
    take("training.max_norm", "1.0");
    take("training.steps", "10000");
    const char* seed = find("training.seed") != nullptr ? "training.seed" : "debug.seed";
    if (const Node* node = find(seed))
      plan_.set("training.seed", to_text(*node), shown(seed, *node));
    take("training.dtype", "\"float32\"");
    take("training.mixed_precision_param", "\"bfloat16\"");
    if (!options_.dtype.empty()) plan_.text("training.mixed_precision_param", options_.dtype);
    take("training.mixed_precision_reduce", "\"float32\"");
    if (flag("training.enable_cpu_offload")) {
      plan_.text("parallelism.offload", "parameters", "training.enable_cpu_offload = true");
    }
    const std::string dataset = word("training.dataset", "");
    if (!dataset.empty()) {
      plan_.lose("training.dataset = " + quote(dataset) +
                 ": it is downloaded; name a text or token shards in training.dataset to train");
    }
    find("training.dataset_path");
  }

  void read_optimizer() {
    take("optimizer.name", "\"AdamW\"");
    take("optimizer.lr", "8e-4");
    take("optimizer.beta1", "0.9");
    take("optimizer.beta2", "0.95");
    take("optimizer.eps", "1e-8");
    take("optimizer.weight_decay", "0.1");
    if (flag("optimizer.early_step_in_backward")) {
      plan_.lose(
          "optimizer.early_step_in_backward: the update follows the whole backward pass here");
    }
    take("lr_scheduler.warmup_steps", "200");
    // Without a ratio the decay begins after the warm-up.
    const Node* ratio = find("lr_scheduler.decay_ratio");
    plan_.set("lr_scheduler.decay_ratio", ratio != nullptr ? to_text(*ratio) : "1.0",
              ratio != nullptr ? shown("lr_scheduler.decay_ratio", *ratio) : "");
    if (word("lr_scheduler.decay_type", "linear") == "sqrt") {
      plan_.lose("lr_scheduler.decay_type = \"sqrt\": it is linear here");
      plan_.text("lr_scheduler.decay_type", "linear");
    } else {
      take("lr_scheduler.decay_type", "\"linear\"");
    }
    take("lr_scheduler.min_lr_factor", "0.0");
  }

  void read_degrees() {
    const auto degree = [&](const char* key, std::int64_t otherwise) {
      take(key, std::to_string(otherwise));
      return whole(key, otherwise);
    };
    const std::int64_t replicate = degree("parallelism.data_parallel_replicate_degree", 1);
    const std::int64_t shard = degree("parallelism.data_parallel_shard_degree", -1);
    const std::int64_t tp = degree("parallelism.tensor_parallel_degree", 1);
    const std::int64_t cp = degree("parallelism.context_parallel_degree", 1);
    const std::int64_t pp = degree("parallelism.pipeline_parallel_degree", 1);
    if (shard != 1) take("parallelism.fsdp_reshard_after_forward", "\"default\"");
    find("parallelism.fsdp_reshard_after_forward");
    if (tp > 1) plan_.flag("parallelism.enable_sequence_parallel", true);
    if (cp > 1) {
      const bool gathers =
          word("parallelism.context_parallel_rotate_method", "allgather") == "allgather";
      plan_.text("parallelism.context_parallel_method", gathers ? "allgather" : "ring");
    }
    find("parallelism.context_parallel_rotate_method");
    if (const std::int64_t ep = whole("parallelism.expert_parallel_degree", 1); ep > 1) {
      take("parallelism.expert_parallel_degree", "1");
      const std::int64_t etp = whole("parallelism.expert_tensor_parallel_degree", 1);
      plan_.flag("parallelism.expert_parallel_folding", tp > 1 && etp == 1);
      if (etp > 1) take("parallelism.expert_tensor_parallel_degree", "1");
    }
    find("parallelism.expert_tensor_parallel_degree");
    // PyTorch multiplies the rows of one rank at a time, while those of the next are on their way.
    if (flag("parallelism.enable_async_tensor_parallel") && tp > 1 && one_scale_) {
      plan_.lose(
          "parallelism.enable_async_tensor_parallel = true: beside products in 8 bits with one "
          "scale of a tensor nothing is gathered in parts here; [framework] overlaps_products = "
          "true simulates that it is");
    } else if (flag("parallelism.enable_async_tensor_parallel") && tp > 1) {
      plan_.set("parallelism.tensor_parallel_chunks", tp,
                "parallelism.enable_async_tensor_parallel = true");
    }
    read_pipeline(pp);
    const std::int64_t groups = read_replicas_apart(replicate);
    const std::int64_t others = product_of({replicate, groups, tp, cp, pp});
    if (options_.gpus > 0) {
      plan_.set("parallelism.data_parallel_shard_degree",
                std::max<std::int64_t>(1, options_.gpus / others));
      return plan_.take_cluster(options_, options_.gpus, 0);
    }
    if (shard == -1 && options_.nodes == 0) {
      plan_.assume(
          "as many GPUs as the other degrees fill nodes, and the rest for sharding "
          "(--nodes)");
    }
    plan_.take_cluster(options_, product_of({others, shard}), 0);
  }

  /// Groups of torchft that train apart. Returns their number, or 1.
  std::int64_t read_replicas_apart(std::int64_t replicate) {
    const std::string method = word("fault_tolerance.semi_sync_method", "");
    const std::int64_t steps = whole("fault_tolerance.sync_steps", 5);
    const std::int64_t groups = whole("fault_tolerance.group_size", 0);
    if (!flag("fault_tolerance.enable")) return 1;
    if (method.empty()) {
      plan_.lose("fault_tolerance.enable: replicas do not come and go");
      return 1;
    }
    plan_.text("local_sgd.method", method, "fault_tolerance.semi_sync_method = " + quote(method));
    plan_.set("local_sgd.sync_steps", steps,
              "fault_tolerance.sync_steps = " + std::to_string(steps));
    if (groups > 0) {
      plan_.set("parallelism.data_parallel_replicate_degree", groups,
                "fault_tolerance.group_size = " + std::to_string(groups));
    } else {
      plan_.lose(
          "fault_tolerance.group_size: say how many replicas train apart in "
          "parallelism.data_parallel_replicate_degree");
    }
    if (replicate > 1) {
      plan_.lose(
          "parallelism.data_parallel_replicate_degree: replicas train apart, or all sum their "
          "gradients in every step");
    }
    for (const char* key :
         {"fault_tolerance.should_quantize", "fault_tolerance.fragment_sync_delay",
          "fault_tolerance.fragment_update_alpha"}) {
      const Node* const node = find(key);
      const bool set = node != nullptr && (node->is_number() ? node->number != 0 : node->boolean);
      if (!set) continue;
      plan_.lose(std::string(key) + ": replicas synchronize all parameters at once, in float32");
    }
    return std::max<std::int64_t>(groups, 1);
  }

  void read_pipeline(std::int64_t pp) {
    const std::string schedule = word("parallelism.pipeline_parallel_schedule", "1F1B");
    const std::int64_t size = whole("parallelism.pipeline_parallel_microbatch_size", 1);
    const Node* csv = find("parallelism.pipeline_parallel_schedule_csv");
    const Node* parts = find("parallelism.module_fqns_per_model_part");
    const Node* points = find("parallelism.pipeline_parallel_split_points");
    const Node* count = find("parallelism.pipeline_parallel_microbatches");
    if (pp == 1) return;
    const std::int64_t local = whole("training.local_batch_size", 8);
    if (!is_old()) {
      plan_.set("parallelism.pipeline_parallel_microbatches",
                std::max<std::int64_t>(1, local / std::max<std::int64_t>(1, size)),
                "parallelism.pipeline_parallel_microbatch_size = " + std::to_string(size));
    } else if (count != nullptr) {
      plan_.set("parallelism.pipeline_parallel_microbatches", to_text(*count),
                shown("parallelism.pipeline_parallel_microbatches", *count));
    } else {  // as many as stages
      plan_.set("parallelism.pipeline_parallel_microbatches",
                std::min(local, product_of({pp, has_two_stages(schedule) ? 2 : 1})));
    }
    if (csv != nullptr && !csv->text.empty()) {
      take("parallelism.pipeline_parallel_schedule_csv", "");
    } else {
      plan_.text("parallelism.pipeline_parallel_schedule", schedule,
                 "parallelism.pipeline_parallel_schedule = " + quote(schedule));
    }
    std::vector<std::int64_t> blocks;
    if (parts != nullptr && parts->kind == Node::Kind::Array && !parts->children.empty()) {
      for (const Node& part : parts->children) {
        blocks.push_back(
            std::count_if(part.children.begin(), part.children.end(),
                          [](const Node& n) { return n.text.starts_with("layers."); }));
      }
    } else {
      blocks = points != nullptr ? blocks_between(*points) : std::vector<std::int64_t>();
      if (blocks.empty()) blocks = blocks_by_rule(pp, schedule);
    }
    const auto stages = static_cast<std::int64_t>(blocks.size());
    plan_.set("parallelism.pipeline_parallel_virtual_stages",
              std::max<std::int64_t>(1, stages / std::max<std::int64_t>(1, pp)));
    if (blocks.empty() || std::all_of(blocks.begin(), blocks.end(),
                                      [&](std::int64_t n) { return n == blocks.front(); })) {
      return;
    }
    std::string list;
    for (const std::int64_t n : blocks) list += (list.empty() ? "[" : ", ") + std::to_string(n);
    plan_.set("parallelism.pipeline_parallel_layers_per_stage", list + "]");
  }

  /// The blocks of each stage, of a list of the first one of every stage but the first:
  /// ["layers.4", "layers.8"], or one text with commas. Empty if it is no such list.
  std::vector<std::int64_t> blocks_between(const Node& points) const {
    std::string text = points.text;
    for (const Node& point : points.children) text += "," + point.text;
    std::vector<std::int64_t> blocks;
    std::int64_t last = 0;
    constexpr std::string_view kBlock = "layers.";
    for (std::size_t at = text.find(kBlock); at != std::string::npos;
         at = text.find(kBlock, at + 1)) {
      const std::int64_t first = std::strtoll(text.c_str() + at + kBlock.size(), nullptr, 10);
      blocks.push_back(first - last);
      last = first;
    }
    if (!blocks.empty()) blocks.push_back(layers_ - last);
    const bool fits = std::all_of(blocks.begin(), blocks.end(), [](auto n) { return n > 0; });
    return fits ? blocks : std::vector<std::int64_t>();
  }

  /// The blocks of each stage as pipeline_llm and generate_llm_fqn_per_model_part of torchtitan's
  /// distributed/pipeline_parallel.py divide them.
  std::vector<std::int64_t> blocks_by_rule(std::int64_t pp, const std::string& schedule) {
    const std::int64_t first = whole("parallelism.pipeline_parallel_first_stage_less_layers", 1);
    const std::int64_t last = whole("parallelism.pipeline_parallel_last_stage_less_layers", 1);
    const std::int64_t per_stage = whole("parallelism.pipeline_parallel_layers_per_stage", 0);
    constexpr std::int64_t kMostStages = 1 << 16;
    std::int64_t stages = std::min(kMostStages, product_of({pp, has_two_stages(schedule) ? 2 : 1}));
    const std::int64_t all = layers_ + first + last;
    if (layers_ == 0) return std::vector<std::int64_t>(static_cast<std::size_t>(stages), 1);
    if (per_stage > 0) {
      stages = std::clamp<std::int64_t>((all + per_stage - 1) / per_stage, 1, kMostStages);
    }
    std::vector<std::int64_t> blocks;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      blocks.push_back(all / stages + (stage < all % stages ? 1 : 0) - (stage == 0 ? first : 0) -
                       (stage == stages - 1 ? last : 0));
    }
    return blocks;
  }

  void read_recomputation() {
    const std::string mode = word("activation_checkpoint.mode", "selective");
    if (mode == "memory_budget") {
      plan_.lose("activation_checkpoint.mode = \"memory_budget\": say what is recomputed");
      return;
    }
    plan_.text("activation_checkpoint.mode", mode, "activation_checkpoint.mode = " + quote(mode));
    const std::string option = word("activation_checkpoint.selective_ac_option", "2");
    if (mode != "selective") return;
    // Its "op" is another one than the scenario's.
    plan_.text("activation_checkpoint.selective_ac_option", option == "op" ? "torchtitan" : option,
               find("activation_checkpoint.selective_ac_option") == nullptr
                   ? ""
                   : "activation_checkpoint.selective_ac_option = " + quote(option));
  }

  void read_rest() {
    if (flag("checkpoint.enable")) {
      if (word("checkpoint.interval_type", "steps") != "steps") {
        plan_.lose(
            "checkpoint.interval_type = \"seconds\": a checkpoint is written every so many "
            "steps here");
      }
      take("checkpoint.interval", "500");
      take("checkpoint.folder", "\"checkpoint\"");
      take("checkpoint.keep_latest_k", "10");
    }
    if (flag("validation.enable")) {
      plan_.lose("[validation]: name a text or token shards in validation.dataset, and its freq");
    }
    read_kernels();
    account_for_rest();
  }

  /// Blocks are eager unless they are compiled.
  void read_kernels() {
    const Node* enabled = find("compile.enable");
    const Node* components = find("compile.components");
    const bool compiles =
        flag("compile.enable") &&
        (components == nullptr || to_text(*components).find("model") != std::string::npos);
    const std::string from = enabled == nullptr ? "" : shown("compile.enable", *enabled);
    if (!plan_.take_framework(options_, {.words = compiles ? "torchtitan" : "fsdp eager"}, from)) {
      return;
    }
    const Node* optimizer = find("optimizer.implementation");  // a Boolean until 2025
    if (!compiles && options_.framework.empty()) {
      plan_.flag("framework.fused_optimizer",
                 optimizer == nullptr || optimizer->boolean || optimizer->text == "fused",
                 optimizer == nullptr ? "" : shown("optimizer.implementation", *optimizer));
    }
  }

  const PlanOptions& options_;
  std::int64_t layers_ = 0;
  bool one_scale_ = false;  // of each tensor, for products in 8 bits
};

}  // namespace

Result<PlanImport> from_torchtitan(std::string_view text, const std::string& file,
                                   const PlanOptions& options) {
  const Result<Node> root = parse_document(text, file);
  if (!root) return root.error();
  return TorchtitanReader(*root, options).read(file);
}

std::optional<Trainer> recognize_plan(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return std::nullopt;
  if (text[first] == '{') {
    for (const char* key : {"\"zero_optimization\"", "\"train_micro_batch_size_per_gpu\"",
                            "\"train_batch_size\"", "\"gradient_accumulation_steps\""}) {
      if (text.find(key) != std::string_view::npos) return Trainer::DeepSpeed;
    }
    return std::nullopt;
  }
  if (!file.ends_with(".toml")) {
    const bool arguments = text.find("--num-layers") != std::string_view::npos ||
                           text.find("--tensor-model-parallel-size") != std::string_view::npos;
    return arguments ? std::optional(Trainer::Megatron) : std::nullopt;
  }
  const Result<Node> root = parse_document(text, file);
  if (!root) return std::nullopt;
  const Node* model = root->find("model");
  const bool flavored = model != nullptr && model->find("flavor") != nullptr;
  for (const Node& child : root->children) {
    if (child.is_table() && trainer_of_section(child.key) == Trainer::Torchtitan) {
      return Trainer::Torchtitan;
    }
  }
  return flavored ? std::optional(Trainer::Torchtitan) : std::nullopt;
}

}  // namespace lockstep
