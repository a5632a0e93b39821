// Session: one run of a scenario or of a program's text on a backend, from lowering to the report.
// It takes a run folder, goes on from a checkpoint, trains, validates and saves. It prints nothing:
// what its caller should know goes to an observer.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/run/backend.hpp"
#include "core/run/process.hpp"
#include "core/session/subject.hpp"

namespace lockstep {

/// SessionOptions::resume: go on where the run folder's own checkpoints are, if there are any.
inline constexpr const char* kResumeAuto = "auto";

/// How a subject is run. Errors name options as the command line does: --out, --resume, ...
struct SessionOptions {
  std::string backend = "sim";
  std::string out;                  // run folder; empty: nothing is written
  std::string resume;               // a run folder, checkpoints or kResumeAuto; empty: begin anew
  std::vector<std::string> accept;  // settings that may differ from those of the checkpoint
  /// How many steps to run; of a training that resumes by itself (kResumeAuto), at which to end.
  /// None: what is left of the subject's own, or one on the simulator.
  std::optional<int> steps;
  std::optional<int> trace_from, trace_steps;
  int threads = 1;                            // per rank
  int processes = 0;                          // of this run on this machine; 0: not known
  bool tensorboard = false;                   // write metrics for it, too
  std::string communicator;                   // of the backend cuda
  bool cuda_graphs = false, cudnn = false;    // of the backend cuda
  double timeout = 0;                         // ExecutorOptions::timeout
  const std::atomic<bool>* cancel = nullptr;  // once it is true, the run stops after its step
};

/// What a training is about to do.
struct SessionPlan {
  int first_step = 0, steps = 0;      // 0-based, and how many
  std::int64_t samples_per_step = 0;  // of all ranks: tokens, or images
  SampleKind kind = SampleKind::Tokens;
};

/// Who follows a session. Its functions are called from the caller's thread, but for on_hang.
struct SessionObserver {
  virtual ~SessionObserver() = default;
  virtual void on_begin(const SessionPlan& /*plan*/) {}
  /// A step has ended, in the leader; with the loss of the validation that followed, if one did.
  virtual void on_step(const StepResult& /*step*/, std::optional<double> /*validation*/) {}
  virtual void on_end() {}  // no further step comes, even if an error ended the training
  virtual void on_note(const std::string& /*text*/) {}  // what a user should know of, in the leader
  /// The run was cancelled; `where` says after which step, and which checkpoint is the newest.
  virtual void on_stopped(const std::string& where) { on_note("stopped " + where); }
  /// An op hangs for ever, so that this process is ended after this call, which comes from another
  /// thread. `waits` says what waits for what. Never called without a timeout.
  virtual void on_hang(const Error& /*error*/, const std::string& /*waits*/) {}
};

/// How a session has ended, if not by an error.
struct SessionOutcome {
  std::optional<Report> report;  // in the leader; none if nothing was left to do
  Trace trace;                   // likewise
  Ending ending = Ending::Done;
  std::string diverged;  // what to say if the loss or the gradient was not finite
};

/// Runs the subject in this process, or with others that call it together, each with its
/// `process`.
Result<SessionOutcome> run_session(const Subject& subject, const SessionOptions& options,
                                   Process& process, SessionObserver& observer);

}  // namespace lockstep
