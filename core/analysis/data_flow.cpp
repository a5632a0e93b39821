#include "core/analysis/data_flow.hpp"

#include <algorithm>
#include <set>

namespace lockstep {
namespace {

/// Where gradients lie: bytes [begin, end) of a buffer that is no view.
struct GradientPlace {
  BufferId root;
  std::int64_t begin = 0, end = 0;
  int layer = -1;
};

GradientPlace place_of(const Role& role, BufferId id) {
  GradientPlace place;
  place.layer = role.buffer(id).layer;
  const std::int64_t bytes = role.buffer(id).bytes.v;
  for (; role.buffer(id).is_view(); id = role.buffer(id).parent()) {
    place.begin += role.buffer(id).offset;
  }
  place.root = id;
  place.end = place.begin + bytes;
  return place;
}

bool is_kind(const Role& role, BufferId id, BufferKind kind) {
  return role.buffer(role.root(id)).kind == kind || role.buffer(id).kind == kind;
}

/// The part of `times` that is not after t; 0 if there are none.
double part_until(const std::vector<SimTime>& times, SimTime t) {
  if (times.empty()) return 0;
  const auto past = std::count_if(times.begin(), times.end(), [&](SimTime at) { return at <= t; });
  return static_cast<double>(past) / static_cast<double>(times.size());
}

}  // namespace

DataFlow::DataFlow(const StepGraph& step, Rank rank) {
  const Program& program = *step.program();
  const Role& role = program.role_of(rank);
  std::map<BufferId, std::vector<GradientPlace>> places;  // by root
  for (std::size_t b = 0; b < role.buffers.size(); ++b) {
    const BufferId id{static_cast<std::int32_t>(b)};
    if (role.buffer(id).kind == BufferKind::Grad && role.buffer(id).layer >= 0) {
      const GradientPlace place = place_of(role, id);
      places[place.root].push_back(place);
    }
  }
  // A collective sums the gradients that lie in its buffer, such as a bucket.
  std::map<BufferId, std::set<int>> known;
  const auto layers_in = [&](BufferId id) -> const std::set<int>& {
    const auto [it, is_new] = known.try_emplace(id);
    if (!is_new) return it->second;
    const GradientPlace whole = place_of(role, id);
    for (const GradientPlace& place : places[whole.root]) {
      if (place.begin < whole.end && whole.begin < place.end) it->second.insert(place.layer);
    }
    return it->second;
  };
  const StepGraph::Range range = step.of_rank(rank);
  for (SpanIndex i = range.first; i < range.last; ++i) {
    const Span& span = step[i];
    const Op& op = role.op(span.op);
    const auto args = role.args_of(op);
    if (is_collective(op.kind)) {
      if (args.empty() || !is_kind(role, args.front(), BufferKind::Grad)) continue;
      for (const int layer : layers_in(args.front())) {
        layers_[layer].sums.push_back({span.active, span.end});
      }
      continue;
    }
    if (op.kind != OpKind::Call) continue;
    const bool backward = op.phase == Phase::B || op.phase == Phase::I || op.phase == Phase::W;
    if (op.phase == Phase::F) passes_[op.microbatch].forward.push_back({span.begin, span.end});
    if (backward) passes_[op.microbatch].backward.push_back({span.begin, span.end});
    std::set<int> added;
    for (std::size_t a = 0; a < args.size(); ++a) {
      if (access(program, op, a) == Access::Read) continue;
      if (backward && is_kind(role, args[a], BufferKind::Grad)) {
        const std::set<int>& layers = layers_in(args[a]);
        added.insert(layers.begin(), layers.end());
      } else if (op.phase == Phase::O && (is_kind(role, args[a], BufferKind::Param) ||
                                          is_kind(role, args[a], BufferKind::Master))) {
        layers_[op.layer].updates.push_back(span.end);
        break;
      }
    }
    for (const int layer : added) layers_[layer].added.push_back(span.end);
  }
}

double DataFlow::done(const std::vector<Work>& work, SimTime t) {
  std::int64_t past = 0, whole = 0;
  for (const Work& w : work) {
    whole += (w.end - w.begin).count();
    past += (std::clamp(t, w.begin, w.end) - w.begin).count();
  }
  return whole > 0 ? static_cast<double>(past) / static_cast<double>(whole) : 0;
}

std::vector<MicrobatchProgress> DataFlow::microbatches(SimTime t) const {
  std::vector<MicrobatchProgress> out;
  for (const auto& [microbatch, passes] : passes_) {
    out.push_back({microbatch, done(passes.forward, t), done(passes.backward, t)});
  }
  return out;
}

GradientProgress DataFlow::gradients(int layer, SimTime t) const {
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return {};
  const Layer& of = found->second;
  GradientProgress progress;
  progress.added = part_until(of.added, t);
  progress.updated = !of.updates.empty() && part_until(of.updates, t) == 1;
  std::size_t ended = 0;
  for (const Work& sum : of.sums) {
    ended += sum.end <= t ? 1 : 0;
    progress.moving = progress.moving || (sum.begin <= t && t < sum.end);
  }
  progress.summed = of.sums.empty()
                        ? (progress.added == 1 ? 1.0 : 0.0)
                        : static_cast<double>(ended) / static_cast<double>(of.sums.size());
  return progress;
}

}  // namespace lockstep
