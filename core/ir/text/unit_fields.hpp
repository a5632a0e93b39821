// Unit fields: what a unit's line in the program text says beside its states and its parameters, in
// the order in which it is printed; read by printer and parser.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "core/ir/unit.hpp"

namespace lockstep::text {

struct UnitField {
  std::string_view name;
  /// A number or a group, after the name and "="; or a flag, which is set where its name stands.
  std::variant<std::int64_t Unit::*, GroupId Unit::*, bool Unit::*> member;
  bool always = false;  // printed even if it is 0
};

inline constexpr std::array kUnitFieldsBeforeStates = {
    UnitField{"elements", &Unit::elements, true},
    UnitField{"shard_elements", &Unit::shard_elements, true},
    UnitField{"split_group", &Unit::split_group},
    UnitField{"shard_group", &Unit::shard_group},
};
inline constexpr std::array kUnitFieldsAfterStates = {
    UnitField{"feedback_group", &Unit::feedback_group},
    UnitField{"state_block", &Unit::state_block},
    UnitField{"factored", &Unit::factored},
    UnitField{"history", &Unit::history},
    UnitField{"whole_param", &Unit::whole_param},
    UnitField{"gathered_late", &Unit::gathered_late},
    UnitField{"tied_copy", &Unit::tied_copy},
    UnitField{"frozen", &Unit::frozen},
};

}  // namespace lockstep::text
