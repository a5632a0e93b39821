// Port shares: transfers that use ports at the same time divide them by max-min fairness.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::sim {

using Port = std::uint32_t;

/// The ports of a simulated rank: into and out of its device, inside the node and to the network.
constexpr std::uint32_t kPortsOfRank = 4;
constexpr Port port_of(std::uint32_t rank, bool inside_node, bool out) {
  return rank * kPortsOfRank + (inside_node ? 2u : 0u) + (out ? 1u : 0u);
}

constexpr std::uint32_t kMostAtPort = 15;

/// Divides ports by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), among the
/// transfers that are connected with the changed one through ports. At most kMostAtPort may use a
/// port at a time: a rank has one of every stream. Threads may change transfers at one time that
/// nothing connects. The port that leaves its
/// transfers least is divided evenly and its transfers keep their shares; then what remains of the
/// other ports is divided in the same way. Every port carries 1. Every transfer wants 1 of each of
/// its ports, and has it without company.
class PortShares {
 public:
  /// Ports are numbered below `num_ports`, and transfers below `num_transfers`.
  PortShares(std::size_t num_ports, std::size_t num_transfers)
      : transfers_at_(num_ports),
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
  /// Adds a transfer that uses `ports`, of which there may be none. Where no port has company,
  /// nothing else changes.
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

  /// Computes the shares of `transfer` and of all that are connected with it anew, and leaves these
  /// transfers in `changes.reached_`, in ascending order.
  void fill_from(std::uint32_t transfer, Changes& changes);

  /// The transfers at a port, in one line of the cache.
  class AtPort {
   public:
    std::size_t size() const { return size_; }
    const std::uint32_t* begin() const { return transfers_.data(); }
    const std::uint32_t* end() const { return begin() + size_; }
    void add(std::uint32_t transfer) { transfers_[size_++] = transfer; }
    void remove(std::uint32_t transfer) {
      *std::find(transfers_.begin(), transfers_.end(), transfer) = transfers_[--size_];
    }

   private:
    std::uint32_t size_ = 0;
    std::array<std::uint32_t, kMostAtPort> transfers_;
  };

  std::vector<AtPort> transfers_at_;         // by port
  std::vector<Filling> ports_;               // by port, while filling
  std::vector<std::vector<Port>> ports_of_;  // by transfer
  std::vector<double> share_;                // by transfer
  std::vector<State> state_;                 // by transfer, while filling
};

}  // namespace lockstep::sim
