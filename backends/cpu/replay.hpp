// Replay: how long kernels take where a program runs them, after each other and on the memory that
// its ranks have.
#pragma once

#include <memory>
#include <vector>

#include "core/base/result.hpp"
#include "core/calibration/calibration.hpp"
#include "core/cluster/what_if.hpp"
#include "core/ir/program.hpp"

namespace lockstep::cpu {

/// Runs the calls of every rank's compute stream in list order, each rank on a thread of its own
/// (one_core.hpp) and all at one time. Ranks neither send nor wait for each other, so what they
/// compute has no meaning: memory begins as zeros. Calls whose operands lie in host memory are left
/// out.
class Replay {
 public:
  /// Error OutOfMemory if this machine cannot give a rank's arena. `program` has to outlive it.
  static Result<Replay> prepare(const Program& program);
  Replay(Replay&&) noexcept;
  Replay& operator=(Replay&&) noexcept;
  ~Replay();

  /// So many steps of every rank. The first finds its memory in no cache, as the step of a training
  /// does that something else ran before.
  void run(int steps);

  /// How long kernels took in all steps so far: processor time of the thread, in which other work
  /// that interrupts it does not count. Of each kernel of the list it is the median over steps, and
  /// of kernels that do the same work the mean.
  std::vector<KernelTime> times() const;

  /// Of every step so far, how its calls differ from what times() says: 1 is as long.
  std::vector<CallFactors> factors() const;

 private:
  class Replayed;
  struct Ranks;
  explicit Replay(std::unique_ptr<Ranks> ranks);
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace lockstep::cpu
