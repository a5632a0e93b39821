// Port shares: transfers that use ports at the same time divide them by max-min fairness.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/huge_pages.hpp"

namespace lockstep::sim {

using Port = std::uint32_t;

/// The ports of a simulated rank: into and out of its device, inside the node and to the network.
constexpr std::uint32_t kPortsOfRank = 4;
constexpr Port port_of(std::uint32_t rank, bool inside_node, bool out) {
  return rank * kPortsOfRank + (inside_node ? 2u : 0u) + (out ? 1u : 0u);
}

constexpr std::uint32_t kMostAtPort = 15;

/// The transfers at each port. Of thousands of ports nearly all have one at most, and those lie
/// side by side: a collective looks at all ports of its members, which then take few lines of the
/// cache.
class TransfersAtPorts {
 public:
  explicit TransfersAtPorts(std::size_t num_ports)
      : count_(num_ports), first_(num_ports), others_(num_ports) {}
  /// How many there are; at most kMostAtPort.
  int count(Port port) const { return count_[port]; }
  void add(Port port, std::uint32_t transfer) {
    if (count_[port]++ == 0) {
      first_[port] = transfer;
    } else {
      others_[port][count_[port] - 2u] = transfer;
    }
  }
  /// Requires that the transfer is there.
  void remove(Port port, std::uint32_t transfer) {
    const std::uint32_t last =
        --count_[port] == 0 ? first_[port] : others_[port][count_[port] - 1u];
    if (first_[port] == transfer) {
      first_[port] = last;
    } else {
      *std::find(others_[port].begin(), others_[port].end(), transfer) = last;
    }
  }
  template <class Visit>
  void for_each(Port port, Visit&& visit) const {
    if (count_[port] > 0) visit(first_[port]);
    for (std::size_t i = 1; i < count_[port]; ++i) visit(others_[port][i - 1]);
  }

 private:
  std::vector<std::uint8_t> count_;                                // by port
  std::vector<std::uint32_t> first_;                               // by port, if there is one
  HugePageVector<std::array<std::uint32_t, kMostAtPort>> others_;  // by port
};

/// Divides ports by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), among the
/// transfers that are connected with the changed one through ports. At most kMostAtPort may use a
/// port at a time: a rank has one of every stream. Threads may change transfers at one time that
/// nothing connects. The port that leaves its transfers least is divided evenly and its transfers
/// keep their shares; then what remains of the other ports is divided in the same way. Every port
/// carries 1. Every transfer wants 1 of each of its ports, and has it without company.
class PortShares {
 public:
  /// Ports are numbered below `num_ports`, and transfers below `num_transfers`.
  PortShares(std::size_t num_ports, std::size_t num_transfers)
      : at_(num_ports),
        ports_(num_ports),
        ports_of_(num_transfers),
        share_(num_transfers, 1.0),
        state_(num_transfers, Settled) {}

  /// What a change needs while it lasts, and leaves: a thread has its own, and uses it again.
  class Changes {
   public:
    /// In ascending order, the transfers whose share may have changed.
    std::vector<std::uint32_t> transfers;

   private:
    friend class PortShares;
    std::vector<Port> ports_;
    std::vector<std::uint32_t> reached_, filled_, others_;
  };
  /// Adds a transfer that uses `ports`, of which there may be none. More than two must stay where
  /// they are until it is removed. Where no port has company, nothing else changes.
  void add(std::uint32_t transfer, std::span<const Port> ports, Changes& changes);
  /// Removes a transfer. The changes do not name it.
  void remove(std::uint32_t transfer, Changes& changes);

  double share(std::uint32_t transfer) const { return share_[transfer]; }

 private:
  enum State : std::uint8_t { Settled, Reached };
  struct Filling {
    double left = 1;
    int waiting = 0;  // transfers without a share yet
  };
  /// The ports of a transfer: a message's own two, or those of a group, which many share.
  class Ports {
   public:
    void assign(std::span<const Port> ports) {
      count_ = static_cast<std::uint32_t>(ports.size());
      if (count_ <= own_.size()) {
        std::copy(ports.begin(), ports.end(), own_.begin());
      } else {
        group_ = ports.data();
      }
    }
    const Port* begin() const { return count_ <= own_.size() ? own_.data() : group_; }
    const Port* end() const { return begin() + count_; }

   private:
    const Port* group_ = nullptr;
    std::array<Port, 2> own_{};
    std::uint32_t count_ = 0;
  };

  /// Whether a port has company, without which it limits nothing.
  bool shared(Port port) const { return at_.count(port) > 1; }

  /// Computes the shares of `transfer` and of all that are connected with it anew, and leaves these
  /// transfers in `changes.reached_`, in ascending order.
  void fill_from(std::uint32_t transfer, Changes& changes);

  TransfersAtPorts at_;
  std::vector<Filling> ports_;      // by port, while filling
  HugePageVector<Ports> ports_of_;  // by transfer
  HugePageVector<double> share_;    // by transfer
  std::vector<State> state_;        // by transfer, while filling
};

}  // namespace lockstep::sim
