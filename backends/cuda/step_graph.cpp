#include "backends/cuda/step_graph.hpp"

#include <cstring>

namespace lockstep::cuda {

Result<std::unique_ptr<StepGraph>> StepGraph::create(Driver& driver, StreamHandle origin,
                                                     const std::vector<StreamHandle>& streams) {
  std::unique_ptr<StepGraph> graph(new StepGraph(driver, origin, streams));
  const auto pinned = driver.allocate(Memory::PinnedHost, sizeof(StepContext));
  if (!pinned) return pinned.error();
  graph->pinned_ = *pinned;
  const auto on_gpu = driver.allocate(Memory::Device, sizeof(StepContext));
  if (!on_gpu) return on_gpu.error();
  graph->on_gpu_ = *on_gpu;
  for (std::size_t i = 0; i < streams.size() + 1; ++i) {
    const auto event = driver.create_event(Timing::Off);
    if (!event) return event.error();
    graph->events_.push_back(*event);
  }
  return graph;
}

StepGraph::~StepGraph() {
  if (graph_ != nullptr) driver_.release(graph_);
  for (const EventHandle event : events_) driver_.release(event);
  if (on_gpu_ != nullptr) driver_.release(Memory::Device, on_gpu_);
  if (pinned_ != nullptr) driver_.release(Memory::PinnedHost, pinned_);
}

Result<void> StepGraph::begin() {
  if (auto done = driver_.begin_capture(origin_); !done) return done;
  recording_ = true;
  if (auto done = driver_.copy(origin_, on_gpu_, pinned_, sizeof(StepContext)); !done) return done;
  if (auto done = driver_.record(events_[0], origin_); !done) return done;
  for (const StreamHandle stream : streams_) {
    if (auto done = driver_.wait(stream, events_[0]); !done) return done;
  }
  return {};
}

Result<void> StepGraph::end(bool keep) {
  recording_ = false;
  Result<void> joined;
  for (std::size_t i = 0; i < streams_.size() && joined; ++i) {
    joined = driver_.record(events_[i + 1], streams_[i]);
    if (joined) joined = driver_.wait(origin_, events_[i + 1]);
  }
  const auto graph = driver_.end_capture(origin_);  // called in any case, to free the streams
  if (!joined) return joined;
  if (!graph) return graph.error();
  if (keep) {
    graph_ = *graph;
  } else {
    driver_.release(*graph);
  }
  return {};
}

Result<void> StepGraph::launch(const StepContext& context) {
  std::memcpy(pinned_, &context, sizeof context);
  return driver_.launch(origin_, graph_);
}

}  // namespace lockstep::cuda
