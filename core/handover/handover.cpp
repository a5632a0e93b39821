#include "core/handover/handover.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/handover/words.hpp"

namespace lockstep {

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

void leave_unsaid(std::vector<std::string>& unsaid, bool set, std::string what) {
  if (set) unsaid.push_back(std::move(what));
}

namespace {

/// What none of the three can say, whatever else the scenario has.
std::vector<std::string> unsaid_by_all(const Scenario& s) {
  std::vector<std::string> unsaid;
  leave_unsaid(unsaid, s.what_if != WhatIfSpec{},
               "[what_if]: a cluster that is slower than it is exists only in the simulation");
  leave_unsaid(unsaid, s.model.router_imbalance > 0,
               "model.router_imbalance: how uneven a router is shows in its training");
  leave_unsaid(unsaid, s.training.stochastic_rounding,
               "training.stochastic_rounding: its optimizer rounds to nearest");
  leave_unsaid(
      unsaid, s.optimizer.state_dtype == StateDType::U8,
      "optimizer.state_dtype = \"uint8\": that is an optimizer of bitsandbytes or torchao, "
      "AdamW8bit, to be given to it in its code");
  leave_unsaid(unsaid, s.lr_scheduler.scale_with_ranks,
               "lr_scheduler.scale_with_ranks: give it the learning rate times the replicas");
  leave_unsaid(unsaid, s.model.lora.rank > 0,
               "[lora]: its configuration has no adapters, which a program of the user's adds to "
               "the model (with PEFT, or Megatron Bridge)");
  leave_unsaid(unsaid, !s.model.frozen.empty(),
               "model.frozen: a program of the user's has to set requires_grad");
  leave_unsaid(unsaid, s.strategy.vocabulary_parallel_pipeline,
               "parallelism.vocabulary_parallel_pipeline: it has embedding and output layer on the "
               "first and the last stage");
  const ModelSpec& m = s.model;
  const std::pair<const char*, bool> parts[] = {
      {"norm_place", m.norm_place != NormPlace::Before},
      {"parallel_branches", m.parallel_branches},
      {"sliding_window", m.sliding_window > 0},
      {"attention_multiplier", m.attention_multiplier != 0},
      {"attention_softcap", m.attention_softcap != 0},
      {"embedding_multiplier", m.embedding_multiplier != 1},
      {"residual_multiplier", m.residual_multiplier != 1},
      {"logit_multiplier", m.logit_multiplier != 1},
      {"logit_softcap", m.logit_softcap != 0}};
  for (const auto& [key, given] : parts) {
    leave_unsaid(unsaid, given,
                 "model." + std::string(key) + ": a program of the user's has to build the model");
  }
  leave_unsaid(unsaid, s.strategy.power_sgd.on(),
               "[power_sgd]: to be registered in its code, as PyTorch's powerSGD_hook of DDP");
  return unsaid;
}

/// A plan is simulated as one software runs it. Another one will run this file.
void leave_software_unsaid(std::string_view trainer, const Scenario& s,
                           std::vector<std::string>& unsaid) {
  struct Row {
    std::string_view trainer, usual, presets;  // beginnings of presets' names
  };
  constexpr Row kRows[] = {{"torchtitan", "torchtitan", "torchtitan torch-compile fsdp-eager"},
                           {"megatron", "megatron-core", "megatron-"},
                           {"deepspeed", "fsdp-eager", "fsdp-eager deepspeed-"}};
  const std::string software = software_of(s.cluster);
  const Row& row = *std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const Row& r) { return r.trainer == trainer; });
  std::istringstream presets{std::string(row.presets)};
  bool same = software.empty();
  for (std::string begin; presets >> begin;) same |= software.starts_with(begin);
  leave_unsaid(unsaid, !same,
               "[framework]: the plan is simulated " + as_run_by(software) + "; --framework " +
                   std::string(row.usual) + " simulates it as this file is run");
}

}  // namespace

std::string torchrun(const Scenario& s) {
  const int ranks = s.strategy.world_size();
  const int per_node = std::min(ranks, s.cluster.devices_per_node * s.cluster.ranks_per_device);
  return "torchrun --nnodes " + std::to_string((ranks + per_node - 1) / per_node) +
         " --nproc-per-node " + std::to_string(per_node);
}

Result<Handover> hand_over(std::string_view trainer, const Scenario& scenario) {
  if (scenario.model.architecture == Architecture::Synthetic || scenario.model.is_vision()) {
    return invalid("only transformers of text can be handed over: the scenario's model is " +
                   std::string(scenario.model.is_vision() ? "one of images" : "given times"));
  }
  if (!scenario.model.is_decoder()) {
    return invalid("only decoders can be handed over: " +
                   std::string(scenario.model.causal ? "the scenario's model has norms or ends as "
                                                       "encoders have, which no option names"
                                                     : "the scenario's model is not causal, and "
                                                       "the trainers' programs are for models that "
                                                       "predict the next token"));
  }
  Handover h;
  h.unsaid = unsaid_by_all(scenario);
  leave_unsaid(h.unsaid, scenario.strategy.sends_codes() && trainer != "deepspeed",
               "parallelism.zero_quantized_weights, zero_quantized_gradients: it gathers and "
               "scatters in the types of mixed precision");
  if (trainer == "torchtitan") {
    hand_to_torchtitan(scenario, h);
  } else if (trainer == "megatron") {
    leave_unsaid(h.unsaid, scenario.strategy.trains_apart(),
                 "[local_sgd]: it sums gradients over all replicas in every step");
    hand_to_megatron(scenario, h);
  } else {
    leave_unsaid(h.unsaid, scenario.strategy.trains_apart(),
                 "[local_sgd]: it sums gradients over all replicas in every step");
    hand_to_deepspeed(scenario, h);
  }
  leave_software_unsaid(trainer, scenario, h.unsaid);
  return h;
}

}  // namespace lockstep
