// Rates: how fast what runs progresses, where devices are shared or transfers slow computation.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backends/sim/engine_state.hpp"
#include "backends/sim/event_heap.hpp"
#include "backends/sim/plan.hpp"
#include "core/cluster/cluster.hpp"

namespace lockstep::sim {

/// Keeps the activities of an EngineState whose `fluid` is true, and an event of each one that is
/// not later than its end.
class Rates {
 public:
  Rates(const Program& program, const ClusterSpec& cluster, const Plan& plan, EngineState& state,
        EventHeap& heap)
      : num_groups_(program.groups.size()),
        cluster_(cluster),
        plan_(plan),
        state_(state),
        ranks_(state.ranks),
        cells_(state.cells),
        heap_(heap) {}

  /// The front op of `leader`, and of the cells linked behind it, is active from now on.
  void begin(std::uint32_t leader, std::int64_t duration, std::int64_t now) {
    now_ = now;
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) mark_active(c, true);
    Activity& activity = cells_[leader].activity;
    activity.started = now_;
    activity.work = duration;
    activity.remaining = static_cast<double>(duration);
    activity.since = now_;
    activity.rate = 0;  // retime() sets it, together with the event
    activity.due = kNever;
    use_ports(leader);
    count(leader, 1);
    retime(leader);
  }

  /// It has ended; the cells are not active any more, but still linked.
  void end(std::uint32_t leader, std::int64_t now) {
    now_ = now;
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) mark_active(c, false);
    cells_[leader].activity.rate = 0;
    ++cells_[leader].activity.version;
    count(leader, -1);
    if (plan_.shared_ports) {
      state_.shares.remove(leader, changes_);
      retime_changed();
    }
    if (cells_[leader].kind == OpKind::Call && !plan_.crowded_devices) {
      const Activity& activity = cells_[leader].activity;
      ranks_[cells_[leader].rank].slowed += now_ - activity.started - activity.work;
    }
  }

  /// Whether the activity of `leader`, an event of whose end has come, ends now. If it has been
  /// slowed down since, its next event follows.
  bool ends(std::uint32_t leader, std::uint32_t version) {
    const Activity& activity = cells_[leader].activity;
    if (version != activity.version) return false;
    if (activity.end == activity.due) return true;
    announce(leader);
    return false;
  }

 private:
  void announce(std::uint32_t leader) {
    Activity& activity = cells_[leader].activity;
    activity.due = activity.end;
    heap_.push({activity.end, leader << 1, ++activity.version});
  }

  /// Whether the op at the front of a cell runs beside the device, so that neither slows the other.
  /// What the host computes does, unless the device is its own host and ranks share it: then it
  /// counts like any computation.
  bool is_aside(std::uint32_t c) const {
    return is_copy(cells_[c].kind) ||
           (state_.stream_of(c) == to_size(Stream::Host) && !plan_.shared_devices);
  }

  /// Adds `change` to the count of what runs on the ranks of `leader`'s activity, and computes the
  /// end of everything that it slows down or speeds up anew.
  void count(std::uint32_t leader, int change) {
    const OpKind kind = cells_[leader].kind;
    if (is_drive_copy(kind)) return use_drives(leader, change);
    if (is_aside(leader)) return;
    if (kind == OpKind::Call) {
      SimRank& r = ranks_[cells_[leader].rank];
      r.running_calls = static_cast<std::int16_t>(r.running_calls + change);
      retime_transfers(r);
      if (plan_.crowded_devices) occupy(cells_[leader].rank, change);
      return;
    }
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
      SimRank& r = ranks_[cells_[c].rank];
      r.running_transfers = static_cast<std::int16_t>(r.running_transfers + change);
      retime_calls(r);
      // Of a message's two ends one copies; of a collective's members all do.
      const bool copies = c == leader || !is_p2p(kind);
      if (plan_.crowded_devices && plan_.cores_transfer && copies) {
        occupy(cells_[c].rank, change);
      }
    }
  }

  void use_drives(std::uint32_t leader, int change) {
    const std::uint32_t user = cells_[leader].rank;
    const std::uint32_t group = plan_.drives.group_of[user];
    state_.at_drives[group] += change * plan_.drives.weight[user];
    for (const std::uint32_t rank : plan_.drives.ranks[group]) {
      for (const Stream stream : {Stream::DriveRead, Stream::DriveWrite}) {
        const std::uint32_t c = rank * kNumStreams + static_cast<std::uint32_t>(stream);
        if (cells_[c].state == Cell::Active && is_drive_copy(cells_[c].kind)) retime(c);
      }
    }
  }

  /// The part of the rate that a copy would have alone.
  double drive_share(std::uint32_t leader) const {
    const bool reads = cells_[leader].kind == OpKind::DriveToHost;
    const int users = state_.at_drives[plan_.drives.group_of[cells_[leader].rank]];
    const DriveSpec& drives = cluster_.drives;
    return std::min(1.0, drives.all(reads).v / users / drives.alone(reads).v);
  }

  void occupy(std::uint32_t rank, int change) {
    const std::uint32_t device = state_.device_of[rank];
    state_.running_on[device] += change;
    for (const std::uint32_t neighbour : state_.ranks_on[device]) {
      retime_calls(ranks_[neighbour]);
      if (plan_.cores_transfer) retime_transfers(ranks_[neighbour]);
    }
  }

  /// The part of its full rate at which what runs on a rank's device progresses.
  double device_share(std::uint32_t rank) const {
    if (!plan_.crowded_devices) return 1;
    const std::uint32_t device = state_.device_of[rank];
    return std::min(1.0, std::max(1, cluster_.device.concurrent_ranks) /
                             static_cast<double>(state_.running_on[device]));
  }

  void use_ports(std::uint32_t leader) {
    const OpKind kind = cells_[leader].kind;
    if (!plan_.shared_ports || kind == OpKind::Call || is_copy(kind)) return;
    const std::uint32_t from = cells_[leader].rank;
    if (is_p2p(kind)) {
      const std::uint32_t to = cells_[cells_[leader].next].rank;
      const bool near = same_node(cluster_, ranks_[from].rank, ranks_[to].rank);
      const std::array<Port, 2> ports = {port_of(from, near, true), port_of(to, near, false)};
      state_.shares.add(leader, ports, changes_);
    } else {
      const std::size_t place = from * num_groups_ + to_size(state_.front_op(leader).group());
      state_.shares.add(leader, plan_.instances[plan_.instance_of[place]].ports, changes_);
    }
    retime_changed();
  }

  void retime_changed() {
    for (const std::uint32_t c : changes_.transfers) {
      if (cells_[c].state == Cell::Active) retime(c);
    }
  }

  /// Notes that the front op of a cell is active, or is not any more.
  void mark_active(std::uint32_t c, bool active) {
    SimRank& r = ranks_[cells_[c].rank];
    const OpKind kind = cells_[c].kind;
    if (is_copy(kind)) return;
    std::uint32_t& streams = kind == OpKind::Call ? r.calling : r.transferring;
    const std::uint32_t bit = 1u << state_.stream_of(c);
    streams = active ? streams | bit : streams & ~bit;
  }
  void retime_calls(const SimRank& r) { retime_streams(r, r.calling); }
  void retime_transfers(const SimRank& r) { retime_streams(r, r.transferring); }
  void retime_streams(const SimRank& r, std::uint32_t streams) {
    const auto first = static_cast<std::uint32_t>(&r - ranks_.data()) * kNumStreams;
    for_each_bit(streams, [&](std::uint32_t s) { retime(cells_[first + s].leader); });
  }

  double rate(std::uint32_t leader) const {
    if (is_drive_copy(cells_[leader].kind)) return drive_share(leader);
    if (is_aside(leader)) return 1;
    if (cells_[leader].kind == OpKind::Call) {
      const SimRank& r = ranks_[cells_[leader].rank];
      const double share = device_share(cells_[leader].rank);
      return r.running_transfers > 0 ? share / state_.overlap : share;
    }
    double share = plan_.shared_ports ? state_.shares.share(leader) : 1.0;
    if (plan_.cores_transfer) {
      for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
        share = std::min(share, device_share(cells_[c].rank));
      }
    }
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
      if (ranks_[cells_[c].rank].running_calls > 0) return share / state_.overlap;
    }
    return share;
  }

  void retime(std::uint32_t leader) {
    Activity& activity = cells_[leader].activity;
    const double new_rate = rate(leader);
    if (new_rate == activity.rate) return;
    const double done = static_cast<double>(now_ - activity.since) * activity.rate;
    activity.remaining = std::max(0.0, activity.remaining - done);
    activity.since = now_;
    activity.rate = new_rate;
    activity.end = now_ + rounded(activity.remaining / new_rate).count();
    // What is slowed down keeps its event, for it is often sped up again before that comes.
    if (activity.end < activity.due) announce(leader);
  }

  std::size_t num_groups_;
  const ClusterSpec& cluster_;
  const Plan& plan_;
  EngineState& state_;
  // Parts of it:
  HugePageVector<SimRank>& ranks_;
  HugePageVector<Cell>& cells_;
  EventHeap& heap_;
  PortShares::Changes changes_;
  std::int64_t now_ = 0;
};

}  // namespace lockstep::sim
