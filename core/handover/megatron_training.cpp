#include <algorithm>
#include <sstream>

#include "core/handover/megatron_kernels.hpp"
#include "core/handover/megatron_reader.hpp"
#include "core/spec/activation_checkpoint.hpp"

namespace lockstep {

void MegatronReader::read_training() {
  if (options_.seq_len > 0) plan_.set("training.seq_len", options_.seq_len);
  word("seq-length");
  if (options_.seq_len == 0 && (given("seq-length") || options_.model.empty())) {
    take("training.seq_len", 1024);
  }
  const std::int64_t micro = integer("micro-batch-size", 1);
  const std::int64_t batch = integer("global-batch-size", product_of({micro, replicas_}));
  const std::int64_t microbatches =
      std::max<std::int64_t>(1, batch / product_of({micro, replicas_}));
  check_groups(microbatches);
  // In a pipeline all microbatches of a step are in one flush.
  plan_.set("training.local_batch_size", pipelined_ ? product_of({micro, microbatches}) : micro,
            from_if_given("micro-batch-size"));
  plan_.set("parallelism.pipeline_parallel_microbatches", pipelined_ ? microbatches : 1);
  plan_.set("training.global_batch_size", batch, from_if_given("global-batch-size"));
  for (const char* ramp : {"rampup-batch-size", "step-batch-size-schedule"}) {
    if (given(ramp)) {
      word(ramp);
      plan_.lose(from(ramp) + ": a step has the same batch from the first to the last");
    }
  }
  if (given("train-iters")) {
    take("training.steps", 10);
  } else if (const auto samples = number("train-samples")) {
    plan_.set("training.steps",
              std::max<std::int64_t>(1, whole_number(*samples) / std::max<std::int64_t>(1, batch)),
              from("train-samples"));
  }
  take("training.seed", 1234);
  for (const char* name : {"reset-attention-mask", "reset-position-ids", "eod-mask-loss"}) {
    if (!flag(name)) continue;
    plan_.lose(from(name) + ": which token ends a document, and how long documents are, is not " +
               "said here: give " + std::string(key_for(Trainer::Megatron, name)) +
               " with eod_token and mean_document_length");
  }
  take_real("training.max_norm", 1);
  bool bf16 = flag("bf16"), fp16 = flag("fp16");
  if (!options_.dtype.empty()) {
    bf16 = options_.dtype == "bfloat16";
    fp16 = options_.dtype == "float16";
  }
  plan_.text("training.dtype", "float32");
  plan_.text("training.mixed_precision_param",
             bf16   ? "bfloat16"
             : fp16 ? "float16"
                    : "float32",
             bf16   ? from_if_given("bf16")
             : fp16 ? from_if_given("fp16")
                    : "");
  // Megatron sums bfloat16's gradients in float32 unless it is told otherwise.
  const bool narrow = flag("grad-reduce-in-bf16");
  const bool wide = flag("accumulate-allreduce-grads-in-fp32") || (bf16 && !narrow);
  plan_.text("training.mixed_precision_reduce",
             wide   ? "float32"
             : bf16 ? "bfloat16"
             : fp16 ? "float16"
                    : "float32",
             narrow ? from("grad-reduce-in-bf16") : "");
  if (fp16) {
    if (given("initial-loss-scale")) take_real("loss_scale.init_scale", 1);
    if (given("loss-scale-window")) take("loss_scale.growth_interval", 1);
    if (given("hysteresis")) take("loss_scale.hysteresis", 1);
    if (given("min-loss-scale")) take_real("loss_scale.min_scale", 1);
  }
  if (given("fp8-format")) read_fp8();
  if (flag("tp-comm-overlap")) read_overlap();
}

void MegatronReader::read_overlap() {
  if (!divides_rows_) return plan_.ignore("tp-comm-overlap");
  if (one_scale_) {
    return plan_.lose(from("tp-comm-overlap") +
                      ": beside products in 8 bits with one scale of a tensor nothing is "
                      "gathered in parts here; [framework] overlaps_products = true simulates "
                      "that it is");
  }
  // Transformer Engine has 4 splits where no file says otherwise.
  plan_.set("parallelism.tensor_parallel_chunks", std::int64_t{4}, from("tp-comm-overlap"));
}

void MegatronReader::read_fp8() {
  const std::string format = word("fp8-format"), given_recipe = word("fp8-recipe");
  const std::string recipe = given_recipe.empty() ? "delayed" : given_recipe;  // Megatron's default
  const bool blocks = recipe == "blockwise" || recipe == "mxfp8";
  // Rows of each expert are always padded to blocks here.
  const std::string padding = "moe-router-padding-for-fp8";
  if (given(padding)) flag(padding);
  if (given("num-experts") && !blocks && recipe != "delayed") {
    plan_.lose(from("fp8-format") + ", recipe " + recipe +
               ": experts multiply in 8 bits with scales of blocks, or of earlier steps; simulate "
               "others with [framework] fp8 = \"current\"");
  } else {
    one_scale_ = !blocks;
    plan_.text("training.fp8", format, from("fp8-format"));
    plan_.text("training.fp8_recipe", recipe, from_if_given("fp8-recipe"));
    if (recipe == "delayed") {
      take("training.fp8_amax_history_len", 1);
      const std::string algo = word("fp8-amax-compute-algo");
      plan_.text("training.fp8_amax_compute_algo", algo.empty() ? "most_recent" : algo,
                 from_if_given("fp8-amax-compute-algo"));
      take("training.fp8_margin", 0);
    }
    if (flag("first-last-layers-bf16")) {
      take("training.num_layers_at_start_in_bf16", 1);
      take("training.num_layers_at_end_in_bf16", 1);
    }
    if (flag("fp8-param-gather")) {
      plan_.lose(from("fp8-param-gather") +
                 ": parameters are kept in 8 bits, but gathered in their own type");
    }
  }
  know_all("fp8-");
}

void MegatronReader::read_recomputation() {
  // Before 2022 its arguments had other names, which mean whole blocks.
  const bool flagged = flag("checkpoint-activations");
  const bool old = flagged || given("activations-checkpoint-method");
  const std::string method = old ? "activations-checkpoint-method" : "recompute-method";
  const std::string count = flagged ? "checkpoint-num-layers"
                            : old   ? "activations-checkpoint-num-layers"
                                    : "recompute-num-layers";
  const std::string how = old ? "full" : word("recompute-granularity");
  const bool selective = flag("recompute-activations") || how == "selective";
  if (how == "full") {
    plan_.text("activation_checkpoint.mode", "full",
               from(flagged ? "checkpoint-activations"
                    : old   ? method
                            : "recompute-granularity"));
    const bool by_block = word(method) == "block";
    const auto layers = number(count);
    if (layers && by_block) {  // so many blocks of every virtual stage, from its first one on
      std::string list;
      for (std::int64_t stage = 0; stage < stages_; ++stage) {
        list += (stage == 0 ? "[" : ", ") + std::to_string(whole_number(*layers));
      }
      plan_.set("activation_checkpoint.recomputed_layers_per_stage", list + "]", from(count));
    } else if (layers && *layers != 1) {
      plan_.lose(from(count) + ": every block recomputes itself here");
    }
    return;
  }
  if (!selective) return;
  plan_.text("activation_checkpoint.mode", "selective",
             how.empty() ? from("recompute-activations") : from("recompute-granularity"));
  std::string what = given("recompute-modules") ? words("recompute-modules") : "";
  std::erase_if(what, [](char c) { return c == '[' || c == ']' || c == ','; });  // YAML's list
  word("recompute-modules");
  std::string option;
  std::istringstream modules(what);
  for (std::string module; modules >> module;) {
    const RecomputePolicy* policy = find_recompute_policy(module);
    if (policy != nullptr && policy->is_module) {
      option += (option.empty() ? "" : ",") + module;
    } else {
      plan_.lose("--recompute-modules " + module + ": such a module is not here");
    }
  }
  plan_.text("activation_checkpoint.selective_ac_option", option.empty() ? "core_attn" : option,
             what.empty() ? "" : from("recompute-modules"));
}

/// Scripts with names that it has had since 2023 at the latest are of today, Megatron Core's.
void MegatronReader::read_kernels() {
  const bool old = given("DDP-impl") || given("checkpoint-activations");
  const char* words = is_deepspeed() ? "megatron-deepspeed"
                      : old          ? "megatron 2021"
                                     : "megatron-core";
  if (!plan_.take_framework(options_, {.words = words})) return;
  for (const MegatronKernelFlag& row : kMegatronKernelFlags) {
    const std::string name(row.argument);
    const bool other = name == (llama_ ? "no-bias-gelu-fusion" : "no-bias-swiglu-fusion");
    if (!flag(name)) continue;
    if (other) {
      plan_.ignore("--" + name);
    } else {
      plan_.flag("framework." + std::string(row.key), row.value, from(name));
    }
  }
  const std::string backend = word("attention-backend");
  const bool flash = flag("use-flash-attn");
  const auto kernel = std::find_if(std::begin(kMegatronAttention), std::end(kMegatronAttention),
                                   [&](const auto& row) { return row.backend == backend; });
  if (kernel != std::end(kMegatronAttention)) {
    plan_.text("framework.attention", kernel->name, from("attention-backend"));
  } else if (flash) {
    plan_.text("framework.attention", "flash2", from("use-flash-attn"));
  }
  plan_.flag("framework.attention_dropout", false);  // training.attention_dropout says it
  if (divides_rows_ && !given("tp-comm-overlap")) {
    plan_.flag("framework.overlaps_products", false);
  }
  plan_.flag("framework.fp8_parameters", given("fp8-param-gather"));
}

}  // namespace lockstep
