// SessionFolder: the run folder of a session, from its claim to its report. Internal to
// core/session.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/analysis/report.hpp"
#include "core/checkpoint/checkpoint_store.hpp"
#include "core/ir/program.hpp"
#include "core/run/process.hpp"
#include "core/run_folder/folder_claim.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/run_folder/run_lock.hpp"

namespace lockstep {

/// Without a path there is none, and nothing is written.
class SessionFolder {
 public:
  SessionFolder(std::string path, std::string checkpoints)
      : path_(std::move(path)), checkpoints_(std::move(checkpoints)) {}

  bool given() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const;
  std::string checkpoints() const { return path(checkpoints_); }
  /// Whether another path lies in it, or is the folder itself.
  bool holds(const std::string& other) const;

  // The leader's part.
  /// Takes it for a run of this name, and removes what a crash has left there: of checkpoints, too,
  /// if the run `trains`. What is there stays if the run goes on with it.
  Result<void> take(const std::string& run, bool goes_on, bool trains);
  /// Writes what is run, and opens the metrics.
  Result<void> describe(const std::string& scenario, const Program& program, int first_step,
                        bool tensorboard);
  Result<void> log(const StepResult& step, std::int64_t tokens_per_step, const StepLosses& losses);
  /// The run has begun: see FolderClaim::keep().
  void keep();
  /// Writes what came out.
  Result<void> close(const Trace& trace, const Report& report);

  // Every process's.
  /// Where checkpoints are saved, for as long as this exists. The rules' check_folder is set here.
  CheckpointStore& open_store(CheckpointRules rules);
  /// Writes what this process was doing; false if nothing is known, or nothing can be written.
  bool write_flight(const Program& program, const Process& process) const;

 private:
  std::string path_, checkpoints_;
  std::optional<RunLock> lock_;
  std::unique_ptr<CheckpointStore> store_;
  std::optional<MetricsLog> metrics_;
  std::optional<FolderClaim> claim_;  // ends before the lock does
};

}  // namespace lockstep
