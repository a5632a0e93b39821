// States: what is kept of a unit from one step to the next, a row for every kind. The program's
// text, checkpoints, offload, drives, the memory plan and verify walk this table: a new kind is a
// row of it, the pass that declares its buffers, and what uses them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/index_vector.hpp"

namespace lockstep {

enum class StateKind : std::uint8_t {
  Param,    // the parameters, as layers read them
  Master,   // if a unit has it, the optimizer updates it, and the parameters are rounded from it
  Moment1,  // of the optimizer; SGD and Muon have their momentum here, and no second moment
  Moment2,
  // Of replicas that train apart (Program::sync_every), what the outer optimizer keeps: the
  // parameters after the last synchronization, which all replicas took, and the momentum.
  Outer,
  OuterMomentum,
  // Of gradients that are summed as low-rank products: what the products have left out so far of
  // the rank's own gradients, and the right factors of the parameters, one behind the other
  // (sketch_offset).
  Feedback,
  Sketch,
};

/// What a state belongs to, which brings it up to date.
enum class Keeper : std::uint8_t {
  Model,            // what gathers and layers read
  Optimizer,        // an update (phase O): it is offloaded with the optimizer
  Synchronization,  // of replicas that train apart (phase S)
  Reduction,        // a sum of gradients
};

/// Whose values a state has.
enum class Holder : std::uint8_t {
  Replica,  // each replica that trains apart has its own
  All,      // they are the same for all replicas
  Rank,     // each rank of Unit::feedback_group has its own, of which the sum alone counts
};

/// How many elements a state has.
enum class Extent : std::uint8_t {
  Held,     // Unit::shard_elements, or with whole_param times the group's size
  Shard,    // Unit::shard_elements
  Unit,     // Unit::elements
  Factors,  // sketch_offset() beyond the last parameter
};

/// What a state holds where a training begins.
enum class Start : std::uint8_t {
  Seed,       // the initial values of the parameters: it is the parameters themselves
  Parameter,  // what the parameters are then
  Zeros,
};

/// How blocks of a state may be quantized (core/base/quantized_state.hpp).
enum class StateCodes : std::uint8_t { None, Signed, Unsigned };

struct StateRow {
  StateKind kind;
  std::string_view name;   // in a program's text; in checkpoints what tensors' names begin with
  std::string_view words;  // in messages, with "{}" for the unit
  Keeper keeper;
  Holder holder;
  Extent extent;
  Start start;
  StateCodes codes = StateCodes::None;
  bool history = false;  // whether it may hold several values of an element (Unit::history)
  /// Whether it is the parameters themselves. A checkpoint has those that the optimizer updates, by
  /// the names of the parameters alone.
  constexpr bool is_parameters() const { return start == Start::Seed; }
};

inline constexpr std::array kStates = {
    StateRow{StateKind::Param, "param", "the weights of {}", Keeper::Model, Holder::Replica,
             Extent::Held, Start::Seed},
    StateRow{StateKind::Master, "master", "the weights of {}", Keeper::Optimizer, Holder::Replica,
             Extent::Shard, Start::Seed},
    StateRow{StateKind::Moment1, "adam_m", "the first moment of {}", Keeper::Optimizer,
             Holder::Replica, Extent::Shard, Start::Zeros, StateCodes::Signed, true},
    StateRow{StateKind::Moment2, "adam_v", "the second moment of {}", Keeper::Optimizer,
             Holder::Replica, Extent::Shard, Start::Zeros, StateCodes::Unsigned},
    StateRow{StateKind::Outer, "outer", "what the replicas of {} started from",
             Keeper::Synchronization, Holder::All, Extent::Shard, Start::Parameter},
    StateRow{StateKind::OuterMomentum, "outer_momentum", "the outer momentum of {}",
             Keeper::Synchronization, Holder::All, Extent::Shard, Start::Zeros},
    StateRow{StateKind::Feedback, "feedback", "what was left out of gradients of {}",
             Keeper::Reduction, Holder::Rank, Extent::Unit, Start::Zeros},
    StateRow{StateKind::Sketch, "sketch", "the last right factors of {}", Keeper::Reduction,
             Holder::Replica, Extent::Factors, Start::Zeros},
};
inline constexpr std::size_t kNumStateKinds = kStates.size();
static_assert([] {
  for (std::size_t i = 0; i < kNumStateKinds; ++i) {
    if (to_size(kStates[i].kind) != i) return false;
  }
  return true;
}());

constexpr const StateRow& info(StateKind kind) { return kStates[to_size(kind)]; }

}  // namespace lockstep
