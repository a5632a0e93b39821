// RankRunner: one rank's walk through its role, prepared once and repeated every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/run/executor.hpp"

namespace lockstep {

/// What a rank reports of one step.
struct RankStep {
  std::vector<OpTime> times;              // by ascending op
  std::optional<double> loss, grad_norm;  // if the rank copies them to the host
};

/// Used from one thread at a time. `program`, `batches` and what `port` points to
/// outlive it.
class RankRunner {
 public:
  RankRunner(const Program& program, const RankPort& port, const BatchSource& batches);

  /// Arena cleared (or poisoned), then the initial values of parameters and moments.
  Result<void> prepare(const TrainingState* state, const ExecutorOptions& options);
  /// Blocks until the device has run the step. After an error nothing of the step runs on.
  Result<RankStep> run_step(const StepContext& context, const ExecutorOptions& options);

 private:
  Result<void> enqueue_all(const StepContext& context);
  Result<void> enqueue(OpId id, const StepContext& context);
  /// What a copy to the device brings; see HostData.
  void fill_input(const Op& op, int step, std::vector<std::byte>& staging);
  void fill_images(const Op& op, std::int64_t first, std::vector<std::byte>& staging);
  void fill_tokens(const Op& op, std::int64_t first, std::span<std::int32_t> ids);
  /// What a table says to this rank; null: there is no such table.
  const IndexList* list(TableKind kind) const;
  Result<void> poison_transient();
  std::optional<double> metric(HostData data) const;

  const Program& program_;
  const Role& role_;
  RankPort port_;
  const BatchSource& batches_;
  std::int64_t first_sample_ = 0;      // of its share of a step, counted from the step's first
  std::vector<std::int32_t> order_;    // which tokens of a sample it takes
  std::int32_t shift_ = 0;             // subtracted from ids
  std::vector<std::byte*> addresses_;  // parallel to Role::args
  std::vector<std::int64_t> sizes_;    // parallel to Role::args, bytes
  std::vector<std::vector<std::byte>> staging_;  // host side of each copy, in op order
  std::vector<OpId> copies_;                     // parallel to staging_
  std::size_t next_copy_ = 0;                    // of the step that is being enqueued
  std::vector<std::pair<std::int64_t, std::int64_t>> transient_;  // arena ranges: begin, end
};

}  // namespace lockstep
