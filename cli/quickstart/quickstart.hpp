// The first look at Lockstep: measures this machine, trains a small model on it, predicts the same
// training, and lays the two side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"

namespace lockstep {

struct QuickstartOptions {
  std::string scenario;  // file
  std::string out;       // folder, for the profile and the two runs
  int cores = 1;         // of this machine
  int steps = 0;         // to train; 0: as many as the scenario says
  /// Says what is being done: a part of the work, and how much of it is done, if that is known.
  std::function<void(const std::string& what, int done, int all)> on_progress;
};

/// As many ranks as the cores can have, so that computation and waiting mean the same in the
/// prediction and in the measurement: a power of two, at most eight. They are pipelines of two
/// stages; a single rank is none.
struct QuickstartLayout {
  int stages = 1, replicas = 1;
  int ranks() const { return stages * replicas; }
  bool operator==(const QuickstartLayout&) const = default;
};
QuickstartLayout quickstart_layout(int cores);

/// One figure, in seconds, or in tokens per second.
struct Figure {
  enum class Unit { Seconds, PerSecond };
  std::string name;
  double predicted = 0, measured = 0;
  Unit unit = Unit::Seconds;
  /// What the measurement differs by, relative to the prediction.
  double difference() const { return measured / predicted - 1; }
};

/// What the training and other programs had of the machine in the traced steps.
struct MachineUse {
  int cores = 1, ranks = 1;
  double load = -1;          // the system's load average of the last minute; negative: not known
  double others = -1;        // cores that other programs kept busy, on average; negative: not known
  Seconds clock, processor;  // of the whole training: by the clock, and all cores' time together
  /// Whether other programs took more than a tenth of the cores that ranks have.
  bool busy() const { return others > cores - ranks + 0.1 * ranks; }
};

struct Quickstart {
  std::string model, data;
  QuickstartLayout layout;
  int microbatches = 1;
  std::int64_t parameters = 0, tokens_per_step = 0;
  Bytes peak_memory;           // of the rank that needs most, in the prediction and in the training
  std::vector<double> losses;  // by step
  std::vector<Figure> figures;
  MachineUse use;
};

/// Replaces what an earlier quickstart left in `out`.
Result<Quickstart> run_quickstart(const QuickstartOptions& options);

}  // namespace lockstep
