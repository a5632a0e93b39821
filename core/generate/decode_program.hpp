// Decode program: how a trained transformer continues a sequence. It is a program like any other,
// for one rank, made of the same layers as the training's: their forward passes as they are under
// context parallelism, where queries meet keys that lie apart from them. Here these keys are a
// cache of what came before, to which every pass adds its own.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

struct DecodeProgram {
  /// A range of the rank's ops that takes `tokens` tokens of one sequence, or fewer, and gives
  /// their logits. The first three ops copy from the host: ids [tokens], positions [tokens] and
  /// starts (see attention_forward; in pieces of tokens / 2); the last copies logits [tokens,
  /// vocab] to it. Id and position of a token that is not there are -1.
  struct Pass {
    std::int64_t tokens = 0;
    OpId first, last;
  };
  Program program;
  std::vector<Pass> passes;   // as they were asked for
  std::int64_t capacity = 0;  // tokens of a sequence
  std::int64_t vocab = 0;
  std::int64_t window = 0;       // ModelSpec::sliding_window
  std::vector<BufferId> caches;  // [capacity, 2 kv_heads head_dim] of every block
};

/// `sizes` are those of the passes: even numbers that divide `capacity` and are less. Everything is
/// computed in `dtype`. Error Unsupported for a model that is no transformer.
Result<DecodeProgram> make_decode_program(const ModelSpec& spec, DType dtype, std::int64_t capacity,
                                          const std::vector<std::int64_t>& sizes);

}  // namespace lockstep
