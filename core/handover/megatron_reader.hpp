// MegatronReader: what the arguments of Megatron-LM say, as a plan. Its parts are in files of their
// own: the model, its experts, the degrees, training, the optimizer. Internal to core/handover.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/handover/launch.hpp"
#include "core/handover/megatron_account.hpp"
#include "core/handover/megatron_layout.hpp"

namespace lockstep {

class MegatronReader : MegatronAccount {
 public:
  MegatronReader(Launch launch, const PlanOptions& options)
      : MegatronAccount(launch.arguments),
        options_(options),
        launch_(std::move(launch)),
        program_(launch_.program) {}
  Result<PlanImport> read(const std::string& file);

 private:
  // megatron_model.cpp
  Result<void> read_model(const std::string& file);
  Error lacks(const std::string& needed) const;
  bool is_bert() const;
  /// Whether it is Megatron-DeepSpeed, whose defaults for experts are others.
  bool is_deepspeed() const;
  /// BERT of Megatron-LM has norms before its branches, and a head for masked tokens.
  void read_bert();
  /// Sizes that are not given are those of its arguments' defaults.
  void read_latent_attention();
  Result<void> read_vocabulary(const std::string& file);
  /// The vocabulary of a tokenizer by its name, which the plan says; 0 if it is not known.
  std::int64_t vocabulary_by_name();

  // megatron_experts.cpp
  void read_experts();
  /// --moe-layer-freq is a number of blocks, or a list of zeros and ones.
  void read_blocks_with_experts();

  // megatron_degrees.cpp
  Result<void> read_degrees(const std::string& file);
  /// How many GPUs there are for degrees that need `divided`, or a multiple of it.
  Result<std::int64_t> read_ranks(std::int64_t divided, std::int64_t model_parallel,
                                  const std::string& file);
  /// Megatron divides experts over the ranks of tensor parallelism that do not divide each of them,
  /// then over those of context and data parallelism.
  void read_grid_of_experts(std::int64_t tp, std::int64_t cp, std::int64_t replicas);
  void read_pipeline(std::int64_t pp);
  /// Notes why Megatron-LM itself does not start with these arguments, the first reason alone.
  void refuse(const std::string& why);
  /// Its stages are equal unless an argument says which blocks they have.
  void check_equal_stages(std::int64_t pp, std::int64_t chunks);
  /// core/pipeline_parallel/schedules.py: groups of microbatches are at least as large as the
  /// pipeline, the last one, too.
  void check_groups(std::int64_t microbatches);
  void set_blocks(const std::vector<std::int64_t>& blocks, const std::string& said);
  /// Replicas that divide experts among them are shards here, though they share nothing else.
  void read_data_parallel(std::int64_t replicas, bool divide_experts);

  // megatron_training.cpp
  void read_training();
  void read_overlap();
  void read_fp8();
  void read_recomputation();
  void read_kernels();

  // megatron_optimizer.cpp
  void read_optimizer();
  void read_muon(const std::string& kind);
  /// Its precision-aware optimizer has a type for each moment; here both have one.
  void read_moments();
  void read_schedule(double lr);

  const PlanOptions& options_;
  Launch launch_;
  MegatronProgram program_;
  std::int64_t replicas_ = 1;
  std::string refused_;      // why Megatron-LM does not start with these arguments; empty: it does
  bool llama_ = false;       // the kind of the model
  std::int64_t stages_ = 1;  // virtual ones, of all pipeline ranks
  std::int64_t pipeline_ranks_ = 1;
  bool pipelined_ = false;
  bool divides_rows_ = false;  // sequence parallelism
  bool one_scale_ = false;     // of each tensor, for products in 8 bits
};

}  // namespace lockstep
