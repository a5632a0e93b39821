#include <algorithm>
#include <vector>

#include "core/spec/expert_folding.hpp"
#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_experts(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  if (m.shared_expert_gate && m.shared_expert_hidden < 1) {
    faults.add("model.shared_expert_gate",
               "gates the shared expert, and there is none (model.shared_expert_hidden)");
  }
  if (m.dense_layers >= m.layers) {
    faults.add("model.dense_layers", "dense_layers=" + std::to_string(m.dense_layers) +
                                         " leaves none of layers=" + std::to_string(m.layers) +
                                         " with experts");
  }
  if (m.experts_per_token > m.experts) {
    faults.add("model.experts_per_token",
               "experts_per_token=" + std::to_string(m.experts_per_token) +
                   " is more than experts=" + std::to_string(m.experts));
  }
  if (m.expert_period > m.layers) {
    faults.add("model.expert_period", "expert_period=" + std::to_string(m.expert_period) +
                                          " is more than layers=" + std::to_string(m.layers) +
                                          ", or no block has experts");
  }
  if (m.expert_rank_capacity_factor > 0 && !m.is_dropless()) {
    faults.add("model.expert_rank_capacity_factor",
               "is the room for tokens of which none is dropped, and experts have a room of their "
               "own, from which others are: model.capacity_factor = 0");
  }
  if (m.expert_rank_capacity_factor > 0 && m.router_imbalance > 0) {
    faults.refuse("model.expert_rank_capacity_factor",
                  "plans the room of a run, and model.router_imbalance simulates one where rows "
                  "find room as they come: give only one of the two");
  }
  if (m.router_bias_update_rate > 0 && s.strategy.offload == Offload::Parameters) {
    faults.refuse(
        "parallelism.offload",
        "offload=parameters brings shards to the device before each gather, and the biases "
        "of model.router_bias_update_rate are whole on every rank: give offload=optimizer");
  }
}

void validate_expert_parallel(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const StrategySpec& p = s.strategy;
  const int ep = p.expert_parallel_degree;
  const std::string degree = "expert_parallel_degree=" + std::to_string(ep);
  const std::string key = "parallelism.expert_parallel_degree";
  const int etp = p.expert_tensor_parallel_degree;
  const bool same_rows =
      m.experts > 0 && p.tensor_parallel_degree > 1 && !p.enable_sequence_parallel;
  if (same_rows && etp < p.tensor_parallel_degree) {
    faults.refuse(
        "parallelism.tensor_parallel_degree",
        "not all ranks of tensor parallelism divide each expert, so some would compute the "
        "same tokens, which Megatron-LM refuses, too: give enable_sequence_parallel=true, or "
        "expert_tensor_parallel_degree=" +
            std::to_string(p.tensor_parallel_degree));
  }
  if (same_rows && etp > 1 && ep > 1 && m.is_dropless()) {
    faults.refuse("parallelism.enable_sequence_parallel",
                  "the sums of divided experts are not counted: without sequence parallelism, "
                  "expert_parallel_degree=" +
                      std::to_string(ep) +
                      " would all-reduce all places that rows may come to; enable it, or give "
                      "model.capacity_factor");
  }
  if (etp != 1) {
    const std::string divided = "parallelism.expert_tensor_parallel_degree";
    const std::string given = "expert_tensor_parallel_degree=" + std::to_string(etp);
    if (m.experts == 0) {
      return faults.add(divided,
                        given + " divides experts, and the model has none (model.experts)");
    }
    if (p.tensor_parallel_degree % etp != 0) {
      return faults.add(divided, given + " does not divide tensor_parallel_degree=" +
                                     std::to_string(p.tensor_parallel_degree) +
                                     ", whose ranks divide each expert");
    }
    if (etp < p.tensor_parallel_degree && !p.folds_experts()) {
      faults.refuse(
          divided,
          given + " leaves " + std::to_string(p.tensor_parallel_degree / etp) +
              " groups of ranks of tensor parallelism, which would all hold the same "
              "experts: expert_parallel_folding, and an expert_parallel_degree, divide the "
              "experts among them");
    }
    if (const int replicas = s.kv_replicas();
        etp < p.tensor_parallel_degree && replicas > 1 && etp % replicas != 0) {
      faults.refuse(divided, given + " is not a multiple of the " + std::to_string(replicas) +
                                 " neighbours of tensor parallelism that hold the same key heads: "
                                 "give a multiple of it");
    }
    if (m.has_biases()) {
      faults.refuse(divided,
                    given +
                        " is not built for experts with biases, which no rank could add to its "
                        "term of a sum (Megatron-LM's grouped products have none either): take "
                        "architecture = \"llama\"");
    }
    if (s.optimizer.is_muon()) {
      faults.refuse(
          divided,
          given +
              ": Muon orthogonalizes whole matrices of experts, which then lie on "
              "several ranks: divide whole experts (expert_parallel_folding), or take AdamW");
    }
  }
  if (ep == 1) return;
  if (m.experts == 0) {
    return faults.add(key, degree + " divides experts, and the model has none (model.experts)");
  }
  if (m.experts % ep != 0) {
    faults.add(key, degree + " does not divide experts=" + std::to_string(m.experts) +
                        ": every rank holds as many");
  }
  if (p.expert_parallel_folding) {
    const std::vector<int> allowed = folded_expert_degrees(p, m.experts);
    if (std::find(allowed.begin(), allowed.end(), ep) == allowed.end()) {
      std::string list;
      for (const int e : allowed) list += (list.empty() ? "" : ", ") + std::to_string(e);
      return faults.add(key, degree +
                                 " with expert_parallel_folding is tensor_parallel_degree (over "
                                 "expert_tensor_parallel_degree), or that times "
                                 "context_parallel_degree, or both times a divisor of "
                                 "data_parallel_shard_degree; that also divides experts=" +
                                 std::to_string(m.experts) + ": " + (list.empty() ? "none" : list));
    }
  } else if (p.data_parallel_shard_degree % ep != 0) {
    faults.add(key, degree + " does not divide data_parallel_shard_degree=" +
                        std::to_string(p.data_parallel_shard_degree) +
                        ", whose ranks share the experts (with zero_stage 0 they are replicas "
                        "otherwise); expert_parallel_folding divides them over the ranks of "
                        "tensor and context parallelism, too");
  }
  if (p.reshards_to_fewer()) {
    faults.refuse("parallelism.fsdp_reshard_degree",
                  "fsdp_reshard_degree and expert_parallel_degree would both divide the ranks of "
                  "data_parallel_shard_degree into groups of neighbours: leave one of the two out");
  }
  if (p.offload == Offload::Parameters && p.expert_shards() == 1) {
    faults.refuse("parallelism.offload",
                  "offload=parameters brings shards to the device before each gather, and with " +
                      degree +
                      " experts are not sharded: data_parallel_shard_degree must be a "
                      "multiple of it, or offload=optimizer");
  }
}

}  // namespace lockstep
