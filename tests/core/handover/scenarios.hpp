// Scenarios that tests of both directions of core/handover share.
#pragma once

#include <string>

namespace lockstep {

/// Llama 3 70B on 64 GPUs: 8 tensor-parallel × 4 stages of 2 chunks × 2 replicas, sharded states.
inline const std::string k70b = R"([model]
preset = "llama3-70b"
[training]
seq_len = 4096
local_batch_size = 16
global_batch_size = 32
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
steps = 500
[optimizer]
lr = 3e-4
weight_decay_on = "matrices"
[lr_scheduler]
warmup_steps = 20
decay_ratio = 1.0
decay_type = "cosine"
min_lr_factor = 0.1
[parallelism]
tensor_parallel_degree = 8
enable_sequence_parallel = true
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_virtual_stages = 2
pipeline_parallel_microbatches = 16
data_parallel_shard_degree = 2
zero_stage = 1
[activation_checkpoint]
mode = "full"
[cluster]
preset = "h100"
nodes = 8
)";

}  // namespace lockstep
