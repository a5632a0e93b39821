// Begins a draft before the first pass: makes the mesh, and the model's layers in the shapes that a
// rank computes.
#include <numeric>

#include "core/base/float8.hpp"
#include "core/lower/draft/draft.hpp"

namespace lockstep {
namespace {

Float8Factors float8_factors(const TrainingSpec& t) {
  if (t.fp8 == Fp8Format::None) return {};
  return {kE4M3, t.fp8 == Fp8Format::Hybrid ? kE5M2 : kE4M3, t.fp8_block(),
          t.fp8_recipe == Fp8Scaling::Blockwise,
          t.fp8_recipe == Fp8Scaling::Delayed ? t.fp8_amax_history_len : 0};
}

}  // namespace

Draft::Draft(const Scenario& s, Arithmetic arithmetic) : scenario(s) {
  const StrategySpec& strategy = s.strategy;
  program.mesh.dims = {{"pp", strategy.pipeline_parallel_degree},
                       {"dp_replicate", strategy.data_parallel_replicate_degree},
                       {"dp_shard", strategy.data_parallel_shard_degree},
                       {"tp", strategy.tensor_parallel_degree}};
  // Neighbouring ranks share the copy kept after forward, or exchange gradients first.
  if (const int inner = strategy.inner_shards(); inner > 1) {
    program.mesh.dims[2].size /= inner;
    program.mesh.dims.insert(program.mesh.dims.begin() + 3, {"dp_reshard", inner});
  }
  if (strategy.experts_over_shards() > 1) {  // neighbouring ranks divide the experts
    program.mesh.dims[2].size = strategy.shards_beside_experts();
    program.mesh.dims.insert(program.mesh.dims.begin() + 3, {"ep", strategy.experts_over_shards()});
  }
  if (strategy.context_parallel_degree > 1) {
    const int heads = strategy.key_ranks() > 1 ? strategy.head_ranks() : 1;
    program.mesh.dims.insert(program.mesh.dims.end() - 1,
                             {"cp", strategy.context_parallel_degree / heads});
    if (heads > 1) program.mesh.dims.insert(program.mesh.dims.end() - 1, {"cp_heads", heads});
  }
  const int etp = strategy.expert_tensor_parallel_degree;
  if (etp > 1 && etp < strategy.tensor_parallel_degree) {  // neighbours divide each expert
    program.mesh.dims.back().size /= etp;
    program.mesh.dims.push_back({"etp", etp});
  }
  if (s.kv_replicas() > 1) {  // neighbouring ranks hold the same key and value heads
    program.mesh.dims.back().size /= s.kv_replicas();
    program.mesh.dims.push_back({"kv_replicate", s.kv_replicas()});
  }
  program.dtype = s.training.param_dtype();
  program.training.model = s.model.name;
  if (s.costs) {
    model = build_synthetic(*s.costs, strategy.num_stages());
    program.p2p_latency = Seconds{s.costs->p2p};
    return;
  }
  program.training.steps = s.training.steps;
  program.training.tokens = s.training.total_tokens;
  program.training.seed = s.training.seed;
  program.training.learning_rate = s.learning_rate();
  if (s.training.scales_loss()) program.training.loss_scaling = s.loss_scale;
  program.tokens_per_step = s.tokens_per_step();
  LayerShape shape;
  shape.batch = s.microbatch_size();
  shape.seq = s.training.seq_len;
  shape.dtype = s.training.param_dtype();
  shape.gradient_dtype = s.training.reduce_dtype();
  shape.buffer_dtype = s.training.buffer_dtype();
  shape.checkpoint = s.activation_checkpoint;
  shape.float8 = float8_factors(s.training);
  shape.wide_first = s.training.num_layers_at_start_in_bf16;
  shape.wide_last = s.training.num_layers_at_end_in_bf16;
  program.updates_per_step = s.updates_per_step();
  program.sync_every = strategy.trains_apart() ? strategy.local_sgd.sync_steps : 0;
  // The loss of an update is the mean over its own tokens, and that of a replica over the
  // replica's.
  shape.loss_scale =
      program.updates_per_step * program.replicas() / static_cast<double>(program.tokens_per_step);
  if (s.model.is_encoder()) {
    shape.target_share = static_cast<double>(s.masked_tokens()) / s.training.seq_len;
  }
  if (s.training.reset_attention_mask) shape.mean_document = s.training.mean_document_length;
  shape.adapter_dropout = s.model.lora.dropout;
  shape.residual_dropout = s.training.residual_dropout;
  shape.embedding_dropout = s.training.embedding_dropout;
  shape.attention_dropout = s.training.attention_dropout;
  shape.resets_positions = s.training.reset_position_ids;
  shape.scales_loss = s.training.scales_loss();
  shape.loss_chunks = s.training.loss_chunks;
  shape.shard_count = strategy.state_shards();
  shape.state_block = s.optimizer.state_block();
  if (strategy.sends_codes()) shape.shard_multiple = strategy.zero_quantized_block_size;
  shape.plain_apart =
      s.optimizer.weight_decay > 0 && s.optimizer.weight_decay_on == DecayedParameters::Matrices;
  shape.matrices_apart = s.optimizer.is_muon();
  shape.expert_parallel = strategy.expert_parallel_degree;
  shape.expert_shard_count = strategy.expert_shards();
  if (strategy.sync_batch_norm) shape.norm_ranks = strategy.synchronous_ranks();
  const FrameworkSpec& framework = s.cluster.framework;
  shape.score_bytes =
      framework.bytes_of_score(static_cast<int>(size_of(shape.dtype)), shape.attention_dropout > 0);
  shape.logit_bytes = framework.bytes_of_logit(static_cast<int>(size_of(shape.dtype)));
  shape.overlaps_weight_gradients = framework.overlaps_weight_gradients;
  shape.recomputes_all = framework.recomputes_all;
  LayerShape whole = shape;  // the shape that a single rank would compute
  shape.seq = s.own_seq_len();
  shape.context_parallel = strategy.context_parallel_degree;
  shape.head_ranks = strategy.head_ranks();
  shape.gathers_keys = strategy.gathers_keys();
  shape.passes_keys = strategy.passes_keys();
  shape.tensor_parallel = strategy.tensor_parallel_degree;
  shape.kv_replicas = s.kv_replicas();
  shape.vocabulary_stages = strategy.vocabulary_stages();
  shape.experts_over_tp = strategy.experts_over_tp() > 1;
  shape.expert_tensor_parallel = strategy.expert_tensor_parallel_degree;
  shape.sequence_parallel = strategy.sequence_parallel();
  shape.tensor_parallel_chunks = strategy.tensor_parallel_chunks;
  model = build_layers(s.model, shape);
  for (const auto* units : {&model.units, &model.statistics}) {
    for (const UnitLayout& unit : *units) {
      for (const Parameter& parameter : unit.parameters) {
        const auto id = static_cast<std::int32_t>(program.parameters.size());
        if (parameters_.emplace(parameter.name, ParameterId{id}).second) {
          program.parameters.push_back(parameter);
        }
      }
    }
  }
  if (arithmetic == Arithmetic::LeaveOut) return;
  const double passes = double(s.num_microbatches()) * strategy.data_parallel_degree();
  const bool undivided = shape.vocabulary_parts() == 1 && shape.context_parallel == 1;
  const Flops of_pass = undivided           ? model.training_flops()
                        : s.model.freezes() ? build_layers(s.model, whole).training_flops()
                                            : 3 * forward_flops(s.model, whole);
  program.model_flops_per_step = passes * of_pass;
}

ParameterId Draft::add_parameter(const Parameter& parameter) {
  const auto [at, fresh] = parameters_.emplace(parameter.name, program.parameters.next());
  if (fresh) program.parameters.push_back(parameter);
  return at->second;
}

Program Draft::finished() const {
  Program whole = program;
  for (const DraftRole& out : roles) whole.roles.push_back(out.role);
  return whole;
}

}  // namespace lockstep
