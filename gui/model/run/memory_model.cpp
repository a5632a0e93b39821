#include "gui/model/run/memory_model.hpp"

namespace lockstep::gui {

MemoryModel make_memory_model(RunPtr run, Rank rank) {
  MemoryModel model;
  model.run = std::move(run);
  model.rank = rank;
  const RunView& view = *model.run;
  model.begin = view.lanes.begin();
  model.end = view.lanes.end();
  model.curve = memory_curve(view.trace, rank);
  if (const ClusterSpec* cluster = view.cluster()) {
    model.capacity = memory_per_rank(*cluster, view.world_size()).v;
    if (view.program) {
      model.device = device_memory(*view.program, view.program->role_of(rank), *cluster);
    }
  }
  const std::vector<std::int32_t> steps = traced_steps(view.trace);
  if (view.program && !steps.empty()) {
    const StepGraph graph(view.trace, steps.front(), &*view.program);
    model.begin = graph.begin();
    model.end = graph.end();
    model.lives = buffer_lives(graph, rank);
  }
  return model;
}

std::int64_t MemoryModel::process() const {
  std::int64_t sum = curve.arena;
  for (const MemoryTerm& term : device.terms) sum += term.bytes.v;
  return sum;
}

std::string MemoryModel::describe(const BufferLife& life) const {
  const Program& program = *run->program;
  const Buffer& buffer = program.role_of(rank).buffer(life.buffer);
  std::string text(to_string(buffer.kind));
  if (buffer.name >= 0) text += " " + program.names[buffer.name];
  if (buffer.layer >= 0) text += ", layer " + std::to_string(buffer.layer);
  if (buffer.microbatch >= 0) text += ", microbatch " + std::to_string(buffer.microbatch);
  return text;
}

}  // namespace lockstep::gui
