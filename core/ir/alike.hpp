// Alike: roles that do the same with their memory, so that what is found out about one of them
// holds for the others. Pipeline stages between the first and the last are often so.
#pragma once

#include <cstddef>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep {

/// Whether two roles have the same ops, which wait for the same, with the same arguments, and
/// buffers of the same sizes, lifetimes and places. They may differ in ranks, layers, stages, names
/// and types, and in the peers of messages. A broadcast writes or reads by the rank, so that roles
/// with broadcasts are not alike.
bool alike(const Role& a, const Role& b);

/// By role, the place of the first of the roles in a row which are alike.
std::vector<std::size_t> first_alike(const std::vector<const Role*>& roles);

/// Gives a role what `other` has, with which it was alike before: lists of what ops wait for,
/// lifetimes and offsets of buffers, and arenas.
void take_plan(Role& role, const Role& other);

}  // namespace lockstep
