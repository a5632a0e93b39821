// PointRun: one run of a scenario or of a program's text, from lowering to the run folder.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "backends/backends.hpp"
#include "cli/commands.hpp"
#include "core/analysis/report.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/checkpoint_store.hpp"
#include "core/run/backend.hpp"
#include "core/run/process.hpp"
#include "core/run_folder/folder_claim.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/run_folder/run_lock.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// What is run, and what a program does not say: on which cluster, on which data, and what is kept
/// of the run.
struct Subject {
  std::function<Result<Program>()> program;
  ClusterSpec cluster;
  WhatIfSpec what_if;
  std::string dataset;
  std::string drive_folder;  // RunOptions::drive_folder
  CheckpointSpec checkpoint;
  ValidationSpec validation;  // with the path of its data
  NonFinite on_nonfinite = NonFinite::Stop;
  SpikeLimits spikes;
  std::string scenario;     // resolved text; empty if there is none
  std::string model_lacks;  // ModelSpec::why_only_simulated()
};

/// The subject of a scenario, which must outlive it.
Subject subject_of(const Scenario& scenario);

/// How a run has ended, if not by an error.
struct PointOutcome {
  std::optional<Report> report;  // in the leader; none if nothing was left to do
  bool stopped = false;          // by a signal
  std::string diverged;          // what to say if the loss or the gradient was not finite
};

/// Runs one point of a sweep, or the only one.
class PointRun {
 public:
  PointRun(const RunArguments& arguments, const Console& console, const Subject& subject,
           Process& process, std::string out);
  Result<PointOutcome> run();

 private:
  bool leads() const { return process_.index() == 0; }
  std::string path(const std::string& name) const;
  bool saves_checkpoints() const;
  BackendOptions backend_options() const;
  /// Error OutOfMemory if the ranks that compute on this machine need more than it has free. The
  /// system would otherwise end some process once their memory is touched.
  Result<void> check_host_memory(const Program& program) const;
  /// Compares the scenario, the data and the version with those of the other processes.
  Result<void> agree_on_subject(const Program& program);
  /// Takes the run folder for this run, and removes what a crash has left there.
  Result<void> claim_folder();
  Result<void> load_state();
  bool goes_on_here() const;
  Result<std::string> resumed_folder() const;
  /// Decides which steps to run and to trace. `training_steps` are those of the whole training; 0
  /// if they are not known.
  Result<void> plan_steps(int training_steps);
  Result<void> open_validation(const Program& program);
  void advise(const Program& program);
  Result<void> write_subject(const Program& program);
  Result<RunResult> train(const Program& program, Backend& backend);
  bool write_flight(const Program& program) const;
  void log_step(const StepResult& step, std::int64_t tokens_per_step);
  Result<void> close_folder(const RunResult& ran, const Report& report);
  void say_ending(const RunResult& ran, PointOutcome& outcome) const;
  void note(const std::string& text) const;

  const RunArguments& arguments_;
  const Console& console_;
  const Subject& subject_;
  Process& process_;
  std::string out_;
  RunOptions options_;
  Settings settings_;
  std::string run_;  // identifies the training in its checkpoints
  std::optional<RunLock> lock_;
  std::optional<FoundCheckpoint> found_;
  std::unique_ptr<StateReader> state_;
  std::unique_ptr<CheckpointStore> store_;
  std::unique_ptr<MetricsLog> metrics_;
  bool simulated_ = false;
  bool complete_ = false;      // --resume auto found a training that has run all its steps
  bool metrics_lost_ = false;  // the last line could not be written
  int first_step_ = 0;
  Seconds saving_;                   // of the step that is logged next
  Waits waits_;                      // likewise
  std::map<Rank, int> late_;         // steps in which a rank was the straggler
  std::optional<double> validated_;  // likewise
  std::vector<ValidationLoss> validation_;
  Seconds saved_;  // by all saves so far
  int saves_ = 0;
  std::optional<FolderClaim> claim_;  // of the leader; ends before the lock does
};

}  // namespace lockstep
