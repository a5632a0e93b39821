#include "tests/core/ir/verify/repeats_of.hpp"

#include <deque>

#include "core/ir/verify/repeats.hpp"

namespace lockstep::test {

std::vector<Microbatch> originals(const Program& p) {
  std::deque<verification::Ranges> ranges;
  for (const Role& role : p.roles) ranges.emplace_back(p, role);
  const verification::Repeats repeats(p, ranges);
  std::vector<Microbatch> all;
  for (Microbatch mb = 0; mb < repeats.microbatches(); ++mb) all.push_back(repeats.original(mb));
  return all;
}

}  // namespace lockstep::test
