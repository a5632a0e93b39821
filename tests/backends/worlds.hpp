// Worlds: where the ranks of a test meet, one for every communicator that needs no GPU. A new
// communicator adds its world to `Worlds`.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <thread>
#include <tuple>

#include "backends/cpu/cpu_communicator.hpp"
#include "backends/cpu/remote_communicator.hpp"
#include "backends/reference/reference_communicator.hpp"
#include "tests/core/run/loopback_process.hpp"

namespace lockstep::testing {

/// What the two worlds of the CPU share.
struct CpuWorld {
  using Device = cpu::CpuDevice;
  static auto device(const Program& program, Rank r, RunContext& context) {
    return Device::create(program, r, 1, context);
  }
  /// An op that only takes time.
  static Result<void> enqueue_delay(Device& device, OpId id, Stream stream,
                                    std::chrono::microseconds delay) {
    return device.enqueue_task(id, stream, [delay](SimTime begin) {
      std::this_thread::sleep_for(delay);
      return begin;
    });
  }
};

/// Ranks of the CPU that are threads of one process.
struct Threads : CpuWorld {
  explicit Threads(int) {}
  RunContext& context(Rank) { return fabric; }
  std::unique_ptr<Communicator> communicator(const Program& program, Rank r, Device& device) {
    return std::make_unique<cpu::CpuCommunicator>(program, r, device, fabric);
  }
  local::Fabric fabric;
};

/// Ranks of the CPU that know of each other by messages only.
struct Processes : CpuWorld {
  explicit Processes(int ranks) {
    for (Rank r = 0; r < ranks; ++r) processes.emplace_back(network, r, ranks);
  }
  RunContext& context(Rank r) { return processes[r]; }
  std::unique_ptr<Communicator> communicator(const Program& program, Rank r, Device& device) {
    return std::make_unique<cpu::RemoteCommunicator>(program, r, device, processes[r]);
  }
  LoopbackNetwork network;
  std::deque<LoopbackProcess> processes;
};

/// Ranks of the reference device.
struct Reference {
  using Device = reference::ReferenceDevice;
  explicit Reference(int) {}
  static auto device(const Program& program, Rank r, RunContext& context) {
    return Device::create(program, r, context);
  }
  static Result<void> enqueue_delay(Device& device, OpId id, Stream stream,
                                    std::chrono::microseconds delay) {
    return device.enqueue_task(id, stream, [delay](OpTime&) {
      std::this_thread::sleep_for(delay);
      return true;
    });
  }
  RunContext& context(Rank) { return fabric; }
  std::unique_ptr<Communicator> communicator(const Program& program, Rank r, Device& device) {
    return std::make_unique<reference::ReferenceCommunicator>(program, r, device, fabric);
  }
  local::Fabric fabric;
};

using Worlds = std::tuple<Threads, Processes, Reference>;

}  // namespace lockstep::testing
