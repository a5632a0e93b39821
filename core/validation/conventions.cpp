#include "core/validation/conventions.hpp"

#include <array>

namespace lockstep {
namespace {

using enum DataParallelOverlap;
using enum FlopConvention;
using enum GradientType;
using enum MeasuredMemory;

// The columns are prefix, TFLOP/s, overlap, distributed optimizer, sequence parallel, type of
// gradients, framework and memory.
constexpr std::array kConventions = {
    SourceConvention{"", Model, Gradients},
    // Megatron-LM until 2022: gradients are reduced after the backward pass, and summed up in
    // float32 only with bfloat16 (arguments.py, accumulate_allreduce_grads_in_fp32).
    SourceConvention{"sc21", Narayanan, None, false, false, AsFloat16, "megatron-2021"},
    SourceConvention{"kor22", Narayanan, None, false, false, Float32, "megatron-2023"},
    // Its README of 2020 trains large models with --DDP-impl torch, which overlaps. Without overlap
    // the gradients of 8.7B on 128 replicas would add 0.2 s on the wire alone; 0.04 s were
    // measured.
    SourceConvention{"mlm2020", Narayanan, Gradients, false, false, AsFloat16, "megatron-2020"},
    SourceConvention{"mtnlg", Narayanan, None, false, false, AsFloat16, "megatron-2021"},
    // Its scripts train in fp16 without --accumulate-allreduce-grads-in-fp32; its runtime prints
    // max_memory_allocated() // 1000000 (sail-sg/zero-bubble-pipeline-parallelism). vocabpp is of
    // the same group, and its memory is 16 bytes a parameter at every vocabulary.
    SourceConvention{"zb", Narayanan, None, false, false, AsFloat16, "megatron-2023",
                     AllocatedDecimal},
    SourceConvention{"vocabpp", Model, None, false, false, AsFloat16, "megatron-2024"},
    // Megatron-DeepSpeed in float16 (data/README.md, src/predictor.py), without overlap (configs);
    // its Dockerfile has PyTorch 2.0.
    SourceConvention{"vtrain", Narayanan, None, false, false, AsParameters, "deepspeed-2022"},
    // DeepSpeed's ZeRO-3 of the same table gathers and reduces in the type of the parameters.
    SourceConvention{"sc21-t2", Narayanan, Gradients, false, false, AsParameters, "deepspeed-2021"},
    // Megatron-DeepSpeed: its pipeline engine reduces after the last microbatch; "fp16 grad
    // accumulates in fp16", and memory is read with nvidia-smi (chronicles-prequel.md).
    SourceConvention{"bloom", Narayanan, None, false, false, AsFloat16, "bigscience-2022", Process},
    SourceConvention{"tr3m", ParametersOnly, None, true, false, AsFloat16, "deepspeed-2021",
                     Process},  // its script has ZERO_STAGE=1
    // NeMo and Megatron Core since 2023: distributed optimizer, sequence parallelism with TP, both
    // overlaps. NeMo's recipes have grad_sync_dtype: bf16, later grad_reduce_in_fp32 = False;
    // Megatron's example for Llama has --grad-reduce-in-bf16.
    SourceConvention{"dgxc", Model, GradientsAndParameters, true, true, AsParameters,
                     "megatron-core"},
    SourceConvention{"nemo2407", Model, GradientsAndParameters, true, true, AsParameters,
                     "megatron-core"},
    SourceConvention{"mlm-llama", Model, GradientsAndParameters, true, true, AsParameters,
                     "megatron-core"},
    SourceConvention{"mbridge", CausalModel, GradientsAndParameters, true, true, Float32,
                     "megatron-core"},
    SourceConvention{"mlm-golden", Model, GradientsAndParameters, true, false, Float32,
                     "megatron-tests"},  // its YAML
    SourceConvention{"megascale", Model, GradientsAndParameters, true, true, Float32,
                     "megatron-core"},
    // SimuMax ran Megatron Core with every overlap off.
    SourceConvention{"simumax", Model, None, true, true, Float32, "megatron-core"},
    // llm-foundry of 2023: Composer's mixed precision DEFAULT and PURE reduce in autocast's type.
    SourceConvention{"mosaic", Model, Gradients, false, false, AsParameters, "llm-foundry"},
    SourceConvention{"nanotron", Model, Gradients, false, false, Float32, "nanotron"},
    SourceConvention{"torchtitan", Model, Gradients, false, false, Float32, "torchtitan"},
    // llm.c adds gradients up in bfloat16.
    SourceConvention{"llmc", Model, Gradients, false, false, AsParameters, "llm.c"},
};

}  // namespace

const SourceConvention& convention_of(const TrainingRow& row) {
  const std::string group = row.group();
  const SourceConvention* best = kConventions.data();
  for (const SourceConvention& c : kConventions) {
    if (group.starts_with(c.prefix) && c.prefix.size() > best->prefix.size()) best = &c;
  }
  return *best;
}

bool sums_in_16_bits(const TrainingRow& row) {
  const GradientType type = convention_of(row).gradients;
  return type == AsParameters ||
         (type == AsFloat16 && row.precision.find("fp16") != std::string::npos);
}

long vocabulary(const TrainingRow& row) {
  const std::string_view framework = convention_of(row).framework;
  const bool pads = framework.starts_with("megatron") || framework.starts_with("deepspeed") ||
                    framework.starts_with("bigscience");
  if (row.vocab && !pads) return *row.vocab;
  const bool bloom = row.notes.find("250k") != std::string::npos;
  const long words = row.vocab.value_or(bloom ? 250680 : 50257);
  const long multiple = 128 * row.tp.value_or(1);
  return (words + multiple - 1) / multiple * multiple;
}

std::optional<double> counted_flops(const TrainingRow& row, FlopConvention convention) {
  if (!row.seq || !row.global_batch_seqs) return std::nullopt;
  const auto s = static_cast<double>(*row.seq);
  const double tokens = s * static_cast<double>(*row.global_batch_seqs);
  if (convention == FlopConvention::ParametersOnly) {
    if (!row.params_b) return std::nullopt;
    return (row.recompute == "full" ? 8 : 6) * *row.params_b * 1e9 * tokens;
  }
  if (!row.layers || !row.hidden) return std::nullopt;
  const auto l = static_cast<double>(*row.layers), h = static_cast<double>(*row.hidden);
  const auto v = static_cast<double>(vocabulary(row));
  if (convention == FlopConvention::Narayanan) {
    return 96 * tokens * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  }
  const bool llama = is_llama(row);
  const double groups = row.kv_heads && row.heads
                            ? static_cast<double>(*row.kv_heads) / static_cast<double>(*row.heads)
                            : 1;
  const double f = row.ffn_hidden ? static_cast<double>(*row.ffn_hidden) : 4 * h;
  const double products = l * (h * h * (2 + 2 * groups) + (llama ? 3 : 2) * h * f) + v * h;
  const double seen = convention == FlopConvention::CausalModel ? 6 : 12;
  return tokens * (6 * products + seen * l * h * s);
}

std::optional<double> measured_step_time(const TrainingRow& row) {
  if (row.iter_time_s) return row.iter_time_s;
  if (!row.gpus) return std::nullopt;
  const auto gpus = static_cast<double>(*row.gpus);
  if (row.tokens_per_s_per_gpu && row.seq && row.global_batch_seqs) {
    return static_cast<double>(*row.seq * *row.global_batch_seqs) /
           (gpus * *row.tokens_per_s_per_gpu);
  }
  if (!row.tflops_per_gpu) return std::nullopt;
  const auto flops = counted_flops(row, convention_of(row).flops);
  if (!flops) return std::nullopt;
  return *flops / (gpus * *row.tflops_per_gpu * 1e12);
}

}  // namespace lockstep
