// Data flow: how far a rank has come with the data of a step: with its microbatches, with the
// gradients that add up over them and over ranks, and with updating the parameters.
#pragma once

#include <map>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// How much of a microbatch's passes has been computed, as parts of the time that they take.
struct MicrobatchProgress {
  Microbatch microbatch = 0;
  double forward = 0, backward = 0;
  bool operator==(const MicrobatchProgress&) const = default;
};

/// What has become of the gradients of a layer.
struct GradientProgress {
  double added = 0;      // of the calls that add to them, the part that has ended
  double summed = 0;     // of their sums over ranks, the part that has ended; 1 if all are complete
  bool moving = false;   // a sum over ranks is under way
  bool updated = false;  // the parameters have been updated with them
  bool operator==(const GradientProgress&) const = default;
};

/// The flow of one step on one rank. What adds to which gradients is read from the program: calls
/// that write a gradient's buffer, collectives on buffers of which it is a part, and calls of the
/// optimizer that write parameters.
class DataFlow {
 public:
  /// Requires a program, and a rank with spans of its own.
  DataFlow(const StepGraph& step, Rank rank);
  /// By ascending microbatch, those that the rank computes.
  std::vector<MicrobatchProgress> microbatches(SimTime t) const;
  GradientProgress gradients(int layer, SimTime t) const;

 private:
  struct Work {
    SimTime begin{}, end{};
  };
  struct Passes {
    std::vector<Work> forward, backward;
  };
  struct Layer {
    std::vector<SimTime> added;  // ends of the calls that add to its gradients
    std::vector<Work> sums;      // over ranks
    std::vector<SimTime> updates;
  };
  static double done(const std::vector<Work>& work, SimTime t);

  std::map<Microbatch, Passes> passes_;
  std::map<int, Layer> layers_;
};

/// The transfers that `rank` takes part in and that move data at t, in the order of streams.
std::vector<SpanIndex> transfers_at(const StepGraph& step, Rank rank, SimTime t);

}  // namespace lockstep
