// ShardsModel: which part of the model's states each rank keeps, and what it has gathered at a
// time.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/shards.hpp"
#include "core/base/index_vector.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// The kinds of states. Each rank has a bar for each of them.
enum class StateKind { Parameters, Gradients, Optimizer };
inline constexpr int kNumStateKinds = 3;
constexpr BufferKind buffer_kind(StateKind kind) {
  constexpr IndexArray<StateKind, BufferKind, kNumStateKinds> kinds = {
      BufferKind::Param, BufferKind::Grad, BufferKind::Optimizer};
  return kinds[kind];
}

/// A stretch [begin, end) of the whole model, whose parameters lie one after the other from 0 to 1.
struct Stretch {
  double begin = 0, end = 0;
  double size() const { return end - begin; }
};

struct RankStates {
  Rank rank = 0;
  IndexArray<StateKind, std::vector<Stretch>, kNumStateKinds> owned;  // by StateKind, ascending
  std::vector<Stretch> units;  // each unit of the rank's role, which an all-gather brings
  Rank acts_as = 0;            // the rank whose spans stand for it
};

struct ShardsModel {
  RunPtr run;                   // if null, or without a program, nothing is known of shards
  std::int64_t parameters = 0;  // elements of the whole model
  /// By ascending rank. Of more than kMostRanks ranks, only those with spans of their own.
  std::vector<RankStates> ranks;
  std::map<Rank, std::vector<BufferLife>> lives;  // of ranks with spans of their own
  static constexpr std::size_t kMostRanks = 64;
  bool empty() const { return ranks.empty(); }
  /// A unit that a rank has whole for a time, beside what it owns.
  struct Gathered {
    Stretch stretch;
    bool arriving = false;  // the all-gather is under way
    std::string unit;
  };
  /// The units that the rank at position `rank` of `ranks` has gathered at `t`.
  std::vector<Gathered> gathered(std::size_t rank, SimTime t) const;
};

/// Stops when `cancelled` is set, because the result is then no longer wanted.
ShardsModel make_shards_model(RunPtr run, const Cancelled& cancelled);

}  // namespace lockstep::gui
