// Too large: what one layout that does not fit says of others. Internal to core/plan.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "core/plan/space.hpp"

namespace lockstep {

/// Whether a layout with `a` keeps no less from forward to backward than with `b`.
inline bool keeps_no_less(Recomputation a, Recomputation b) {
  return a == b || a == Recomputation::None || b == Recomputation::Blocks;
}

/// Layouts that are too large, by their estimates. One that differs from such a layout in a larger
/// microbatch, in keeping more for the backward pass, or in more chunks, is too large as well.
class TooLarge {
 public:
  void add(const LayoutPoint& p) { known_[key(p)].push_back({p.microbatch, p.recomputation}); }
  bool implies(const LayoutPoint& p) const {
    if (covers(p)) return true;
    if (p.schedule != PipelineSchedule::Interleaved1F1B) return false;
    LayoutPoint whole = p;  // stages in one piece have fewer microbatches in flight
    whole.schedule = PipelineSchedule::OneFOneB;
    whole.chunks = 1;
    return covers(whole);
  }

 private:
  using Key = std::array<int, 12>;
  struct Entry {
    int microbatch;
    Recomputation recomputation;
  };
  static Key key(const LayoutPoint& p) {
    return {p.tensor,   p.context,
            p.pipeline, p.replicate,
            p.shard,    p.expert,
            p.folding,  p.expert_tensor,
            p.zero,     static_cast<int>(p.schedule),
            p.chunks,   static_cast<int>(p.offload)};
  }
  bool covers(const LayoutPoint& p) const {
    const auto it = known_.find(key(p));
    return it != known_.end() &&
           std::any_of(it->second.begin(), it->second.end(), [&](const Entry& e) {
             return p.microbatch >= e.microbatch && keeps_no_less(p.recomputation, e.recomputation);
           });
  }
  std::map<Key, std::vector<Entry>> known_;
};

}  // namespace lockstep
