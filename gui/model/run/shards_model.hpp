// ShardsModel: which part of the batch each rank reads and of the model's states it keeps, and what
// has become of them at a time.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/data_flow.hpp"
#include "core/analysis/in_flight.hpp"
#include "core/analysis/shards.hpp"
#include "core/base/index_vector.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// The kinds of states. Each rank has a bar for each of them.
enum class StateBar { Parameters, Gradients, Optimizer };
inline constexpr int kNumStateBars = 3;
constexpr BufferKind buffer_kind(StateBar kind) {
  constexpr IndexArray<StateBar, BufferKind, kNumStateBars> kinds = {
      BufferKind::Param, BufferKind::Grad, BufferKind::Optimizer};
  return kinds[kind];
}

/// A stretch [begin, end) of the whole model, whose parameters lie one after the other from 0 to 1.
struct Stretch {
  double begin = 0, end = 0;
  int layer = -1;  // to which its parameters belong
  double size() const { return end - begin; }
};

struct RankStates {
  Rank rank = 0;
  IndexArray<StateBar, std::vector<Stretch>, kNumStateBars> owned;  // by bar, ascending
  std::vector<Stretch> units;  // each unit of the rank's role, which an all-gather brings
  Rank acts_as = 0;            // the rank whose spans stand for it
  /// The samples that it reads, as a stretch of the step's batch, and the stretch of each
  /// sequence's tokens that it takes: all of them without context parallelism.
  Stretch batch{0, 1}, tokens{0, 1};
};

struct ShardsModel {
  RunPtr run;                   // if null, or without a program, nothing is known of shards
  std::int64_t parameters = 0;  // elements of the whole model
  /// By ascending rank. Of more than kMostRanks ranks, only those with spans of their own.
  std::vector<RankStates> ranks;
  std::map<Rank, std::vector<BufferLife>> lives;  // of ranks with spans of their own
  std::map<Rank, DataFlow> flows;                 // likewise
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
  /// The flow of the data on the rank at position `rank` of `ranks`.
  const DataFlow& flow(std::size_t rank) const { return flows.at(ranks[rank].acts_as); }
  /// What moves to and from that rank, in words: "partial sums of 4 ranks: blocks.3". `done` is the
  /// part of the time that has passed. Of several transfers it is the one that began last; none if
  /// `flights` has none of that rank. Those that are over soon are seen for `linger`.
  struct Moving {
    std::string words;
    double done = 0;
    Look look = Look::OtherTransfer;
  };
  std::optional<Moving> moving(std::size_t rank, const std::vector<Flight>& flights, SimTime t,
                               SimTime linger) const;
};

/// Stops when `cancelled` is set, because the result is then no longer wanted.
ShardsModel make_shards_model(RunPtr run, const Cancelled& cancelled);

}  // namespace lockstep::gui
