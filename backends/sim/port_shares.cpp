#include "backends/sim/port_shares.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep::sim {
namespace {

constexpr double kRounding = 1e-9;  // shares that differ by a smaller part count as equal

}  // namespace

std::vector<std::uint32_t> PortShares::add(std::uint32_t transfer, const std::vector<Port>& ports) {
  share_[transfer] = 1;
  ports_of_[transfer] = ports;
  bool company = false;
  for (const Port port : ports) {
    company |= transfers_at_[port].size() > 0;
    transfers_at_[port].add(transfer);
  }
  return company ? fill_from(transfer) : std::vector<std::uint32_t>();
}

std::vector<std::uint32_t> PortShares::remove(std::uint32_t transfer) {
  std::vector<std::uint32_t> others;
  for (const Port port : ports_of_[transfer]) {
    AtPort& at = transfers_at_[port];
    at.remove(transfer);
    others.insert(others.end(), at.begin(), at.end());
  }
  ports_of_[transfer].clear();
  std::vector<std::uint32_t> all;
  for (const std::uint32_t other : others) {
    if (std::binary_search(all.begin(), all.end(), other)) continue;
    const std::vector<std::uint32_t> changed = fill_from(other);
    const auto middle = all.insert(all.end(), changed.begin(), changed.end());
    std::inplace_merge(all.begin(), middle, all.end());
  }
  return all;
}

std::vector<std::uint32_t> PortShares::fill_from(std::uint32_t transfer) {
  std::vector<Port> ports;
  std::vector<std::uint32_t> changed;
  const auto reach = [&](std::uint32_t t) {
    if (state_[t] == Reached) return;
    state_[t] = Reached;
    changed.push_back(t);
  };
  reach(transfer);
  // Transfers that are reached are appended while the list is read.
  for (std::size_t next = 0; next < changed.size(); ++next) {  // NOLINT(modernize-loop-convert)
    for (const Port port : ports_of_[changed[next]]) {
      if (ports_[port].waiting > 0) continue;  // seen
      ports_[port] = {1, static_cast<int>(transfers_at_[port].size())};
      ports.push_back(port);
      for (const std::uint32_t other : transfers_at_[port]) reach(other);
    }
  }
  std::sort(changed.begin(), changed.end());
  std::sort(ports.begin(), ports.end());
  for (std::size_t done = 0; done < changed.size();) {
    double least = std::numeric_limits<double>::infinity();
    for (const Port port : ports) {
      const Filling& f = ports_[port];
      if (f.waiting > 0) least = std::min(least, f.left / f.waiting);
    }
    std::vector<std::uint32_t> filled;
    for (const Port port : ports) {
      const Filling& f = ports_[port];
      if (f.waiting == 0 || f.left / f.waiting > least * (1 + kRounding)) continue;
      for (const std::uint32_t t : transfers_at_[port]) {
        if (state_[t] == Reached) filled.push_back(t);
        state_[t] = Settled;
      }
    }
    for (const std::uint32_t t : filled) {
      share_[t] = least;
      for (const Port port : ports_of_[t]) {
        ports_[port].left -= least;
        --ports_[port].waiting;
      }
    }
    done += filled.size();
  }
  return changed;
}

}  // namespace lockstep::sim
