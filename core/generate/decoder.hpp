// Decoder: a model that continues one sequence on one device, with what it has read in a cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/generate/decode_program.hpp"
#include "core/ir/training_state.hpp"
#include "core/run/device.hpp"

namespace lockstep {

class Decoder {
 public:
  /// `made` and `device` must outlive the decoder; the device is that of the program's only rank.
  Decoder(const DecodeProgram& made, Device& device);

  /// Loads the weights, or those of the seed 0 if `state` is null, and forgets what was read.
  /// Errors are those of load_state().
  Result<void> load(const StateReader* state);
  /// Reads tokens after those that were read before, and returns the logits that follow the last
  /// one; with `all`, those that follow each, one after the other. Errors: InvalidSpec for an id
  /// outside the vocabulary, or if the cache is full; those of the device.
  Result<std::vector<float>> read(std::span<const std::int32_t> ids, bool all = false);
  /// Forgets what was read.
  Result<void> clear();
  std::int64_t position() const { return position_; }  // tokens read
  std::int64_t room() const { return made_.capacity - position_; }

 private:
  Result<void> run(const DecodeProgram::Pass& pass, std::span<const std::int32_t> ids);
  void append_logits(std::int64_t row, std::vector<float>& to) const;

  const DecodeProgram& made_;
  Device& device_;
  std::int64_t position_ = 0;
  std::vector<std::byte*> addresses_;  // parallel to Role::args
  std::vector<std::byte> logits_;      // of the last pass
};

}  // namespace lockstep
