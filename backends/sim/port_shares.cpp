#include "backends/sim/port_shares.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep::sim {
namespace {

constexpr double kRounding = 1e-9;  // shares that differ by a smaller part count as equal

}  // namespace

void PortShares::add(std::uint32_t transfer, std::span<const Port> ports, Changes& changes) {
  changes.transfers.clear();
  share_[transfer] = 1;
  ports_of_[transfer].assign(ports);
  bool company = false;
  for (const Port port : ports) {
    at_.add(port, transfer);
    company |= shared(port);
  }
  if (!company) return;
  fill_from(transfer, changes);
  changes.transfers.swap(changes.reached_);
}

void PortShares::remove(std::uint32_t transfer, Changes& changes) {
  std::vector<std::uint32_t>&others = changes.others_, &all = changes.transfers;
  others.clear();
  all.clear();
  for (const Port port : ports_of_[transfer]) {
    at_.remove(port, transfer);
    at_.for_each(port, [&](std::uint32_t other) { others.push_back(other); });
  }
  ports_of_[transfer].assign({});
  for (const std::uint32_t other : others) {
    if (std::binary_search(all.begin(), all.end(), other)) continue;
    fill_from(other, changes);
    const auto middle = all.insert(all.end(), changes.reached_.begin(), changes.reached_.end());
    std::inplace_merge(all.begin(), middle, all.end());
  }
}

// The order in which ports are looked at has no effect: what is taken from a port in one round is
// the same for each of its transfers. A port without company is not looked at: what is at it has no
// more than 1 because of another port, or has all of it.
void PortShares::fill_from(std::uint32_t transfer, Changes& changes) {
  std::vector<Port>& ports = changes.ports_;
  std::vector<std::uint32_t>&reached = changes.reached_, &filled = changes.filled_;
  ports.clear();
  reached.clear();
  const auto reach = [&](std::uint32_t t) {
    if (state_[t] == Reached) return;
    state_[t] = Reached;
    reached.push_back(t);
  };
  reach(transfer);
  // Transfers that are reached are appended while the list is read.
  for (std::size_t next = 0; next < reached.size(); ++next) {  // NOLINT(modernize-loop-convert)
    for (const Port port : ports_of_[reached[next]]) {
      if (!shared(port) || ports_[port].waiting > 0) continue;  // seen
      ports_[port] = {1, at_.count(port)};
      ports.push_back(port);
      at_.for_each(port, reach);
    }
  }
  std::sort(reached.begin(), reached.end());
  if (ports.empty()) {
    share_[transfer] = 1;
    state_[transfer] = Settled;
    return;
  }
  for (std::size_t done = 0; done < reached.size();) {
    double least = std::numeric_limits<double>::infinity();
    for (const Port port : ports) {
      const Filling& f = ports_[port];
      if (f.waiting > 0) least = std::min(least, f.left / f.waiting);
    }
    filled.clear();
    for (const Port port : ports) {
      const Filling& f = ports_[port];
      if (f.waiting == 0 || f.left / f.waiting > least * (1 + kRounding)) continue;
      at_.for_each(port, [&](std::uint32_t t) {
        if (state_[t] == Reached) filled.push_back(t);
        state_[t] = Settled;
      });
    }
    for (const std::uint32_t t : filled) {
      share_[t] = least;
      for (const Port port : ports_of_[t]) {
        if (!shared(port)) continue;
        ports_[port].left -= least;
        --ports_[port].waiting;
      }
    }
    done += filled.size();
  }
}

}  // namespace lockstep::sim
