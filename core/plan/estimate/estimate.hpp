// Estimate: a layout's step time and memory by levels, each exact for what it looks at, without the
// whole program.
//
// - Layers: small programs of the same layout, with few blocks and few microbatches, are lowered
//   and simulated like any other. What one more block and one more microbatch add to time and
//   memory is read from them. They are remembered, so that layouts that differ in schedule, chunks
//   or number of microbatches share them.
// - Pipeline: the actions of the schedule are run as a list with these times (pipeline_run.hpp).
//   Once every rank repeats itself, a period of microbatches adds the same time each.
// - Data parallelism: what a small program takes beyond its own actions, such as gathers at the
//   begin, reductions at the end and the update, is laid over the pipeline.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/plan/estimate/probe.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

struct StageCosts;

struct LayoutEstimate {
  Seconds step_time;
  Bytes needed;  // MemoryFigures::needed of the rank that needs most
  /// Why EstimateClaim does not hold; empty if it does.
  std::string_view unclaimed;
};

/// How far the estimate of a layout within the claim is from its full simulation, of random layouts
/// (docs/search.md): the step time of half of them, and of all of them, either way; and by how much
/// the memory needed is under at worst.
struct EstimateClaim {
  static constexpr double kMedianTime = 0.01, kWorstTime = 0.03;
  static constexpr double kMemoryUnder = 0.5;
  /// What 19 in 20 of all layouts keep, the claim or not; searches take estimates to be so sure.
  static constexpr double kUsualTime = 0.035;
  /// By how much the memory may be too high before a layout is given up for it.
  static constexpr double kMemoryOver = 0.05, kMemoryOverUnclaimed = 0.15;
};

/// Why nothing is claimed of a layout's estimate; empty if the claim holds.
std::string_view outside_the_claim(const Scenario& layout);

class Estimator {
 public:
  explicit Estimator(Prober prober);
  ~Estimator();
  /// Requires that the scenario validates and that its model is a transformer. Errors: those of
  /// the prober. Several threads may call it at once; the result does not depend on what was asked
  /// before.
  Result<LayoutEstimate> estimate(const Scenario& layout);
  /// A small program that estimates need, or two of them.
  struct Piece {
    Scenario key;
    Scenario layout;  // one that needs it
  };
  /// What the estimates of these layouts need and is not known yet, each once, the longest first.
  /// Threads that share pieces out wait less for each other than those
  /// that share layouts.
  std::vector<Piece> missing(const std::vector<const Scenario*>& layouts);
  /// Makes a piece. The estimate that needs it will tell its errors.
  void make(const Piece& piece);
  /// How many small programs have been made so far.
  int probes() const { return probes_; }

 private:
  struct Memory;
  struct StepFigures;
  struct StepGrid;
  Result<std::shared_ptr<const StepFigures>> step_figures(const Scenario& small);
  Result<std::shared_ptr<const StageCosts>> costs_of_stages(const Scenario& smallest,
                                                            const Scenario& layout);
  static bool has_small_programs(const Scenario& layout);
  /// Of the whole program, for layouts without small ones.
  Result<LayoutEstimate> estimate_whole(const Scenario& layout);
  Result<LayoutEstimate> estimate_step(const Scenario& layout);
  Result<LayoutEstimate> estimate_pipeline(const Scenario& layout);
  std::atomic<int> probes_ = 0;
  Prober prober_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace lockstep
