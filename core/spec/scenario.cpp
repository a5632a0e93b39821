#include "core/spec/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace lockstep {

int Scenario::global_batch_size() const {
  return training.global_batch_size > 0
             ? training.global_batch_size
             : training.local_batch_size * strategy.data_parallel_degree();
}
int Scenario::accumulation_steps() const {
  return global_batch_size() / (training.local_batch_size * strategy.data_parallel_degree());
}
int Scenario::num_microbatches() const {
  return accumulation_steps() * strategy.pipeline_parallel_microbatches;
}
int Scenario::microbatches_per_update() const {
  const WeightVersions versions = strategy.weight_versions();
  if (versions == WeightVersions::One) return num_microbatches();
  if (strategy.pipeline_parallel_update_every > 0) return strategy.pipeline_parallel_update_every;
  return versions == WeightVersions::Double ? strategy.pipeline_parallel_degree : 1;
}
bool Scenario::accumulates_shards() const {
  switch (strategy.accumulate_sharded_gradients) {
    case AccumulateShards::Always:
      return true;
    case AccumulateShards::Never:
      return false;
    case AccumulateShards::Default:
      break;
  }
  return strategy.zero_stage >= 2 && strategy.state_shards() > 1 && num_microbatches() > 1 &&
         strategy.pipeline_parallel_degree == 1;
}
int Scenario::microbatch_size() const {
  return training.local_batch_size / strategy.pipeline_parallel_microbatches;
}
LearningRate Scenario::learning_rate() const {
  LearningRate rate = lockstep::learning_rate(optimizer, lr_scheduler, training.steps);
  if (lr_scheduler.scale_with_ranks) rate.factor = strategy.synchronous_ranks();
  return rate;
}
std::string Scenario::dataset_path() const {
  if (training.dataset.empty()) return "";
  return (std::filesystem::path(directory) / training.dataset).string();
}

std::string Scenario::validation_path() const {
  if (validation.dataset.empty()) return "";
  return (std::filesystem::path(directory) / validation.dataset).string();
}

std::string Scenario::nvme_path() const {
  if (strategy.offload_nvme_path.empty()) return "";
  return (std::filesystem::path(directory) / strategy.offload_nvme_path).string();
}

std::int64_t Scenario::tokens_per_step() const {
  return std::int64_t{global_batch_size()} * training.seq_len;
}
std::int64_t Scenario::masked_tokens() const {
  if (!model.is_encoder()) return 0;
  const std::int64_t chosen = std::llround(training.mask_prob * training.seq_len);
  return std::clamp<std::int64_t>(chosen, 1, std::max(1, training.seq_len));
}
int Scenario::kv_replicas() const {
  const int ranks = strategy.tensor_parallel_degree;
  const bool fewer = model.kv_heads > 0 && model.kv_heads < ranks && !model.has_batch_norm();
  return fewer ? ranks / static_cast<int>(model.kv_heads) : 1;
}
std::int64_t Scenario::own_seq_len() const {
  return training.seq_len / strategy.context_parallel_degree;
}
std::int64_t Scenario::position(int cp, std::int64_t i) const {
  const int heads = strategy.head_ranks(), parts = strategy.key_ranks();
  if (parts == 1) return cp * own_seq_len() + i;
  const std::int64_t piece = training.seq_len / (2 * parts);
  const std::int64_t in_part = cp % heads * own_seq_len() + i;
  return piece_start(cp / heads, in_part < piece ? 0 : 1) + in_part % piece;
}
std::int64_t Scenario::piece_start(int part, int piece) const {
  const int parts = strategy.key_ranks();
  return (piece == 0 ? part : 2 * parts - 1 - part) * (training.seq_len / (2 * parts));
}

}  // namespace lockstep
