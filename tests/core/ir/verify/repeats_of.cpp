#include "tests/core/ir/verify/repeats_of.hpp"

#include <deque>

#include "core/ir/verify/repeats.hpp"

namespace lockstep::test {
namespace {

/// What FormalRole says of gradients and losses, by the names of formals.
IndexVector<FunctionId, verification::FunctionRole> roles_of(const Program& p) {
  using verification::FormalRole;
  IndexVector<FunctionId, verification::FunctionRole> roles;
  for (const Function& function : p.functions) {
    auto& role = roles.emplace_back();
    for (const Formal& formal : function.formals) {
      const bool layer = function.name.starts_with("block") || function.name.starts_with("head") ||
                         function.name.starts_with("embed");
      FormalRole& of = role.formals.emplace_back();
      if (layer && formal.name.starts_with("gw")) of.what = FormalRole::Gradient;
      if (layer && formal.name == "loss") of.what = FormalRole::Loss;
    }
  }
  return roles;
}

}  // namespace

std::vector<Microbatch> originals(const Program& p) {
  std::deque<verification::Ranges> ranges;
  for (const Role& role : p.roles) ranges.emplace_back(p, role);
  const verification::Repeats repeats(p, ranges, roles_of(p));
  std::vector<Microbatch> all;
  for (Microbatch mb = 0; mb < repeats.microbatches(); ++mb) all.push_back(repeats.original(mb));
  return all;
}

}  // namespace lockstep::test
