// StepGraph: the step of one rank as a CUDA graph, which is recorded once and then given to the GPU
// by one call. Addresses, streams and order are the same in every step; what changes from step to
// step is read from the GPU's memory.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

class StepGraph {
 public:
  /// `origin` is the stream on which graphs are launched; `streams` are those that a step uses.
  /// They and the driver must outlive the graph. Errors: OutOfMemory, Device.
  static Result<std::unique_ptr<StepGraph>> create(Driver& driver, StreamHandle origin,
                                                   const std::vector<StreamHandle>& streams);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// From now on what is given to the streams is recorded and does not run. One thread must give
  /// it.
  Result<void> begin();
  bool recording() const { return recording_; }
  /// Ends the recording. `keep` is false after a failure in what was recorded, which is then
  /// forgotten.
  Result<void> end(bool keep);
  bool recorded() const { return graph_ != nullptr; }
  /// Requires recorded(), and that previous launches have ended.
  Result<void> launch(const StepContext& context);

  /// The KernelCall::context_at of a recorded kernel: where a launch reads the numbers of its step.
  const StepContext* context() const { return reinterpret_cast<const StepContext*>(on_gpu_); }
  StreamHandle origin() const { return origin_; }

 private:
  StepGraph(Driver& driver, StreamHandle origin, const std::vector<StreamHandle>& streams)
      : driver_(driver), origin_(origin), streams_(streams) {}

  Driver& driver_;
  StreamHandle origin_;
  std::vector<StreamHandle> streams_;
  std::byte *pinned_ = nullptr, *on_gpu_ = nullptr;  // each holds a StepContext
  std::vector<EventHandle> events_;                  // the beginning, then the end of each stream
  GraphHandle graph_ = nullptr;
  bool recording_ = false;
};

}  // namespace lockstep::cuda
