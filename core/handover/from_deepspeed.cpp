#include <algorithm>
#include <cmath>
#include <optional>

#include "core/handover/deepspeed_account.hpp"
#include "core/handover/words.hpp"

namespace lockstep {
namespace {

/// The optimizer of that name, whose letters DeepSpeed takes in either case; null if there is none.
const OptimizerRow* find_optimizer(std::string_view type) {
  const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  const auto row =
      std::find_if(kOptimizers.begin(), kOptimizers.end(), [&](const OptimizerRow& candidate) {
        return std::equal(type.begin(), type.end(), candidate.name.begin(), candidate.name.end(),
                          same);
      });
  return row == kOptimizers.end() ? nullptr : row;
}

using Json = nlohmann::ordered_json;

class DeepSpeedReader : DeepSpeedAccount {
 public:
  DeepSpeedReader(const JsonSettings& config, const PlanOptions& options)
      : DeepSpeedAccount(config), options_(options) {}

  Result<PlanImport> read(const std::string& file) {
    if (!plan_.take_model(options_)) {
      return invalid(file +
                     " is a configuration of DeepSpeed, which does not say the model: name "
                     "it with --model PRESET or --model config.json");
    }
    plan_.assume("the model: " + options_.model + " (--model)");
    if (options_.seq_len > 0) plan_.set("training.seq_len", options_.seq_len);
    read_precision();
    read_batch();
    read_zero();
    read_optimizer();
    read_schedule();
    account_for_rest();
    if (fault()) return *fault();
    return plan_.finish(file);
  }

 private:
  void read_precision() {
    bool bf16 = flag("bf16.enabled", false) || flag("bfloat16.enabled", false);
    bool fp16 = flag("fp16.enabled", false);
    for (const char* name : {"bf16.enabled", "bfloat16.enabled", "fp16.enabled"}) {
      const Setting* s = find(name);
      if (s == nullptr || !is_auto(*s)) continue;
      plan_.assume(shown(*s) + ": " + (options_.dtype.empty() ? "bfloat16, unless told" : "told") +
                   " (--dtype)");
      if (options_.dtype.empty() && !fp16) bf16 = true;
    }
    const std::string precision = options_.dtype;
    if (!precision.empty()) {
      bf16 = precision == "bfloat16";
      fp16 = precision == "float16";
    }
    const std::string_view type = bf16 ? "bfloat16" : fp16 ? "float16" : "float32";
    const Setting* narrow = find("bf16.bf16_master_weights_and_grads");
    const bool all_narrow = bf16 && flag("bf16.bf16_master_weights_and_grads", false);
    plan_.text("training.dtype", all_narrow ? "bfloat16" : "float32",
               all_narrow ? shown(*narrow) : "");
    if (const Setting* states = find("bf16.bf16_optimizer_states");
        states != nullptr && bf16 && flag("bf16.bf16_optimizer_states", false)) {
      plan_.text("optimizer.state_dtype", "bfloat16", shown(*states));
    }
    const Setting* said =
        bf16 ? find(find("bf16.enabled") != nullptr ? "bf16.enabled" : "bfloat16.enabled")
             : find("fp16.enabled");
    plan_.text("training.mixed_precision_param", type,
               (bf16 || fp16) && said != nullptr && !is_auto(*said) && precision.empty()
                   ? shown(*said)
                   : "");
    const std::string sums = word(name_of("training.mixed_precision_reduce"));
    const std::string_view reduce = sums == "fp32"   ? "float32"
                                    : sums == "bf16" ? "bfloat16"
                                    : sums == "fp16" ? "float16"
                                                     : type;
    plan_.text("training.mixed_precision_reduce", reduce,
               sums.empty() ? "" : "data_types.grad_accum_dtype = " + sums);
    reduce_bytes_ = reduce == "float32" ? 4 : 2;
    if (!fp16) return ignore_all("fp16.", "which is not enabled");
    if (number("fp16.loss_scale", 0) != 0) {
      plan_.lose("fp16.loss_scale: the scale is found here, from [loss_scale] init_scale on");
    }
    double power = 0;
    if (const Setting* s = number_at(name_of("loss_scale.init_scale"), power)) {
      plan_.number("loss_scale.init_scale", std::exp2(power), shown(*s));
    }
    take_whole("loss_scale.growth_interval");
    take_whole("loss_scale.hysteresis");
    take("loss_scale.min_scale");
  }

  void read_batch() {
    double batch = 0, micro = 0, passes = 0;
    const Setting* all = count_at("train_batch_size", batch);
    const Setting* one = count_at("train_micro_batch_size_per_gpu", micro);
    const Setting* accumulated = count_at("gradient_accumulation_steps", passes);
    if (fault()) return;
    const std::int64_t per_node = PlanWriter::ranks_of_node(options_);
    const auto nodes = static_cast<double>(std::max(1, options_.nodes));
    const std::int64_t tensor = degree("tensor_parallel.autotp_size", "tensor_parallel_degree");
    const std::int64_t sequence = degree("sequence_parallel_size", "context_parallel_degree");
    if (sequence > 1) plan_.text("parallelism.context_parallel_method", "ulysses");
    const std::int64_t divided = product_of({tensor, sequence});
    const bool asked = options_.nodes > 0 || options_.gpus > 0;
    const double gpus = options_.gpus > 0 ? options_.gpus : nodes * static_cast<double>(per_node);
    // Those of data parallelism.
    double ranks = gpus / static_cast<double>(divided);
    if (all != nullptr && one != nullptr && accumulated != nullptr && !asked) {
      ranks = std::max(1.0, std::floor(batch / (micro * passes)));
    } else if (ranks != std::floor(ranks)) {
      return refuse(
          *find(tensor > 1 ? "tensor_parallel.autotp_size" : "sequence_parallel_size"),
          "what divides " + std::to_string(whole_number(gpus)) + " GPUs is expected (--gpus)");
    } else if (options_.gpus == 0) {
      plan_.assume(std::to_string(whole_number(gpus)) + " GPUs, " +
                   (divided == 1 ? "all" : std::to_string(whole_number(ranks))) +
                   " for data parallelism (--gpus, --nodes)");
    }
    // Any two of them say the third.
    if (passes == 0)
      passes = all != nullptr && one != nullptr ? std::floor(batch / (micro * ranks)) : 1;
    passes = std::max(1.0, passes);
    if (micro == 0 && all == nullptr) {
      plan_.assume(
          "1 sequence on a GPU at a time, which the script's argument says "
          "(--arg train_micro_batch_size_per_gpu=N)");
    }
    if (micro == 0)
      micro = all != nullptr ? std::max(1.0, std::floor(batch / (passes * ranks))) : 1;
    if (batch == 0 || batch != micro * passes * ranks) {
      if (all != nullptr) {
        const auto whole = [](double value) { return std::to_string(whole_number(value)); };
        plan_.lose(shown(*all) + ": " + whole(micro) + " x " + whole(passes) + " passes on " +
                   whole(ranks) + " GPUs make " + whole(micro * passes * ranks) + " (--nodes)");
      }
      batch = micro * passes * ranks;
    }
    plan_.set("training.local_batch_size", whole_number(micro), one != nullptr ? shown(*one) : "");
    plan_.set("training.global_batch_size", whole_number(batch),
              all != nullptr           ? shown(*all)
              : accumulated != nullptr ? shown(*accumulated)
                                       : "");
    plan_.number("training.max_norm", 0);
    take("training.max_norm");
    ranks_ = product_of({whole_number(ranks)});
    plan_.take_cluster(options_, product_of({ranks_, divided}), 0);
  }

  /// A degree besides that of data parallelism; 1 if it is not said.
  std::int64_t degree(const char* name, const std::string& key) {
    double value = 1;
    const Setting* setting = count_at(name, value);
    if (setting == nullptr || value < 1) return 1;
    plan_.set("parallelism." + key, whole_number(value), shown(*setting));
    return product_of({whole_number(value)});
  }

  void read_zero() {
    take_whole("parallelism.zero_stage");
    double number_of_stage = 0;
    const Setting* at = number_at(name_of("parallelism.zero_stage"), number_of_stage);
    if (at != nullptr && number_of_stage != 0 && number_of_stage != 1 && number_of_stage != 2 &&
        number_of_stage != 3) {
      return refuse(*at, "0, 1, 2 or 3 is expected");
    }
    const int stage = static_cast<int>(number_of_stage);
    const std::int64_t shard =
        whole_number(stage > 0 ? number(name_of("parallelism.data_parallel_shard_degree"), -1) : 1);
    const bool groups = stage > 0 && shard > 0 && shard < ranks_ && ranks_ % shard == 0;
    plan_.set("parallelism.zero_stage", std::int64_t{stage});
    plan_.take_framework(options_, {.words = "deepspeed", .zero_stage = stage});
    plan_.set("parallelism.data_parallel_shard_degree",
              stage == 0 ? 1
              : groups   ? shard
                         : ranks_,
              groups ? "zero_optimization.mics_shard_size" : "");
    plan_.set("parallelism.data_parallel_replicate_degree", stage == 0 ? ranks_
                                                            : groups   ? ranks_ / shard
                                                                       : 1);
    const Setting* overlap = find(name_of("parallelism.overlap_grad_reduce"));
    // Stages 2 and 3 reduce a bucket as soon as it is full, on whichever stream, and keep a shard.
    const bool beside = flag(name_of("parallelism.overlap_grad_reduce"), stage == 3);
    plan_.flag("parallelism.overlap_grad_reduce", beside || stage >= 2,
               overlap != nullptr && (beside || stage < 2) ? shown(*overlap) : "");
    if (stage >= 2 && !beside) {
      const std::string said = overlap != nullptr
                                   ? shown(*overlap)
                                   : name_of_overlap() + ", which is false unless given";
      plan_.lose(
          said +
          ": buckets are reduced when they are full, as there, and beside the backward pass, "
          "where DeepSpeed waits for them: the step is longer there by these reductions");
    }
    // In elements, where a scenario counts MiB.
    constexpr double kUsualBucket = 5e8;
    double bucket = kUsualBucket;
    const Setting* size = number_at(name_of("parallelism.bucket_cap_mb"), bucket);
    if (const auto width = auto_width(name_of("parallelism.bucket_cap_mb"))) {
      bucket = static_cast<double>(*width) * static_cast<double>(*width);
    }
    plan_.number("parallelism.bucket_cap_mb", bucket * reduce_bytes_ / (1 << 20),
                 size != nullptr ? shown(*size) : "");
    if (stage == 3) {
      double threshold = 1e5;
      const Setting* s = number_at(name_of("parallelism.fsdp_persistence_threshold"), threshold);
      plan_.set("parallelism.fsdp_persistence_threshold", whole_number(threshold),
                s != nullptr ? shown(*s) : "");
      if (const auto width = auto_width(name_of("parallelism.fsdp_persistence_threshold"))) {
        plan_.set("parallelism.fsdp_persistence_threshold", 10 * *width);
      } else if (s == nullptr) {
        plan_.assume("DeepSpeed's threshold of persistence, 100,000 parameters");
      }
      if (const Setting* group = find("zero_optimization.sub_group_size"); group != nullptr) {
        plan_.lose(shown(*group) +
                   ": at the update the gradients of so many parameters, or of all of a shard, are "
                   "there in float32, too; these bytes are not simulated");
      }
      auto_width("zero_optimization.stage3_prefetch_bucket_size");
      take_whole("parallelism.fsdp_reshard_degree");
      read_codes();
    } else {
      for (const char* name : {"stage3_param_persistence_threshold", "stage3_max_live_parameters",
                               "stage3_max_reuse_distance", "stage3_prefetch_bucket_size"}) {
        const std::string full = std::string("zero_optimization.") + name;
        if (const Setting* s = find(full)) plan_.ignore(s->name + ", which is for stage 3");
      }
    }
    read_offload(stage);
    if (flag("zero_optimization.reduce_scatter", true) == false && stage > 0) {
      plan_.lose("zero_optimization.reduce_scatter = false: gradients are scattered here");
    }
    for (const char* name : {"allgather_partitions", "allgather_bucket_size"}) {
      const std::string full = std::string("zero_optimization.") + name;
      if (find(full) != nullptr) {
        plan_.ignore(full + ": parameters are gathered unit by unit");
      }
    }
  }

  std::string name_of_overlap() const {
    return std::string(name_of("parallelism.overlap_grad_reduce"));
  }

  /// The model's width, if a setting is "auto", for which Hugging Face's Trainer puts in the square
  /// of it, 0.9 times the square, or 10 times it.
  std::optional<std::int64_t> auto_width(std::string_view name) {
    const Setting* setting = find(name);
    if (setting == nullptr || !is_auto(*setting)) return std::nullopt;
    const std::int64_t width = PlanWriter::hidden_of(options_);
    if (width == 0) return std::nullopt;
    plan_.assume(shown(*setting) + ": from the model's width of " + std::to_string(width) +
                 ", as Hugging Face's Trainer does");
    return width;
  }

  /// ZeRO++: what is sent in fewer bits.
  void read_codes() {
    for (const char* key :
         {"parallelism.zero_quantized_weights", "parallelism.zero_quantized_gradients"}) {
      if (!flag(name_of(key), false)) continue;
      plan_.flag(key, true, std::string(name_of(key)));
      if (std::string_view(key).ends_with("gradients")) {
        plan_.assume(
            "gradients exchanged in 4 bits between all shards at once; DeepSpeed exchanges "
            "inside a node first (zero_quantized_gradients_inner_degree)");
      } else {
        plan_.assume(
            "blocks of 2048 elements that share a scale, where DeepSpeed chooses them by "
            "the size of a tensor");
      }
    }
  }

  void read_offload(int stage) {
    const std::string optimizer = word("zero_optimization.offload_optimizer.device");
    const std::string parameters = word("zero_optimization.offload_param.device");
    const bool old = flag("zero_optimization.cpu_offload", false);
    const bool old_parameters = flag("zero_optimization.cpu_offload_params", false);
    const auto is_offloaded = [](const std::string& device) {
      return device == "cpu" || device == "nvme";
    };
    if (stage == 3 && (is_offloaded(parameters) || old_parameters)) {
      plan_.text("parallelism.offload", "parameters",
                 "zero_optimization.offload_param.device = \"" + parameters + "\"");
    } else if (stage > 0 && (is_offloaded(optimizer) || old)) {
      plan_.text("parallelism.offload", "optimizer",
                 old ? "zero_optimization.cpu_offload = true"
                     : "zero_optimization.offload_optimizer.device = \"" + optimizer + "\"");
    }
    if (stage == 0) return;
    if (optimizer == "nvme") read_swapping("optimizer");
    if (stage == 3 && parameters == "nvme") read_swapping("param");
  }

  /// What lies on drives: "optimizer" or "param".
  void read_swapping(const std::string& what) {
    const std::string part = "zero_optimization.offload_" + what + ".";
    plan_.text("parallelism.offload_" + what + "_device", "nvme", part + "device = \"nvme\"");
    const std::string folder = word(part + "nvme_path");
    if (!folder.empty()) {
      plan_.text("parallelism.offload_nvme_path", folder, part + "nvme_path = \"" + folder + "\"");
    }
    if (what != "optimizer") return;
    const bool reads = flag(part + "pipeline_read", false);
    const bool writes = flag(part + "pipeline_write", false);
    plan_.set("parallelism.offload_pipeline_read", reads ? "true" : "false",
              part + "pipeline_read");
    plan_.set("parallelism.offload_pipeline_write", writes ? "true" : "false",
              part + "pipeline_write");
    constexpr double kBuffers = 4;  // DeepSpeed's default
    const OptimizerRow* const optimizer = find_optimizer(word(name_of("optimizer.name")));
    const int tensors = (optimizer != nullptr ? *optimizer : OptimizerRow{}).swapped_tensors;
    const std::int64_t units = whole_number(number(part + "buffer_count", kBuffers)) / tensors;
    const std::int64_t least = 1 + (reads ? 1 : 0) + (writes ? 1 : 0);
    if (units < least) {
      plan_.lose(part + "buffer_count has " + std::to_string(units) + " times the " +
                 std::to_string(tensors) +
                 " tensors of a parameter, and reading and writing beside "
                 "the update needs " +
                 std::to_string(least) + " times as many: so many are here");
    } else {
      plan_.set("parallelism.offload_buffer_count", units, part + "buffer_count");
    }
  }

  /// torch.optim.Adafactor, which DeepSpeed finds by its name.
  void read_adafactor() {
    plan_.flag("optimizer.relative_step", true, "torch.optim.Adafactor");
    take("optimizer.decay_rate");
    take("optimizer.clip_threshold");
    const Setting* const eps = find(name_of("optimizer.eps"));
    if (eps != nullptr && is_pair(*eps)) {
      for (const auto& [key, i] :
           {std::pair("optimizer.eps_square", 0U), {"optimizer.eps_scale", 1U}}) {
        if (eps->value[i].is_number()) plan_.number(key, eps->value[i].get<double>(), shown(*eps));
      }
    }
    plan_.lose(
        "optimizer.type = \"Adafactor\": torch.optim's decays by the learning rate alone, and ZeRO "
        "gives it flat shards, of which it keeps a moment of every element");
  }

  void read_optimizer() {
    const std::string type = word(name_of("optimizer.name"));
    if (type.empty()) {
      plan_.assume("AdamW: the optimizer is the script's");
      return;
    }
    const OptimizerRow* const found = find_optimizer(type);
    // Its Adam decouples weight decay unless it is told otherwise.
    const bool coupled = found != nullptr && found->kind == OptimizerKind::Adam &&
                         !flag("optimizer.params.adam_w_mode", true);
    const bool other = found == nullptr || (found->kind == OptimizerKind::Adam && !coupled);
    const OptimizerRow& row = other ? info(OptimizerKind::AdamW) : *found;
    const bool muon = row.kind == OptimizerKind::Muon;
    const bool factored = row.kind == OptimizerKind::Adafactor;
    plan_.text("optimizer.name", std::string(row.name), "optimizer.type = \"" + type + "\"");
    if (found == nullptr) plan_.lose("optimizer.type = \"" + type + "\": AdamW is here");
    plan_.number("optimizer.lr", factored ? 1e-2 : 1e-3);
    plan_.number("optimizer.weight_decay", 0);
    take("optimizer.lr");
    take("optimizer.weight_decay");
    if (factored) return read_adafactor();
    if (muon) {
      plan_.number("optimizer.momentum", 0.95);
      take("optimizer.muon_lr");
      double others = 0;
      if (const Setting* s = number_at("optimizer.params.adam_lr", others)) {
        plan_.number("optimizer.lr", others, shown(*s));
      }
    }
    if (row.reads("momentum")) take("optimizer.momentum");
    if (row.reads("eps")) take("optimizer.eps");
    if (!row.reads("beta1")) return;
    const Setting* betas = find(name_of("optimizer.beta1"));
    const bool pair = betas != nullptr && is_pair(*betas);
    const auto beta = [&](std::size_t i, double otherwise) {
      return pair && betas->value[i].is_number() ? betas->value[i].get<double>() : otherwise;
    };
    plan_.number("optimizer.beta1", beta(0, 0.9), pair ? shown(*betas) : "");
    plan_.number("optimizer.beta2", beta(1, 0.999), pair ? shown(*betas) : "");
  }

  void read_schedule() {
    const std::string type = word(name_of("lr_scheduler.decay_type"));
    if (type.empty()) return;
    take_whole("lr_scheduler.warmup_steps");
    double steps = 0;
    if (const Setting* s = number_at("scheduler.params.total_num_steps", steps)) {
      plan_.set("training.steps", whole_number(steps), shown(*s));
    }
    if (number("scheduler.params.warmup_min_lr", 0) != 0) {
      plan_.lose("scheduler.params.warmup_min_lr: the warm-up begins at lr / warmup_steps here");
    }
    double highest = 0;
    if (const Setting* s = number_at("scheduler.params.warmup_max_lr", highest)) {
      plan_.number("optimizer.lr", highest, shown(*s));
    }
    if (word("scheduler.params.warmup_type") != "linear") {
      plan_.lose(
          "scheduler.params.warmup_type: DeepSpeed's default is logarithmic, and here it is "
          "linear");
    }
    const bool cosine = type == "WarmupCosineLR";
    if (cosine || type == "WarmupDecayLR") {
      plan_.text("lr_scheduler.decay_type", cosine ? "cosine" : "linear",
                 "scheduler.type = \"" + type + "\"");
      plan_.number("lr_scheduler.decay_ratio", 1);
      if (cosine) take("lr_scheduler.min_lr_factor");
    } else if (type != "WarmupLR") {
      plan_.lose("scheduler.type = \"" + type + "\": the learning rate stays as it is here");
    }
  }

  const PlanOptions& options_;
  std::int64_t ranks_ = 1;
  double reduce_bytes_ = 4;
};

}  // namespace

Result<PlanImport> from_deepspeed(std::string_view text, const std::string& file,
                                  const PlanOptions& options) {
  const Result<JsonSettings> config = read_json_settings(text, file);
  if (!config) return config.error();
  JsonSettings settings = *config;
  for (const auto& [name, value] : options.arguments) {
    const Json given = Json::parse(value, nullptr, false);
    Json* at = &settings.values;
    for (std::size_t begin = 0, dot = 0; dot != std::string::npos; begin = dot + 1) {
      dot = name.find('.', begin);
      if (!at->is_object()) *at = Json::object();
      at = &(*at)[name.substr(begin, dot == std::string::npos ? dot : dot - begin)];
    }
    *at = given.is_discarded() ? Json(value) : given;
    settings.places.try_emplace(name, SourceSpan{file, 1, 1});
  }
  return DeepSpeedReader(settings, options).read(file);
}

}  // namespace lockstep
