// Fabric: where the ranks of one run in one process meet. The n-th transfer of a group or message
// channel is one slot; members leave their buffers there, move the data and part together. Any
// device whose memory the host reaches can use it (backends/cpu, backends/reference).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/ir/program.hpp"
#include "core/run/process.hpp"
#include "core/run/transfer.hpp"

namespace lockstep::local {

/// All parties of a transfer, by position.
struct Gathering {
  std::vector<Party> parties;
  SimTime complete{};  // when the last one arrived
};

class Fabric;

/// One group instance or message channel. Thread-safe.
class Meeting {
 public:
  Meeting(Fabric& fabric, int size) : fabric_(fabric), size_(size) {}

  // The transfers of a member are 0, 1, …: `sequence`. A device whose streams are threads makes the
  // two calls that block; one that has one thread for all streams makes the four that do not.

  /// Blocks until all members have arrived; the result is valid until part(). It is null if the
  /// run has failed, which it does here if the parties do not agree on kind, type and size.
  const Gathering* arrive(std::int64_t sequence, int position, const Party& party);
  /// Blocks until all members are done with each other's buffers.
  void part(std::int64_t sequence);

  /// Says that the member has arrived. The run fails if the parties do not agree.
  void post(std::int64_t sequence, int position, const Party& party);
  /// All parties; null as long as one is missing, and if they do not agree. The result is valid
  /// until over() holds.
  const Gathering* complete(std::int64_t sequence);
  /// Says that the member has moved its share.
  void leave(std::int64_t sequence);
  /// True once all members have left; the member then does not ask again.
  bool over(std::int64_t sequence);
  void wake_all();

 private:
  struct Slot {
    Gathering gathering;
    int arrived = 0, finished = 0, gone = 0;
  };
  Fabric& fabric_;
  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Slot> slots_;
};

/// Shared by the devices and communicators of all ranks of one run, which it outlives.
class Fabric final : public RunContext {
 public:
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// The instance of `group` whose lowest member is `first`.
  Meeting& group(GroupId group, Rank first, int size);
  /// Messages from one rank to another; forward and backward ones never overtake each other's
  /// counts, because they run on streams of their own.
  Meeting& channel(Rank from, Rank to, bool backward);

  void fail(const Error& error) override;
  const FirstError& failure() const override { return process_.failure(); }
  SimTime now() const override { return process_.now(); }

 private:
  Meeting& meeting(std::tuple<int, int, int> key, int size);

  SoleProcess process_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Meeting>> meetings_;
};

}  // namespace lockstep::local
