// V-Half and V-Min (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"). Each rank has
// two chunks in a V, and one building block of F, F, I, I is repeated for every microbatch. The
// distance between the parts of a block sets how long an activation lives, and so the memory; W
// goes into the gaps. The blocks leave more gaps at the begin and the end of the step. These are
// closed afterwards, as far as the peak of activations does not grow.
#include <algorithm>
#include <array>
#include <tuple>

#include "core/base/index_vector.hpp"
#include "core/schedule/generators.hpp"

namespace lockstep {
namespace {

/// F and I by chunk, in the order in which a microbatch goes through the V: chunk 0 down the ranks,
/// chunk 1 up, and back the same way. Then W of either chunk.
enum Kind { F0, F1, I1, I0, W };
constexpr int kNumKinds = 5;
constexpr int kPeriod = 6;  // F, I and W of two chunks

using Block = IndexArray<int, int, 4>;  // slots of F0, F1, I1, I0 of the first microbatch

Block block_of_v_half(int p, int r) {
  const int pause = p % 2 == 0 ? 3 : 0;  // without it, two parts would fall on one slot
  return {2 * r, 3 * p - r - 2, 3 * p + pause + 2 * r - 1, 6 * p + pause - r - 2};
}
Block block_of_v_min(int p, int r) {
  const int pause = p % 3 == 0 ? 2 : 0;
  return {r, 2 * p - r - 1, 2 * p + pause + r, 4 * p + pause - r - 1};
}

/// The parts of one rank on a grid of equal slots; the slots of each kind are ascending. Those of W
/// are for both chunks, in the order of the I that they belong to.
class RankSlots {
 public:
  struct Part {
    int slot;
    Kind kind;
    int index;  // microbatch; for a W, which I of the rank it belongs to
  };

  RankSlots(const Block& block, int m) {
    for (int k = F0; k <= I0; ++k) {
      for (int i = 0; i < m; ++i) slots_[k].push_back(block[k] + kPeriod * i);
    }
  }

  int& slot(int kind, int index) { return slots_[kind][index]; }
  int slot(int kind, int index) const { return slots_[kind][index]; }
  int count(int kind) const { return static_cast<int>(slots_[kind].size()); }
  bool has_weights() const { return !slots_[W].empty(); }

  std::vector<Part> parts() const {
    std::vector<Part> all;
    for (int k = 0; k < kNumKinds; ++k) {
      for (int i = 0; i < count(k); ++i) all.push_back({slot(k, i), static_cast<Kind>(k), i});
    }
    std::sort(all.begin(), all.end(), [](const Part& a, const Part& b) { return a.slot < b.slot; });
    return all;
  }

  IndexVector<int, int> inputs() const {
    IndexVector<int, int> all = slots_[I1];
    all.insert(all.end(), slots_[I0].begin(), slots_[I0].end());
    std::sort(all.begin(), all.end());
    return all;
  }

  void remove_weights() { slots_[W].clear(); }
  /// Puts each W into the first gap after its I; those that find none go to the end.
  void place_weights() {
    remove_weights();
    int next = 0;  // slot
    int due = 0;
    const auto fill = [&](int until) {
      for (; due > 0 && next < until; --due) slots_[W].push_back(next++);
    };
    for (const Part& part : parts()) {
      fill(part.slot);
      next = part.slot + 1;
      if (part.kind == I1 || part.kind == I0) ++due;
    }
    for (; due > 0; --due) slots_[W].push_back(next++);
  }

  /// The most activations that are alive at once. One lives from its F to its W. Where W have no
  /// slots yet, each is taken to run in the first gap after its I.
  int peak() const {
    int live = 0, most = 0, due = 0, next = 0;
    for (const Part& part : parts()) {
      if (!has_weights()) {
        const int ended = std::min(due, part.slot - next);
        live -= ended;
        due -= ended;
        next = part.slot + 1;
        if (part.kind == I1 || part.kind == I0) ++due;
      }
      if (part.kind == F0 || part.kind == F1) most = std::max(most, ++live);
      if (part.kind == W) --live;
    }
    return most;
  }

 private:
  IndexArray<int, IndexVector<int, int>, kNumKinds> slots_;
};

class Grid {
 public:
  Grid(const PipelineShape& shape, Block (*block_of)(int, int)) : p_(shape.p), m_(shape.m) {
    for (int r = 0; r < p_; ++r) ranks_.emplace_back(block_of(p_, r), m_);
  }

  /// Closes the gaps of the warm-up first, while every W keeps its slot, so that activations are
  /// counted right. Then closes those of the cool-down, where W are placed anew.
  void compact() {
    for (RankSlots& rank : ranks_) rank.place_weights();
    pull_forward(true);
    close_common_gaps();
    for (RankSlots& rank : ranks_) rank.remove_weights();
    pull_forward(false);
    for (RankSlots& rank : ranks_) rank.place_weights();
    close_common_gaps();
  }

  std::vector<Actions> actions() const {
    std::vector<Actions> all;
    for (int r = 0; r < p_; ++r) all.push_back(actions_of(r));
    return all;
  }

 private:
  struct Place {
    int slot, rank;
    Kind kind;
    int index;
    auto key() const { return std::tuple(slot, rank, kind, index); }
  };
  RankSlots& rank(int r) { return ranks_[r]; }

  std::vector<Place> places() const {
    std::vector<Place> all;
    for (int r = 0; r < p_; ++r) {
      for (const auto& part : ranks_[r].parts()) {
        all.push_back({part.slot, r, part.kind, part.index});
      }
    }
    std::sort(all.begin(), all.end(),
              [](const Place& a, const Place& b) { return a.key() < b.key(); });
    return all;
  }

  /// The first slot after everything that the part needs, and after the part before it of the same
  /// kind.
  int earliest(const Place& part) {
    const RankSlots& own = rank(part.rank);
    int after = -1;
    const auto follow = [&](int slot) { after = std::max(after, slot); };
    if (part.kind == W) {
      follow(own.inputs()[part.index]);
    } else {
      const int before = part.kind == F0 || part.kind == I1 ? part.rank - 1 : part.rank + 1;
      if (before >= 0 && before < p_) follow(rank(before).slot(part.kind, part.index));
      if (part.kind != F0) follow(own.slot(part.kind - 1, part.index));
    }
    if (part.index > 0) follow(own.slot(part.kind, part.index - 1));
    return after + 1;
  }

  /// Moves the parts of the warm-up (if `warm_up`) and of the cool-down to the first free slot that
  /// does not raise the peak of activations. Between the first microbatch's end and the last one's
  /// begin, the blocks stay as they are.
  void pull_forward(bool warm_up) {
    int limit = 0;
    for (const RankSlots& r : ranks_) limit = std::max(limit, r.peak());
    enum { Filling, Steady, Draining } phase = Filling;
    IndexVector<int, IndexVector<int, bool>> taken(p_);
    for (const Place& part : places()) {
      if (phase == Filling && part.rank == 0 && part.kind == I0) phase = Steady;
      const bool moves = phase == Draining || (phase == Filling && warm_up);
      if (phase == Steady && part.kind == F0 && part.index == m_ - 1) phase = Draining;
      auto& used = taken[part.rank];
      used.resize(std::max(used.size(), to_size(part.slot) + 1));
      int& slot = rank(part.rank).slot(part.kind, part.index);
      for (int to = moves ? earliest(part) : part.slot; to < part.slot; ++to) {
        if (used[to]) continue;
        slot = to;
        if (rank(part.rank).peak() <= limit) break;
        slot = part.slot;
      }
      used[slot] = true;
    }
  }

  /// Moves every part to the earliest slot that its rank's order and its inputs allow.
  void close_common_gaps() {
    IndexVector<int, int> free(p_, 0);
    for (const Place& part : places()) {
      int& next = free[part.rank];
      const int slot = std::max(next, part.kind == W ? 0 : earliest(part));
      rank(part.rank).slot(part.kind, part.index) = slot;
      next = slot + 1;
    }
  }

  /// The actions of rank r, in order of slots. A slot for W takes one of the last chunk if any is
  /// due there.
  Actions actions_of(int r) const {
    const Stage stages[2] = {r, 2 * p_ - 1 - r};
    Actions actions;
    IndexArray<int, int, 2> due{}, done{};
    for (const auto& part : ranks_[r].parts()) {
      const int chunk = part.kind == F1 || part.kind == I1 ? 1 : 0;
      if (part.kind == W) {
        const std::size_t c = due[1] > 0 ? 1 : 0;
        --due[c];
        actions.push_back({Phase::W, stages[c], done[c]++});
        continue;
      }
      const bool forward = part.kind == F0 || part.kind == F1;
      actions.push_back({forward ? Phase::F : Phase::I, stages[chunk], part.index});
      if (!forward) ++due[chunk];
    }
    return actions;
  }

  const int p_, m_;
  IndexVector<int, RankSlots> ranks_;
};

std::vector<Actions> controllable(const PipelineShape& shape, Block (*block_of)(int, int)) {
  Grid grid(shape, block_of);
  grid.compact();
  return grid.actions();
}

}  // namespace

std::vector<Actions> v_half(const PipelineShape& shape) {
  return controllable(shape, block_of_v_half);
}
std::vector<Actions> v_min(const PipelineShape& shape) {
  return controllable(shape, block_of_v_min);
}

}  // namespace lockstep
