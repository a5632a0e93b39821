// ShardsModel: which part of the model's states every rank keeps, and what it has gathered now.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/shards.hpp"
#include "core/base/index_vector.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// What is drawn of a rank, a bar each.
enum class StateKind { Parameters, Gradients, Optimizer };
inline constexpr int kNumStateKinds = 3;
constexpr BufferKind buffer_kind(StateKind kind) {
  constexpr IndexArray<StateKind, BufferKind, kNumStateKinds> kinds = {
      BufferKind::Param, BufferKind::Grad, BufferKind::Optimizer};
  return kinds[kind];
}

/// A stretch of the whole model, laid out parameter after parameter: [begin, end) of 1.
struct Stretch {
  double begin = 0, end = 0;
  double size() const { return end - begin; }
};

struct RankStates {
  Rank rank = 0;
  IndexArray<StateKind, std::vector<Stretch>, kNumStateKinds> owned;  // by StateKind, ascending
  std::vector<Stretch> units;  // where each unit of the rank's role lies: what a gather brings
  Rank acts_as = 0;            // the rank whose spans stand for it
};

struct ShardsModel {
  RunPtr run;                   // null, or without a program: nothing is known of shards
  std::int64_t parameters = 0;  // of the whole model
  std::vector<RankStates>
      ranks;  // ascending; of more than kMostRanks, those with spans of their own
  std::map<Rank, std::vector<BufferLife>> lives;  // of ranks with spans of their own
  static constexpr std::size_t kMostRanks = 64;
  bool empty() const { return ranks.empty(); }
  /// Units that `rank` (by position in `ranks`) has whole at `t` beside what it owns.
  struct Gathered {
    Stretch stretch;
    bool arriving = false;  // the all-gather is under way
    std::string unit;
  };
  std::vector<Gathered> gathered(std::size_t rank, SimTime t) const;
};

/// `cancelled`: stop, the result is not wanted.
ShardsModel make_shards_model(RunPtr run, const Cancelled& cancelled);

}  // namespace lockstep::gui
