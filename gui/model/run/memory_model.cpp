#include "gui/model/run/memory_model.hpp"

#include "core/run/trace_builder.hpp"

namespace lockstep::gui {

MemoryModel make_memory_model(RunPtr run, Rank rank) {
  MemoryModel model;
  model.run = std::move(run);
  model.rank = rank;
  const RunView& view = *model.run;
  model.begin = view.lanes.begin();
  model.end = view.lanes.end();
  if (view.trace.memory.empty() && view.program && view.simulated()) {
    model.samples = std::make_shared<const std::vector<MemorySample>>(
        memory_samples(view.trace, *view.program, view.trace.same_as[rank]));
  }
  model.curve = memory_curve(view.trace, rank, model.samples ? *model.samples : view.trace.memory);
  if (const ClusterSpec* cluster = view.cluster()) {
    model.capacity = memory_per_rank(*cluster, view.world_size()).v;
    if (view.program) {
      model.device = device_memory(*view.program, view.program->role_of(rank), *cluster);
    }
  }
  const std::vector<std::int32_t> steps = traced_steps(view.trace);
  if (view.program && !steps.empty()) {
    const StepGraph graph(view.trace, steps.front(), view.program.get());
    model.begin = graph.begin();
    model.end = graph.end();
    model.lives = buffer_lives(graph, rank);
  }
  const Allocations& blocks = view.allocations;
  for (std::size_t i = 0; i < blocks.list.size(); ++i) {
    const Allocation& block = blocks.list[i];
    if (block.rank != rank) continue;
    BufferLife life;
    life.buffer = {static_cast<std::int32_t>(i)};
    life.offset = block.offset;
    life.bytes = block.bytes;
    life.from = block.from;
    life.until = block.until;
    const bool throughout = block.from <= model.begin && block.until >= model.end;
    life.first = life.last = throughout ? -1 : 0;
    model.lives.push_back(life);
  }
  if (rank < static_cast<Rank>(blocks.extent.size())) model.curve.arena = blocks.extent[rank];
  return model;
}

std::int64_t MemoryModel::process() const {
  std::int64_t sum = curve.arena;
  for (const MemoryTerm& term : device.terms) sum += term.bytes.v;
  return sum;
}

const Allocation& MemoryModel::block_of(const BufferLife& life) const {
  return run->allocations.list[static_cast<std::size_t>(life.buffer.v)];
}

int MemoryModel::ink_of(const BufferLife& life) const {
  return run->program ? static_cast<int>(life.kind) : block_of(life).asked_by;
}

std::string MemoryModel::describe(const BufferLife& life) const {
  if (!run->program) return run->allocations.names[block_of(life).asked_by];
  const Program& program = *run->program;
  const Buffer& buffer = program.role_of(rank).buffer(life.buffer);
  std::string text(to_string(buffer.kind));
  if (buffer.name >= 0) text += " " + program.names[buffer.name];
  if (buffer.layer >= 0) text += ", layer " + std::to_string(buffer.layer);
  if (buffer.microbatch >= 0) text += ", microbatch " + std::to_string(buffer.microbatch);
  return text;
}

}  // namespace lockstep::gui
