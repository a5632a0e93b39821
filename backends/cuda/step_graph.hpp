// StepGraph: the step of one rank as a CUDA graph: recorded once, then given to the GPU by one
// call. Addresses, streams and order are those of every step; what changes from step to step is
// read from the GPU's memory.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

class StepGraph {
 public:
  /// `origin`: the stream that graphs are launched into; `streams`: those that a step uses. They
  /// outlive the graph, as the driver does. Errors: OutOfMemory, Device.
  static Result<std::unique_ptr<StepGraph>> create(Driver& driver, StreamHandle origin,
                                                   const std::vector<StreamHandle>& streams);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// From now on what the streams are given is recorded and does not run; from one thread.
  Result<void> begin();
  bool recording() const { return recording_; }
  /// Ends recording; after a failure of what was recorded, `keep` false forgets it.
  Result<void> end(bool keep);
  bool recorded() const { return graph_ != nullptr; }
  /// Requires recorded(). Previous launches have ended.
  Result<void> launch(const StepContext& context);

  /// Where a launch reads its numbers: KernelCall::context_at.
  const StepContext* context() const { return reinterpret_cast<const StepContext*>(on_gpu_); }
  StreamHandle origin() const { return origin_; }

 private:
  StepGraph(Driver& driver, StreamHandle origin, const std::vector<StreamHandle>& streams)
      : driver_(driver), origin_(origin), streams_(streams) {}

  Driver& driver_;
  StreamHandle origin_;
  std::vector<StreamHandle> streams_;
  std::byte *pinned_ = nullptr, *on_gpu_ = nullptr;  // a StepContext each
  std::vector<EventHandle> events_;                  // the beginning, then the end of each stream
  GraphHandle graph_ = nullptr;
  bool recording_ = false;
};

}  // namespace lockstep::cuda
