// Edits of a role's list of ops that keep `after` and lifetimes in step with it.
#pragma once

#include "core/ir/program.hpp"

namespace lockstep::test {

/// Without op `which`: what waited for it waits no more, what lived from or to it lives less.
void erase(Role& role, std::size_t which);
/// With a second one in front of the op that is now at `to`.
void repeat(Role& role, std::size_t which, std::size_t to);
/// With two ops in each other's place.
void exchange(Role& role, std::size_t a, std::size_t b);

}  // namespace lockstep::test
