// Torchtitan names: what settings and models of torchtitan were called before version 0.2.1, and
// the models whose sizes a preset has. Internal to core/handover.
#pragma once

#include <string_view>

namespace lockstep {

struct OldName {
  std::string_view old, now;
};

/// Names of 2024 and of the first half of 2025 (its config_manager.py), which mean the same.
inline constexpr OldName kOldNames[] = {
    {"training.batch_size", "training.local_batch_size"},
    {"training.warmup_steps", "lr_scheduler.warmup_steps"},
    {"training.compile", "compile.enable"},
    {"training.data_parallel_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"},
    {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"training.sequence_parallel_degree", "parallelism.tensor_parallel_degree"},
    {"training.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
    {"training.fsdp_reshard_after_forward", "parallelism.fsdp_reshard_after_forward"},
    {"training.disable_loss_parallel", "parallelism.disable_loss_parallel"},
    {"training.enable_loss_parallel", "parallelism.disable_loss_parallel"},
    {"training.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
    {"experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
    {"experimental.context_parallel_degree", "parallelism.context_parallel_degree"},
    {"experimental.context_parallel_rotate_method", "parallelism.context_parallel_rotate_method"},
    {"experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
    {"experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"},
    {"experimental.pipeline_parallel_schedule_csv", "parallelism.pipeline_parallel_schedule_csv"},
    {"experimental.pipeline_parallel_split_points", "parallelism.pipeline_parallel_split_points"},
    {"experimental.pipeline_parallel_microbatches", "parallelism.pipeline_parallel_microbatches"},
    {"checkpoint.enable_checkpoint", "checkpoint.enable"},
    {"validation.enabled", "validation.enable"},
    {"lr_scheduler.lr_min", "lr_scheduler.min_lr_factor"},
    {"optimizer.fused", "optimizer.implementation"},
    {"training.fp8_linear", "float8.enable_float8_linear"},
    {"training.seed", "debug.seed"},
    {"training.deterministic", "debug.deterministic"},
};

/// A flavor that is imported and not exported: its family is of another version of torchtitan, or
/// is trained there in ways that `differs` says.
struct PresetFlavor {
  std::string_view family, name, preset, differs;
};

inline constexpr std::string_view kBalanced =
    "its experts are balanced by biases alone (load_balance_coeff), here as the preset says";

inline constexpr PresetFlavor kPresetFlavors[] = {
    {"llama2", "7B", "llama2-7b", ""},
    {"llama2", "13B", "llama2-13b", ""},
    {"llama2", "70B", "llama2-70b", ""},
    {"deepseek_v3", "16B", "deepseek-v2-lite", kBalanced},
    {"deepseek_v3", "236B", "deepseek-v2", kBalanced},
    {"deepseek_v3", "671B", "deepseek-v3", ""},
};

}  // namespace lockstep
