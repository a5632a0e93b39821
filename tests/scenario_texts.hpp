// Scenario texts that tests of several folders share.
#pragma once

#include <string>

namespace lockstep::test {

/// A pipeline of given times: 4 stages, 8 microbatches, forward 1 s, backward 2 s: 33 s.
inline const std::string kSynthetic = R"([model]
preset = "synthetic"
[parallelism]
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatches = 8
[costs]
forward = 1.0
backward_input = 1.0
backward_weight = 1.0
p2p = 0.0
)";

/// A transformer small enough to train in a test.
inline const std::string kTinyModel = R"([model]
preset = "gpt2-tiny"
layers = 2
hidden = 16
heads = 2
ffn_hidden = 32
)";

/// It is trained in 2 pipeline stages of 2 replicas.
inline const std::string kTiny = kTinyModel + R"([training]
local_batch_size = 2
seq_len = 8
steps = 6
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 2
data_parallel_replicate_degree = 2
[checkpoint]
interval = 3
)";

}  // namespace lockstep::test
