#include "core/analysis/memory_map.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/ir/lifetimes.hpp"

namespace lockstep {
std::vector<BufferLife> buffer_lives(const StepGraph& step, Rank rank) {
  const Rank original = step.trace().same_as[rank];
  const Role& role = step.program()->role_of(original);
  const StepGraph::Range range = step.of_rank(original);
  std::vector<BufferLife> lives;
  if (range.first == range.last) return lives;
  const BufferUses uses(role);
  for (const BufferId id : role.buffers.ids()) {
    const Buffer& buffer = role.buffer(id);
    if (buffer.is_view() || buffer.tier != Tier::Device || buffer.bytes.v == 0) continue;
    BufferLife life;
    life.buffer = id;
    life.offset = buffer.offset;
    life.bytes = buffer.bytes.v;
    life.kind = buffer.kind;
    life.from = step.begin();
    life.until = step.end();
    if (!buffer.persistent()) {
      for (const OpId op : uses.of(id)) {
        const SpanIndex i = step.find(original, op);
        if (i < 0) continue;
        if (life.first < 0 || step[i].begin < step[life.first].begin) life.first = i;
        if (life.last < 0 || step[i].end > step[life.last].end) life.last = i;
      }
      if (life.first < 0) continue;
      life.from = step[life.first].begin;
      life.until = step[life.last].end;
    }
    lives.push_back(life);
  }
  std::sort(lives.begin(), lives.end(), [](const BufferLife& a, const BufferLife& b) {
    return std::tie(a.from, a.offset, a.buffer) < std::tie(b.from, b.offset, b.buffer);
  });
  return lives;
}

double ArenaState::fragmentation() const {
  if (free() <= 0) return 0;
  return 1 - static_cast<double>(largest_hole) / static_cast<double>(free());
}

std::vector<std::size_t> ArenaState::next_freed() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!live[i].persistent()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return live[a].until < live[b].until; });
  return order;
}

ArenaState arena_at(const std::vector<BufferLife>& lives, std::int64_t arena, SimTime t) {
  ArenaState state;
  state.arena = arena;
  for (const BufferLife& life : lives) {
    if (life.from > t) break;
    if (t < life.until || life.persistent()) state.live.push_back(life);
  }
  std::sort(state.live.begin(), state.live.end(), [](const BufferLife& a, const BufferLife& b) {
    return std::tie(a.offset, a.buffer) < std::tie(b.offset, b.buffer);
  });
  std::int64_t end = 0;
  for (const BufferLife& life : state.live) {
    state.used += life.bytes;
    state.largest_hole = std::max(state.largest_hole, life.offset - end);
    end = std::max(end, life.offset + life.bytes);
  }
  state.largest_hole = std::max(state.largest_hole, arena - end);
  return state;
}

std::int64_t total_bytes(const MemorySample& sample) {
  return std::accumulate(sample.bytes_by_kind.begin(), sample.bytes_by_kind.end(), std::int64_t{0});
}

const MemorySample* MemoryCurve::at(SimTime t) const {
  const auto after =
      std::upper_bound(samples.begin(), samples.end(), t,
                       [](SimTime time, const MemorySample& s) { return time < s.time; });
  return after == samples.begin() ? nullptr : &*(after - 1);
}

MemoryCurve memory_curve(const Trace& trace, Rank rank, std::span<const MemorySample> samples) {
  MemoryCurve curve;
  if (to_size(rank) < trace.peak_memory.size()) curve.arena = trace.peak_memory[rank];
  const Rank original = trace.same_as[rank];
  const auto first =
      std::lower_bound(samples.begin(), samples.end(), original,
                       [](const MemorySample& s, Rank value) { return s.rank < value; });
  const auto last =
      std::upper_bound(first, samples.end(), original,
                       [](Rank value, const MemorySample& s) { return value < s.rank; });
  curve.samples = {first, last};
  for (const MemorySample& sample : curve.samples) {
    const std::int64_t bytes = total_bytes(sample);
    if (bytes <= curve.peak) continue;
    curve.peak = bytes;
    curve.peak_time = sample.time;
  }
  return curve;
}

}  // namespace lockstep
