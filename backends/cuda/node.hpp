// Node: what ranks that share a GPU have in common when they issue work to it: one lock, the
// transfers that wait for members, and the clock. A transfer between such ranks can be given to the
// GPU only when all members have come to it; until then the later work of the stream is held back
// on the host.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "core/run/run_context.hpp"
#include "core/run/transfer.hpp"

namespace lockstep::cuda {

class CudaDevice;

/// A member of a transfer, which waits at the front of its stream.
struct Member {
  Party party;
  CudaDevice* device = nullptr;
  Stream stream = Stream::Compute;
};

/// The meeting place of one group instance or message channel, where the n-th transfers of all
/// members meet.
struct Meeting {
  std::map<std::int64_t, std::vector<Member>> waiting;  // by number; no device if not there yet
};

/// All functions except fail() and those of the clock require the lock.
class Node final : public RunContext {
 public:
  /// `driver` and `run` must outlive the node.
  Node(Driver& driver, RunContext& run) : driver_(driver), run_(run) {}
  ~Node() override;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::mutex& mutex() { return mutex_; }
  /// Notified when a device has nothing held back any more, and when the run has failed.
  std::condition_variable& changed() { return changed_; }

  /// The meeting of the instance of a group whose lowest member is `first`, and that of a channel
  /// of messages.
  Meeting& group(GroupId group, Rank first) { return meetings_[{0, group.v, first}]; }
  Meeting& channel(Rank from, Rank to, bool backward) {
    return meetings_[{backward ? 2 : 1, from, to}];
  }

  /// Says that `device` may be able to go on.
  void make_ready(CudaDevice& device) { ready_.push_back(&device); }
  /// Issues what can be issued on ready devices, until there is none.
  void pump();
  void fail_locked(const Error& error);

  void fail(const Error& error) override;  // takes the lock
  const FirstError& failure() const override { return run_.failure(); }
  SimTime now() const override { return run_.now(); }

  /// Compares the GPU's clock with now(), by an event on an idle stream, once per `step`. So the
  /// times of all ranks of the GPU refer to one zero, which is near enough that CUDA's float32
  /// milliseconds are precise.
  Result<void> start_clock(int step);
  Result<SimTime> time_of(EventHandle event);

 private:
  Driver& driver_;
  RunContext& run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int, int, int>, Meeting> meetings_;
  std::deque<CudaDevice*> ready_;

  std::mutex clock_mutex_;
  StreamHandle clock_stream_ = nullptr;
  EventHandle origin_ = nullptr;
  SimTime origin_time_{};
  int clock_step_ = -1;
};

}  // namespace lockstep::cuda
