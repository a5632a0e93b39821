// Port shares: transfers that use ports at the same time divide them by max-min fairness.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::sim {

using Port = std::uint32_t;

/// The ports of a simulated rank: into and out of its device, inside the node and to the network.
constexpr std::uint32_t kPortsOfRank = 4;
constexpr Port port_of(std::uint32_t rank, bool inside_node, bool out) {
  return rank * kPortsOfRank + (inside_node ? 2u : 0u) + (out ? 1u : 0u);
}

/// Divides ports by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), among the
/// transfers that are connected with the changed one through ports. The port that leaves its
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

  /// Adds a transfer that uses `ports`, of which there may be none. Returns the transfers, in
  /// ascending order, whose share may have changed: none where no port has company. The list is
  /// valid until the next call of add or remove.
  const std::vector<std::uint32_t>& add(std::uint32_t transfer, const std::vector<Port>& ports);
  /// Removes a transfer, and returns the others as add does.
  const std::vector<std::uint32_t>& remove(std::uint32_t transfer);

  double share(std::uint32_t transfer) const { return share_[transfer]; }

 private:
  enum State : std::uint8_t { Settled, Reached };
  struct Filling {
    double left = 1;
    int waiting = 0;  // transfers without a share yet
  };

  /// Computes the shares of `transfer` and of all that are connected with it anew, and lists these
  /// transfers in changed_.
  void fill_from(std::uint32_t transfer);

  std::vector<std::vector<std::uint32_t>> transfers_at_;  // by port
  std::vector<Filling> ports_;                            // by port, while filling
  std::vector<std::vector<Port>> ports_of_;               // by transfer
  std::vector<double> share_;                             // by transfer
  std::vector<State> state_;                              // by transfer, while filling
  std::vector<std::uint32_t> changed_;
};

}  // namespace lockstep::sim
