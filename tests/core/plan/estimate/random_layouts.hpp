// Random tasks and layouts, for tests that compare two ways to judge them.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/plan/estimate/reduced.hpp"
#include "core/plan/found_layout.hpp"
#include "core/plan/layouts.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

namespace lockstep::test {

template <class T>
T pick(const std::vector<T>& choices, std::mt19937& random) {
  return choices[random() % choices.size()];
}

/// A model, a cluster and a batch.
inline Scenario random_task(std::mt19937& random) {
  const int layers = pick<int>({12, 16, 20, 24, 32}, random);
  const bool experts = random() % 5 == 0;
  const int hidden = pick<int>({1024, 2048, 4096}, random);
  std::string text =
      "[model]\narchitecture = \"" + std::string(random() % 2 && !experts ? "gpt2" : "llama") +
      "\"\nname = \"m\"\nlayers = " + std::to_string(layers) +
      "\nhidden = " + std::to_string(hidden) + "\nheads = " + std::to_string(hidden / 128 * 2) +
      "\nvocab = " + pick<std::string>({"32000", "50257", "128256"}, random) +
      "\nmax_seq_len = 8192\n";
  if (experts) text += "experts = 8\n";
  text += "[training]\nseq_len = " + pick<std::string>({"2048", "4096", "8192"}, random) +
          "\nlocal_batch_size = 1\nglobal_batch_size = " +
          pick<std::string>({"64", "128", "256"}, random) +
          "\nmixed_precision_param = \"bfloat16\"\n[cluster]\npreset = \"" +
          pick<std::string>({"h100", "a100-80", "a100-80"}, random) +
          "\"\nnodes = " + pick<std::string>({"1", "2", "4", "8"}, random) + "\n";
  const LoadedScenario loaded = parse_scenario(text, "random", {});
  if (!loaded.ok()) FAIL(loaded.errors.front().message);
  return loaded.points.front().scenario;
}

/// A layout of the task's ranks; nothing if the first try is not valid.
inline std::optional<Scenario> random_layout(const Scenario& base, std::mt19937& random) {
  Scenario s = base;
  StrategySpec& p = s.strategy;
  const int world = base.cluster.capacity();
  const RankDegrees d =
      pick(divide_ranks(world, {8, 2, static_cast<int>(base.model.layers)}), random);
  p.tensor_parallel_degree = d.tensor;
  p.enable_sequence_parallel = d.tensor > 1 && random() % 4 != 0;
  p.context_parallel_degree = d.context;
  p.pipeline_parallel_degree = d.pipeline;
  p.zero_stage = pick<int>({0, 1, 2, 3}, random);
  const bool replicas = p.zero_stage == 0;
  p.data_parallel_replicate_degree = replicas ? d.data : 1;
  p.data_parallel_shard_degree = replicas ? 1 : d.data;
  p.overlap_param_gather = p.zero_stage == 1 && random() % 2 == 0;
  const int size = pick<int>({1, 1, 2, 4}, random);
  if (base.global_batch_size() % (size * d.data) != 0) return std::nullopt;
  const int microbatches = base.global_batch_size() / (size * d.data);
  s.training.local_batch_size = size * (d.pipeline > 1 ? microbatches : 1);
  if (d.pipeline > 1) {
    p.pipeline_parallel_microbatches = microbatches;
    p.pipeline_parallel_schedule = pick<PipelineSchedule>(
        {PipelineSchedule::OneFOneB, PipelineSchedule::Interleaved1F1B,
         PipelineSchedule::Interleaved1F1B, PipelineSchedule::GPipe, PipelineSchedule::ZbH1,
         PipelineSchedule::ZbvZeroBubble, PipelineSchedule::LoopedBFS, PipelineSchedule::ZbH2,
         PipelineSchedule::InterleavedZeroBubble, PipelineSchedule::DualPipeV,
         PipelineSchedule::Zb1p, PipelineSchedule::Zb2p, PipelineSchedule::VHalf,
         PipelineSchedule::VMin, PipelineSchedule::ZbV},
        random);
    const ScheduleRules& rules = rules_of(p.pipeline_parallel_schedule);
    if (rules.most_virtual_stages > 2) {
      const auto chunks = divisors(static_cast<int>(base.model.layers) / d.pipeline, 64);
      p.pipeline_parallel_virtual_stages = pick(chunks, random);
      if (p.pipeline_parallel_virtual_stages < rules.least_virtual_stages) return std::nullopt;
    } else {
      p.pipeline_parallel_virtual_stages = rules.least_virtual_stages;
    }
  }
  if (base.model.experts > 0 && !replicas) {
    p.expert_parallel_degree = pick(divisors(d.data, 8), random);
  }
  s.activation_checkpoint =
      pick<ActivationCheckpointSpec>({{},
                                      {ActivationCheckpoint::Full, "2", {}},
                                      {ActivationCheckpoint::Selective, "attention", {}},
                                      {ActivationCheckpoint::Selective, "op", {}},
                                      {ActivationCheckpoint::Selective, "2", {}}},
                                     random);
  if (!validate(s).empty()) return std::nullopt;
  return s;
}

/// Whether searches have such a layout in their space (layout_space()).
inline bool searched(const Scenario& s) {
  const StrategySpec& p = s.strategy;
  if (p.sequence_parallel() != (p.tensor_parallel_degree > 1)) return false;
  if (p.pipeline_parallel_degree == 1) return true;
  switch (p.pipeline_parallel_schedule) {
    case PipelineSchedule::OneFOneB:
    case PipelineSchedule::Interleaved1F1B:
      return true;
    default:
      return splits_backward(s) && rules_of(p.pipeline_parallel_schedule).copies == 1;
  }
}

/// The layout's name, with what layout_name() leaves out.
inline std::string whole_name(const Scenario& s) {
  const auto& c = s.activation_checkpoint;
  return layout_name(s) + " zero " + std::to_string(s.strategy.zero_stage) +
         (s.strategy.sequence_parallel() ? " sp" : "") +
         (s.strategy.overlap_param_gather ? " late" : "") + " v " +
         std::to_string(s.strategy.pipeline_parallel_virtual_stages) +
         (c.mode == ActivationCheckpoint::Selective ? " recompute " + c.selective_ac_option : "");
}

}  // namespace lockstep::test
