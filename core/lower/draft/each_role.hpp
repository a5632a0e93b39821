// each_role: the same work for every role of a draft, side by side where it is long.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// Calls body(role) once for every role, which must touch nothing of another. An op takes it about
/// `things_per_op` things of threads_for().
template <class Body>
void each_role(IndexVector<int, DraftRole>& roles, std::size_t things_per_op, Body&& body) {
  std::size_t ops = 0;
  for (const DraftRole& out : roles) ops += out.role.ops.size();
  const int useful = static_cast<int>(std::max<std::size_t>(roles.size(), 1));
  ThreadTeam team(std::min(threads_for(ops * things_per_op), useful));
  team.each(roles.size(), [&](std::size_t i) { body(roles[i].role); });
}

}  // namespace lockstep
