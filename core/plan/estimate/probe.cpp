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
        part = StepPart::Update;
        break;
      case Phase::None:
        break;
    }
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

BytesByPart needed_by_part(const Probe& probe, RoleId role_id, const FrameworkSpec& framework) {
  const Role& role = probe.program.roles[role_id];
  std::vector<double> change(role.ops.size() + 1, 0);
  for (const Buffer& b : role.buffers) {
    if (b.parent.valid() || b.persistent() || b.on_host) continue;
    change[to_size(b.first)] += static_cast<double>(b.bytes.v);
    change[to_size(b.last) + 1] -= static_cast<double>(b.bytes.v);
  }
  const std::vector<StepPart> parts = parts_of(role);
  BytesByPart most{};
  double alive = 0, peak = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    alive += change[i];
    most[parts[i]] = std::max(most[parts[i]], alive);
    peak = std::max(peak, alive);
  }
  // What is lost between an allocator's blocks is a part of what is alive.
  const double factor = 1 + (framework.caching_allocator ? framework.fragments : 0);
  BytesByPart needed{};
  for (int i = 0; i < kNumStepParts; ++i) {
    const auto part = static_cast<StepPart>(i);
    needed[part] = static_cast<double>(probe.needed[role_id].v) - factor * (peak - most[part]);
  }
  return needed;
}

}  // namespace lockstep
