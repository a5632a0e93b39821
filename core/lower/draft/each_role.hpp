// each_role: a plan for every role of a draft, made side by side where that is long, and once for
// roles that are alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/ir/alike.hpp"
#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// Calls body(role) for the roles, each of which gets what take_plan() names, made of nothing but
/// what alike() compares. It is called for one of those that are alike, and the others take it. An
/// op takes it about `things_per_op` things of threads_for().
template <class Body>
void each_role(IndexVector<int, DraftRole>& roles, std::size_t things_per_op, Body&& body) {
  std::vector<const Role*> all;
  for (const DraftRole& out : roles) all.push_back(&out.role);
  const std::vector<std::size_t> first = first_alike(all);
  std::vector<std::size_t> planned;
  std::size_t ops = 0;
  for (std::size_t r = 0; r < roles.size(); ++r) {
    if (first[r] != r) continue;
    planned.push_back(r);
    ops += roles[r].role.ops.size();
  }
  const int useful = static_cast<int>(std::max<std::size_t>(planned.size(), 1));
  ThreadTeam team(std::min(threads_for(ops * things_per_op), useful));
  team.each(planned.size(), [&](std::size_t i) { body(roles[planned[i]].role); });
  for (std::size_t r = 0; r < roles.size(); ++r) {
    if (first[r] != r) take_plan(roles[r].role, roles[first[r]].role);
  }
}

}  // namespace lockstep
