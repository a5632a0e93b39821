// Port shares: transfers that use ports at the same time divide them by max-min fairness.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::sim {

using Port = std::uint32_t;

/// A simulated rank's: into and out of its device, inside the node and to the network.
constexpr std::uint32_t kPortsOfRank = 4;
constexpr Port port_of(std::uint32_t rank, bool inside_node, bool out) {
  return rank * kPortsOfRank + (inside_node ? 2u : 0u) + (out ? 1u : 0u);
}

/// Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2) over the transfers that are
/// connected with the changed one through ports: the port that leaves its transfers least is
/// divided evenly, its transfers keep that, and so on with what remains of the others. Every port
/// carries 1, every transfer wants 1 of each of its ports; without company it has 1.
class PortShares {
 public:
  /// `num_ports`; transfers are numbered below `num_transfers`.
  PortShares(std::size_t num_ports, std::size_t num_transfers)
      : transfers_at_(num_ports),
        ports_(num_ports),
        ports_of_(num_transfers),
        share_(num_transfers, 1.0),
        state_(num_transfers, Settled) {}

  /// `ports`: may be empty. Returns the transfers, in ascending order, whose share may have
  /// changed: none where no port has company. Valid until the next call.
  const std::vector<std::uint32_t>& add(std::uint32_t transfer, const std::vector<Port>& ports);
  const std::vector<std::uint32_t>& remove(std::uint32_t transfer);

  double share(std::uint32_t transfer) const { return share_[transfer]; }

 private:
  enum State : std::uint8_t { Settled, Reached };
  struct Filling {
    double left = 1;
    int waiting = 0;  // transfers without a share yet
  };

  /// Shares anew of `transfer` and of all that are connected with it, which are then changed_.
  void fill_from(std::uint32_t transfer);

  std::vector<std::vector<std::uint32_t>> transfers_at_;  // by port
  std::vector<Filling> ports_;                            // by port, while filling
  std::vector<std::vector<Port>> ports_of_;               // by transfer
  std::vector<double> share_;                             // by transfer
  std::vector<State> state_;                              // by transfer, while filling
  std::vector<std::uint32_t> changed_;
};

}  // namespace lockstep::sim
