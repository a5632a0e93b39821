// Pipeline run: the actions of a pipeline simulated as a list, with the time of each action known.
#pragma once

#include <array>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/units.hpp"
#include "core/schedule/schedule.hpp"

namespace lockstep {

/// What an action takes, in seconds.
struct ActionTime {
  double early = 0;   // computation that does not need the input: a recomputation's first part
  double lead = 0;    // communication of the input before the computation, which the rank does not
                      // wait for while it has other work
  double busy = 0;    // the rank computes, and nothing else
  double layer = 0;   // from the begin of `busy` to the end of its last collective, after which the
                      // next action's `lead` can begin
  double result = 0;  // from the begin of `busy` until the result is there, after a last collective
};

/// What a message takes: how long it occupies its stream, and after what time it arrives.
struct MessageTime {
  double busy = 0, arrival = 0;  // seconds
};

/// The actions of one virtual stage, and what it keeps of a microbatch.
struct StageCost {
  ActionTime forward, backward, input, weight;  // F, B, I, W
  double kept = 0;                              // bytes, from F to the end of its backward pass
  double pending = 0;                           // the same from I to W
};

/// What an action of a phase takes.
const ActionTime& time_of(const StageCost& stage, Phase phase);

struct PipelineCost {
  IndexVector<Stage, StageCost> stages;
  IndexVector<Stage, MessageTime> forward, backward;  // between stage s and s + 1
};

struct PipelineRun {
  double makespan = 0;            // seconds, to the end of the last action
  IndexVector<int, double> kept;  // bytes by rank: the most that microbatches in flight keep
};

/// Bytes: the most that microbatches in flight keep on the rank of these actions.
double most_kept(const Actions& actions, const PipelineCost& cost);

/// Ranks of a pipeline whose devices have fewer cores than ranks. Each rank of the pipeline stands
/// for all that hold its stages.
struct SharedDevices {
  struct Part {
    int device = 0;
    double ranks = 0;  // how many of those that hold its stages lie on the device
  };
  IndexVector<int, std::vector<Part>> parts;  // by rank of the pipeline
  double cores = 1;  // how many ranks a device runs at full rate; more share it fairly
};

/// Runs the actions of every rank in their order. An action begins when the one before it on its
/// rank has ended and its input has arrived; messages of one direction between two ranks go one
/// after the other. Passes that run as one (Action::overlaps_next) are taken one after the other.
/// Requires check_schedule() to find nothing. With `shared`, an action progresses more slowly while
/// more ranks compute on its device than that has cores.
PipelineRun run_pipeline(const Schedule& schedule, const PipelineCost& cost,
                         const SharedDevices* shared = nullptr);

}  // namespace lockstep
