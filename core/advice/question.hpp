// Question: which model on which cluster a recommendation is asked for, and the scenario whose
// layouts are searched for it.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/plan/rules_of_thumb.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Either of a model and a cluster by name, or of a decoder of so many parameters on A100s with so
/// much memory.
struct RecommendQuestion {
  std::string model;    // a preset, or a Hugging Face folder or config.json
  std::string cluster;  // a preset or a profile (.toml)
  int nodes = 1;
  std::string params;  // instead of these: "7B", "1.3e9"
  double gpu_mem = 0;  // GB of 10^9 bytes
  int gpus = 0;
  std::string interconnect = "nvlink";  // nvlink, infiniband or pcie
  int batch = 0;                        // sequences of a step; 0: 16,384 tokens for every GPU
  int seq_len = 0;                      // 0: the model's, at most 8,192
  bool offload = false;                 // also layouts with states in host memory
  int lora = 0;                         // rank of adapters that are trained alone; 0: none
  std::string framework;                // a preset; empty: what is usual (docs/framework.md)
};

struct Recommendation {
  Scenario scenario;  // 16 bits with masters in float32
  RuleQuestion question;
  std::vector<Error> warnings;  // such as what of a config.json is not simulated
};

/// Errors: InvalidSpec, and those of the scenario.
Result<Recommendation> recommendation_of(const RecommendQuestion& question);

}  // namespace lockstep
