// Update rules: how units are updated. A rule is a file of this folder, and says what it keeps of a
// unit from step to step, and which ops update it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/lower/update/unit_update.hpp"

namespace lockstep {

/// When a part of the update of a unit is written. What ops wait for follows from what they read,
/// so that this only decides in which order streams take them.
enum class Lead : std::uint8_t {
  None,      // when it is the unit's turn
  OneUnit,   // when it is the turn of the last unit with several parts before it, so that what it
             // gathers arrives while that one is updated
  AllUnits,  // before any unit's turn, so that what it adds up over ranks is under way in time
};

/// A part of the update of a unit.
struct UpdatePart {
  Lead lead = Lead::None;
  std::function<void()> write;
};

struct UpdateRule {
  /// What it keeps of a unit beside the weights, in the order in which its kernels take it.
  std::vector<StateKind> (*keeps)(const OptimizerSpec& optimizer);
  /// The parts of the update of a unit, in their order. They refer to `update`, which stays.
  std::vector<UpdatePart> (*parts)(UnitUpdate& update);
  /// Sets what the unit says of its states beyond their buffers. Null: nothing.
  void (*describe)(const Scenario& scenario, const UnitLayout& layout, Unit& unit) = nullptr;
  /// Whether it reads which shard of a unit the rank has (HostData::Shards).
  bool reads_shard_number = false;
};

/// Keeps the first moment alone.
std::vector<StateKind> keeps_one_moment(const OptimizerSpec& optimizer);

/// The rules, each in a file of its name.
namespace update_rules {
extern const UpdateRule kAdamW;  // Adam, too
extern const UpdateRule kSgd;
extern const UpdateRule kMuon;  // of matrices; all else is updated by AdamW
extern const UpdateRule kAdafactor;
extern const UpdateRule kLion;
extern const UpdateRule kRouterBias;
extern const UpdateRule kDelayedScale;
}  // namespace update_rules

/// The rule that an optimizer has for what it trains by gradients: for matrices of blocks alone, or
/// for all else.
const UpdateRule& rule_of(const OptimizerSpec& optimizer, bool matrices);
/// The rule by which a unit is updated that is not frozen.
const UpdateRule& rule_of(const OptimizerSpec& optimizer, const UnitLayout& layout);

}  // namespace lockstep
