// RankRunner: one rank's walk through its role, prepared once and repeated every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/run/executor.hpp"

namespace lockstep {

/// What a rank reports of one step.
struct RankStep {
  std::vector<OpTime> times;              // by ascending op
  std::optional<double> loss, grad_norm;  // set if the rank copies them to the host
  Seconds waiting;                        // time_waiting() of the step
  Seconds loading;                        // that the host took to make its samples ready
};

/// Used from one thread at a time. `program`, `batches` and what `port` points to must outlive it.
class RankRunner {
 public:
  RankRunner(const Program& program, const RankPort& port, const BatchSource& batches);

  /// Clears (or poisons) the arena, then writes the initial values of parameters and moments: those
  /// of `state`, or those of the seed if it is null.
  Result<void> prepare(const StateReader* state, const ExecutorOptions& options);
  /// Copies parameters and moments to the host, and writes what was copied last back to the device.
  Result<void> keep();
  Result<void> restore();
  /// Blocks until the device has run the step, which reads the samples from `sample` on, of the
  /// training's data or of `others`. Calls before_update() before anything that is saved is
  /// written. After an error nothing of the step goes on running.
  Result<RankStep> run_step(const StepContext& context, std::int64_t sample,
                            const ExecutorOptions& options,
                            const std::function<Result<void>()>& before_update,
                            const BatchSource* others = nullptr);

 private:
  /// Enqueues the ops of a step that synchronizes replicas, or of one that does not.
  Result<void> enqueue_all(bool synchronizes, const std::function<Result<void>()>& before_update);
  Result<void> enqueue(OpId id);
  Result<void> enqueue_drive_copy(OpId id);
  /// Fills the host side of a copy to the device with what its HostData names.
  void fill_input(const Op& op, std::vector<std::byte>& staging);
  void fill_images(const Op& op, std::int64_t first, std::vector<std::byte>& staging);
  void fill_tokens(const Op& op, std::int64_t first, std::span<std::int32_t> ids);
  void fill_attention_dropout(std::int64_t first, std::span<std::int32_t> values) const;
  /// Writes the keys of rows of `tokens` of each sample from `first` on: equally many from each of
  /// these rows on.
  void fill_dropout_keys(std::int64_t first, std::span<const std::int32_t> tokens,
                         std::span<const std::int32_t> first_rows,
                         std::span<std::int32_t> keys) const;
  /// The list of this rank in the table of that kind; null if the program has no such table.
  const IndexList* list(TableKind kind) const;
  Result<void> poison_transient();
  /// Calls move(offset, bytes of kept_) for each range of the arena with persistent buffers.
  template <class Move>
  Result<void> move_persistent(const Move& move);
  std::optional<double> metric(HostData data) const;

  const Program& program_;
  const Role& role_;
  RankPort port_;
  const BatchSource& training_batches_;
  const BatchSource* batches_;  // of the step that is enqueued
  const OpId first_update_, first_synchronization_;
  std::int64_t first_sample_ = 0;      // of the rank's share, counted from the step's first sample
  std::int64_t step_sample_ = 0;       // the first sample of the step that is enqueued
  double step_loss_scale_ = 1;         // and its loss scale
  Seconds loading_;                    // RankStep::loading, so far
  std::vector<std::int32_t> order_;    // positions of the tokens that the rank takes of a sample
  std::vector<std::int32_t> queries_;  // of those that it attends with
  std::vector<std::int32_t> first_rows_ = {0};  // of a microbatch, where those that it holds
                                                // between layers begin
  std::int32_t shift_ = 0;             // subtracted from ids: where the rank's vocabulary begins
  std::vector<std::byte*> addresses_;  // parallel to Role::args
  std::vector<std::int64_t> sizes_;    // parallel to Role::args, bytes
  std::vector<std::vector<std::byte>> staging_;  // host side of each copy, in op order
  std::vector<OpId> copies_;                     // parallel to staging_
  std::size_t next_copy_ = 0;                    // index into staging_ while a step is enqueued
  std::vector<std::pair<std::int64_t, std::int64_t>> transient_;  // arena ranges [begin, end)
  std::vector<std::byte> kept_, kept_on_host_;  // the other ranges, and the arena in host memory
};

}  // namespace lockstep
