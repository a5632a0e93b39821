// Faults: what validate() collects, and the parts of it that have files of their own.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/spec/validate/validate.hpp"

namespace lockstep {

class Faults {
 public:
  void add(std::string key, std::string message, ErrorKind kind = ErrorKind::InvalidSpec) {
    list_.push_back({std::move(key), Error{kind, std::move(message), std::nullopt}});
  }
  /// Settings that are valid one by one and are refused together. The message says which, why, and
  /// what to do instead: docs/refused.md lists these messages, and tests/docs compares the two.
  void refuse(std::string key, std::string message) {
    add(std::move(key), std::move(message), ErrorKind::Unsupported);
  }
  void require(bool good, const std::string& key, const std::string& rule) {
    if (!good) add(key, key + " " + rule);
  }
  bool none() const { return list_.empty(); }
  std::vector<Fault> take() { return std::move(list_); }

 private:
  std::vector<Fault> list_;
};

/// What the table of keys says of each key by itself. The other rules require that it finds
/// nothing.
void check_keys(const Scenario& scenario, Faults& faults);

/// Numbers of experts, and who divides them.
void validate_experts(const Scenario& scenario, Faults& faults);
void validate_expert_parallel(const Scenario& scenario, Faults& faults);

/// Every rank of "tp" gets as many heads and features; rows, where sequence parallelism divides
/// them.
void validate_tensor_parallel(const Scenario& scenario, Faults& faults);

/// Every rank of "cp" gets as many tokens of a sequence and, for attention, as many heads or as
/// many earlier tokens.
void validate_context_parallel(const Scenario& scenario, Faults& faults);

/// Documents in a sequence: the token that ends them, their length, and positions in them.
void validate_documents(const Scenario& scenario, Faults& faults);

/// Dropout: its shares, and models that have none.
void validate_dropout(const Scenario& scenario, Faults& faults);

/// Products in 8 bits: models that have them, and blocks that lie on one rank.
void validate_fp8(const Scenario& scenario, Faults& faults);

/// The vocabulary divided over the ranks of a pipeline: models, schedules and stages that allow it.
void validate_vocabulary(const Scenario& scenario, Faults& faults);

/// Sizes of a transformer, and its rotary positions.
void validate_transformer(const Scenario& scenario, Faults& faults);
/// The parts of its blocks, and of models that have no such parts, that none is given.
void validate_parts(const Scenario& scenario, Faults& faults);

/// Encoders: what they have, and the tokens that they predict.
void validate_encoder(const Scenario& scenario, Faults& faults);

/// Adapters, and parameters that are frozen.
void validate_lora(const Scenario& scenario, Faults& faults);

/// Images have one target.
void validate_image_target(const Scenario& scenario, Faults& faults);
/// The patches of a vision transformer, and what is of text alone; of others, that they have none.
void validate_patches(const Scenario& scenario, Faults& faults);

/// Sizes of a residual network, and whether its batch norm has more than one value.
void validate_resnet(const Scenario& scenario, Faults& faults);

/// The optimizer, its learning rate, and what is saved and looked at on the way.
void validate_optimizer(const Scenario& scenario, Faults& faults);

/// Replicas that train apart.
void validate_local_sgd(const Scenario& s, Faults& faults);
/// What is sent in fewer bits (ZeRO++), or as products of low rank (PowerSGD).
void validate_quantized_collectives(const Scenario& s, Faults& faults);
void validate_power_sgd(const Scenario& s, Faults& faults);
/// What lies beyond the device, and where.
void validate_offload(const Scenario& s, Faults& faults);

/// How much is trained, and in which phases.
void validate_campaign(const Scenario& s, Faults& faults);

/// Schedules that update weights while microbatches are under way, and the keys that are for them.
void validate_versions(const Scenario& s, Faults& faults);

}  // namespace lockstep
