// Products in 8 bits: models that have them, and sizes whose blocks lie on one rank each. A block
// that two ranks shared would have other elements in another layout, so another scale, and training
// would no longer be that of one rank.
#include <algorithm>
#include <utility>

#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

void validate_where(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  if (m.architecture == Architecture::Synthetic || m.has_batch_norm()) {
    faults.refuse(
        "training.fp8",
        "fp8 is for the linear layers of transformer blocks, which this model does not have: leave "
        "it out");
  } else if (m.experts > 0 && s.training.fp8_recipe == Fp8Scaling::Tensorwise) {
    faults.refuse(
        "training.fp8",
        "experts multiply in 8 bits with scales of blocks, or of earlier steps: one scale for the "
        "rows that all experts have at hand would be that of other tokens in another layout; give "
        "fp8_recipe=blockwise, mxfp8 or delayed, or simulate it with [framework] fp8");
  } else if (m.experts > 0 && m.has_biases()) {
    faults.refuse(
        "training.fp8",
        "fp8 is not built for experts with biases, which Megatron-LM's grouped products do not "
        "have either: leave fp8 out, or take architecture = \"llama\"");
  } else if (s.kv_replicas() > 1) {
    faults.refuse(
        "training.fp8",
        "fp8 is refused where tensor-parallel ranks share key and value heads (" +
            std::to_string(m.kv_heads) + " on " +
            std::to_string(s.strategy.tensor_parallel_degree) +
            " ranks): each has a term of their gradient, and terms that are rounded do not add up "
            "to the rounded sum; give tensor_parallel_degree=" +
            std::to_string(m.kv_heads) + " at most");
  }
  const FrameworkSpec& framework = s.cluster.framework;
  if (framework.fp8 != Fp8Recipe::None || framework.fp4 != Fp4Recipe::None) {
    faults.refuse(
        "training.fp8",
        "fp8 makes the program's own products 8 bits wide, and [framework] fp8 or fp4 would "
        "charge products of 16 bits as if they were: give one of the two");
  }
}

/// Scales that follow from earlier steps: their keys, and trainings in which all ranks know them.
void validate_delayed(const Scenario& s, Faults& faults) {
  if (s.training.fp8_recipe != Fp8Scaling::Delayed) return;
  if (s.strategy.trains_apart()) {
    faults.refuse(
        "training.fp8_recipe",
        "fp8_recipe=delayed is refused for replicas that train apart: the largest magnitudes are "
        "those of all ranks in every step, which such replicas do not tell each other; give "
        "tensorwise or blockwise");
  } else if (s.updates_per_step() > 1) {
    faults.refuse(
        "training.fp8_recipe",
        "fp8_recipe=delayed is not built for PipeDream, whose microbatches in flight would round "
        "by scales of several steps: give tensorwise or blockwise");
  } else if (s.strategy.offload == Offload::Parameters) {
    faults.refuse(
        "training.fp8_recipe",
        "fp8_recipe=delayed is not built with parameters in host memory, because every rank holds "
        "all scales and there is no shard to bring: give offload=optimizer");
  }
}

void validate_blocks(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const StrategySpec& p = s.strategy;
  const std::int64_t block = s.training.fp8_block();
  const int tp = p.tensor_parallel_degree;
  if (m.heads % tp != 0 || p.head_ranks() < 1) return;  // which other rules refuse
  const std::int64_t kv_heads = std::max<std::int64_t>(1, m.kv_heads / tp);
  const std::int64_t tokens = m.is_vision() ? m.patches() : s.own_seq_len();
  const std::int64_t piece = p.key_ranks() > 1 ? s.training.seq_len / (2 * p.key_ranks()) : tokens;
  const std::int64_t heads = m.heads / tp;
  const LatentSpec& latent = m.latent;
  // Rows that sequence parallelism divides are narrowed before they are gathered.
  const std::int64_t own_rows =
      m.is_latent() && p.sequence_parallel() ? tokens * s.microbatch_size() / tp : tokens;
  // What is narrow in latent attention is whole on every rank, and may end with a smaller block.
  const std::pair<std::int64_t, const char*> sizes[] = {
      {m.hidden, "the hidden size"},
      {heads * m.head_dim, "a rank's columns of queries"},
      {m.is_latent() ? heads * (latent.qk_nope_head_dim + latent.v_head_dim)
                     : kv_heads * m.head_dim,
       "a rank's columns of keys"},
      {m.is_latent() ? heads * latent.v_head_dim : block, "a rank's columns of values"},
      {m.experts > 0 ? m.ffn_hidden / std::max(1, p.expert_tensor_parallel_degree) : block,
       "a rank's features of an expert"},
      {m.experts > 0 && !m.is_dropless() && p.expert_parallel_degree > 0
           ? m.expert_capacity(tokens * s.microbatch_size() / (p.sequence_parallel() ? tp : 1),
                               p.expert_parallel_degree)
           : block,
       "the room of an expert for the rows of a rank (model.capacity_factor)"},
      {own_rows, "the rows of a microbatch that sequence parallelism leaves a rank"},
      {m.dense_width() / tp, "a rank's features of the feed-forward network"},
      {tokens, "the tokens of a sequence that a rank holds"},
      {piece, "the tokens of a piece of a sequence, of which a rank holds two"}};
  for (const auto& [size, name] : sizes) {
    if (size % block == 0) continue;
    faults.add(s.training.fp8_block_size > 0 ? "training.fp8_block_size" : "training.fp8",
               "blocks of " + std::to_string(block) + " elements do not divide " +
                   std::to_string(size) + ", " + name +
                   ": one would lie on two ranks, or in two sequences, and have another scale in "
                   "another layout; give an fp8_block_size that divides it");
    return;
  }
}

}  // namespace

void validate_fp8(const Scenario& s, Faults& faults) {
  const TrainingSpec& t = s.training;
  if (t.fp8 == Fp8Format::None) return;
  validate_where(s, faults);
  const std::int64_t wide =
      std::int64_t{t.num_layers_at_start_in_bf16} + t.num_layers_at_end_in_bf16;
  if (wide >= s.model.layers) {
    faults.add("training.fp8",
               "num_layers_at_start_in_bf16 and num_layers_at_end_in_bf16 count blocks that do not "
               "multiply in 8 bits, and leave one of the model's " +
                   std::to_string(s.model.layers));
    return;
  }
  const bool transformer =
      s.model.architecture != Architecture::Synthetic && !s.model.has_batch_norm();
  if (!transformer) return;
  validate_delayed(s, faults);
  if (!t.scales_tensors()) validate_blocks(s, faults);
}

}  // namespace lockstep
