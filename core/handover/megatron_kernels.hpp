// Megatron's kernels: arguments that choose how the same is computed, and what [framework] calls
// it. Read by the import and by the export. Internal to core/handover.
#pragma once

#include <string_view>

#include "core/cluster/framework.hpp"

namespace lockstep {

struct MegatronKernelFlag {
  std::string_view argument;
  std::string_view key;  // of [framework]
  bool FrameworkSpec::*member;
  bool value;  // with the argument
};

/// Megatron-LM, megatron/training/arguments.py: what is fused unless told otherwise.
inline constexpr MegatronKernelFlag kMegatronKernelFlags[] = {
    {"no-masked-softmax-fusion", "fused_softmax", &FrameworkSpec::fused_softmax, false},
    {"no-bias-gelu-fusion", "fused_activation", &FrameworkSpec::fused_activation, false},
    {"no-bias-swiglu-fusion", "fused_activation", &FrameworkSpec::fused_activation, false},
    {"no-bias-dropout-fusion", "fused_residual", &FrameworkSpec::fused_residual, false},
    {"no-gradient-accumulation-fusion", "fused_gradient_accumulation",
     &FrameworkSpec::fused_gradient_accumulation, false},
    {"no-scatter-gather-tensors-in-pipeline", "scatters_messages",
     &FrameworkSpec::scatters_messages, false}};

struct MegatronAttention {
  std::string_view backend;  // the value of --attention-backend
  std::string_view name;     // of [framework] attention
  AttentionKernel kernel;
};
inline constexpr MegatronAttention kMegatronAttention[] = {
    {"flash", "flash2", AttentionKernel::Flash2},
    {"fused", "cudnn", AttentionKernel::Cudnn},
    {"unfused", "unfused", AttentionKernel::Unfused},
    {"local", "unfused", AttentionKernel::Unfused}};

}  // namespace lockstep
