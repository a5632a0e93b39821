#include "core/plan/estimate/probe.hpp"

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

/// The part of the step of every op. What belongs to no pass is in the part of the op before it.
std::vector<StepPart> parts_of(const Role& role) {
  Microbatch last = 0;
  for (const Op& op : role.ops) {
    if (op.phase == Phase::F) last = std::max(last, op.microbatch);
  }
  std::vector<StepPart> parts;
  StepPart part = StepPart::Forward;
  for (const Op& op : role.ops) {
    switch (op.phase) {
      case Phase::F:
        part = StepPart::Forward;
        break;
      case Phase::R:
      case Phase::B:
      case Phase::I:
      case Phase::W:
        part = (op.phase == Phase::B || op.phase == Phase::W) && op.microbatch == last
                   ? StepPart::LastBackward
                   : StepPart::Backward;
        break;
      case Phase::O:
      case Phase::S:
        part = StepPart::Update;
        break;
      case Phase::None:
        break;
    }
    parts.push_back(part);
  }
  return parts;
}

/// The place of every op. What belongs to no layer is in the place of the op before it.
std::vector<LayerPlace> places_of(const Role& role, int last_layer) {
  std::vector<LayerPlace> places;
  LayerPlace place = LayerPlace::First;
  for (const Op& op : role.ops) {
    if (op.layer >= 0) {
      place = op.layer == 0            ? LayerPlace::First
              : op.layer == last_layer ? LayerPlace::Last
                                       : LayerPlace::Block;
    }
    places.push_back(place);
  }
  return places;
}

}  // namespace

RoleMemory role_memory(const Probe& probe, RoleId role_id, const FrameworkSpec& framework) {
  const Role& role = probe.program.roles[role_id];
  std::vector<double> change(role.ops.size() + 1, 0);
  double persistent = 0;
  for (const Buffer& b : role.buffers) {
    if (b.is_view() || b.tier != Tier::Device) continue;
    if (b.persistent()) {
      persistent += static_cast<double>(b.bytes.v);
      continue;
    }
    change[to_size(b.first())] += static_cast<double>(b.bytes.v);
    change[to_size(b.last()) + 1] -= static_cast<double>(b.bytes.v);
  }
  const std::vector<StepPart> parts = parts_of(role);
  int last_layer = 0;
  for (const Role& any : probe.program.roles) {
    for (const Op& op : any.ops) last_layer = std::max<int>(last_layer, op.layer);
  }
  const std::vector<LayerPlace> places = places_of(role, last_layer);
  ByMoment<double> most{};
  double alive = 0, peak = 0;
  // Bytes alive before the first computation of a pass: of microbatches 1 and 2, for F and for I.
  double before[2][2] = {{-1, -1}, {-1, -1}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Op& op = role.ops[i];
    const bool forward = op.phase == Phase::F;
    const bool passes = op.kind == OpKind::Call && (forward || op.phase == Phase::I);
    if (passes && (op.microbatch == 1 || op.microbatch == 2)) {
      double& moment = before[forward ? 0 : 1][op.microbatch - 1];
      if (moment < 0) moment = alive;
    }
    alive += change[i];
    double& moment = most[parts[i]][places[i]];
    moment = std::max(moment, alive);
    peak = std::max(peak, alive);
  }
  // A caching allocator has no arena with gaps between buffers, but loses a part of what is alive
  // between its blocks (core/memory/device_memory.cpp).
  const bool blocks = framework.caching_allocator;
  const double factor = 1 + (blocks ? framework.fragments : 0);
  RoleMemory memory;
  memory.holes = blocks ? 0 : static_cast<double>(role.arena.v) - persistent - peak;
  for (int i = 0; i < kNumStepParts; ++i) {
    for (int j = 0; j < kNumLayerPlaces; ++j) {
      const auto part = static_cast<StepPart>(i);
      const auto place = static_cast<LayerPlace>(j);
      memory.needed[part][place] = static_cast<double>(probe.needed[role_id].v) - memory.holes -
                                   factor * (peak - most[part][place]);
    }
  }
  if (before[0][1] >= 0) memory.kept = factor * (before[0][1] - before[0][0]);
  memory.pending = memory.kept;
  if (before[1][1] >= 0) memory.pending += factor * (before[1][1] - before[1][0]);
  return memory;
}

}  // namespace lockstep
