// OpDurations: what an op takes if nothing else runs beside it, in picoseconds.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>

#include "backends/sim/collective_durations.hpp"
#include "backends/sim/jitter.hpp"
#include "backends/sim/plan.hpp"

namespace lockstep::sim {

class OpDurations {
 public:
  OpDurations(const Program& program, const ClusterSpec& cluster, const WhatIfSpec& what_if,
              const Plan& plan)
      : program_(program),
        cluster_(cluster),
        what_if_(what_if),
        plan_(plan),
        collectives_(cluster, plan.instances) {}

  /// `by_function` has the durations on the rank's device.
  std::int64_t of_call(const Op& op, const std::int64_t* by_function, Rank rank,
                       std::uint32_t id) const {
    const std::int64_t mean =
        op.stream == Stream::Host ? plan_.host_duration[op.function()] : by_function[op.target];
    if (!what_if_.varies()) return mean;
    return rounded(static_cast<double>(mean) * jitter_factor(what_if_, rank, id)).count();
  }

  std::int64_t of_copy(const Role& role, const Op& op) const {
    if (is_drive_copy(op.kind)) {
      const DriveSpec& drives = cluster_.drives;
      const BytesPerSecond rate = drives.alone(op.kind == OpKind::DriveToHost);
      return to_sim_time(drives.latency + payload_bytes(program_, role, op) / rate).count();
    }
    const DeviceSpec& device = cluster_.device;
    if (!(device.host_bandwidth.v > 0)) return 0;
    const Bytes bytes = payload_bytes(program_, role, op);
    Seconds time = bytes / device.host_bandwidth;
    if (!cluster_.loader.pin_memory && op.brings_samples() && !device.is_host()) {
      time += Bytes{2 * bytes.v} / device.host_memory_bandwidth;  // read and written once more
    }
    return to_sim_time(time).count();
  }

  std::int64_t of_collective(const RolePlan& role_plan, const Op& op, std::uint32_t id,
                             std::uint32_t instance) {
    if (what_if_.ideal_network) return 0;
    const Bytes full = role_plan.payload[id];
    const auto& alone = role_plan.parameters;
    if (!alone.empty() && !alone[id].empty()) {
      return collectives_.one_by_one(instance, op.kind, alone[id]);
    }
    if (role_plan.beside.empty()) return collectives_.of(instance, op.kind, full);
    const BesideProduct& beside = role_plan.beside[id];
    const Bytes moved{full.v / beside.size_divisor};
    return beside.exposed(collectives_.of(instance, op.kind, moved),
                          plan_.instances[instance].size);
  }

  struct Message {
    std::int64_t latency = 0, transfer = 0;
  };
  Message of_message(const Role& role, const Op& op, Rank from, Rank to) {
    if (what_if_.ideal_network) return {};
    if (program_.p2p_latency.v >= 0) return {to_sim_time(program_.p2p_latency).count(), 0};
    const Bytes whole = payload_bytes(program_, role, op);
    const Bytes part{whole.v / plan_.message_parts};
    const TransferTime t = p2p_time(part, link_between(cluster_, from, to));
    return {to_sim_time(t.latency).count() + gather_time(whole), to_sim_time(t.transfer).count()};
  }

 private:
  /// What the tensor-parallel ranks take to gather a message of which each received a part.
  std::int64_t gather_time(Bytes whole) {
    if (plan_.message_parts == 1) return 0;
    auto known = gather_times_.find(whole.v);
    if (known == gather_times_.end()) {
      const Seconds time = collective_time(OpKind::AllGather, whole, plan_.message_parts,
                                           plan_.message_links, cluster_)
                               .time.total();
      known = gather_times_.emplace(whole.v, to_sim_time(time).count()).first;
    }
    return known->second;
  }

  const Program& program_;
  const ClusterSpec& cluster_;
  const WhatIfSpec& what_if_;
  const Plan& plan_;
  CollectiveDurations collectives_;
  std::map<std::int64_t, std::int64_t> gather_times_;  // by bytes
};

}  // namespace lockstep::sim
