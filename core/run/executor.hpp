// Executor: runs a program on real devices; shared by the backends that compute. One host thread
// per rank of this process walks its role's ops every step, enqueues them and waits for the device
// once, at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/run/backend.hpp"
#include "core/run/device.hpp"
#include "core/run/drive.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// What the executor needs of one rank. The backend owns device and communicator; they outlive the
/// run.
struct RankPort {
  Rank rank = 0;
  Device* device = nullptr;
  Communicator* communicator = nullptr;
  Drive* drive = nullptr;  // execute() opens it, if the rank keeps something on a drive
};

struct ExecutorOptions {
  /// Fill the arena with 0xFF bytes (NaN in every floating type) before the first step, and all but
  /// its persistent buffers before every step, so that a value that is read before it is written
  /// shows in the loss.
  bool poison = false;
  Process* process = nullptr;  // null if this process runs all ranks
  /// What the devices of this process share, with whose activity the process itself is known to
  /// others; null: nothing is recorded of what they do.
  RunContext* context = nullptr;
  /// If this process runs all ranks: for how long no op may end, although some have begun and
  /// nothing computes, before the run fails; seconds, 0: for ever. Among several processes, each
  /// has a Watch of its own.
  double timeout = 0;
};

/// Runs options.steps steps, beginning with the step of the initial state, or 0 without one.
/// options.trace_from counts from the first step of this run, Span::step and StepResult::step from
/// the start of training. The program's Input says which samples a rank reads, in which order, and
/// what is subtracted from token ids.
/// Spans of the first traced step begin at time 0. The loss and the norm of a step are those of the
/// lowest rank that copies them to the host, 0 if none does. A step in which one of them is not
/// finite is reported, and options.on_nonfinite says what follows.
/// The first error of any rank ends the run of all of them and is returned: Unsupported (a kernel
/// that a device lacks, before any op runs), InvalidSpec (initial state does not fit, or there is
/// no folder for what lies on a drive), OutOfMemory (a drive has no room for it), Device, or what
/// options.store returned.
/// Several processes call it together, with the same program and options, which they compare before
/// the first step. Spans and state are in the result of the leader (process 0), which alone calls
/// on_step and on_note; any process may cancel. An error in the middle of a step reaches the other
/// processes by itself; for any other error the caller tells them by Process::fail or
/// Process::end_all. Requires verify(program).empty(), and one port for each rank of this process,
/// by ascending rank. Every rank belongs to one process, and higher ranks to later processes.
Result<RunResult> execute(const Program& program, const RunOptions& options,
                          const std::string& backend, std::span<const RankPort> ports,
                          const BatchSource& batches, const ExecutorOptions& executor_options = {});

}  // namespace lockstep
