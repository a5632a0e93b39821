// Fabric: where the ranks of one run in one process meet. The n-th transfer of a group or message
// channel has a slot: each member leaves the addresses of its buffers there, moves its share of the
// data, and leaves when all are done. Any device whose memory the host can reach may use it
// (backends/cpu, backends/reference).
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
  SimTime complete{};  // when the last party arrived
};

class Fabric;

/// The meeting place of one instance of a group, or of one message channel. Thread-safe.
class Meeting {
 public:
  Meeting(Fabric& fabric, int size) : fabric_(fabric), size_(size) {}

  // `sequence` numbers the transfers of a member 0, 1, …. A device whose streams are threads calls
  // arrive() and part(), which block. A device that has one thread for all streams calls post(),
  // complete(), leave() and over(), which do not.

  /// Blocks until all members have arrived. The result is valid until part(); it is null if the run
  /// has failed. The run fails here if the parties do not agree on kind, type and size.
  const Gathering* arrive(std::int64_t sequence, int position, const Party& party);
  /// Says that the member has moved its share, and blocks until all members have.
  void part(std::int64_t sequence);

  /// Says that the member has arrived. The run fails if the parties do not agree.
  void post(std::int64_t sequence, int position, const Party& party);
  /// All parties; null while one is missing, or if they do not agree. The result is valid until
  /// over() returns true.
  const Gathering* complete(std::int64_t sequence);
  /// Says that the member has moved its share.
  void leave(std::int64_t sequence);
  /// Whether all members have left. After the answer true, the member must not ask again.
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

/// The meetings of one run, shared by the devices and communicators of all its ranks, which it must
/// outlive.
class Fabric final : public RunContext {
 public:
  Fabric() = default;
  /// Its ranks run in `process`, with whose clock and activity, and which must outlive it.
  explicit Fabric(const RunContext& process) : RunContext(process.activity), clock_(process) {}
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// The instance of `group` whose lowest member is `first`.
  Meeting& group(GroupId group, Rank first, int size);
  /// The channel of messages from one rank to another. Forward and backward messages have channels
  /// of their own, because they run on different streams and would otherwise be counted out of
  /// order.
  Meeting& channel(Rank from, Rank to, bool backward);

  void fail(const Error& error) override;
  const FirstError& failure() const override { return process_.failure(); }
  SimTime now() const override { return clock_.now(); }

 private:
  Meeting& meeting(std::tuple<int, int, int> key, int size);

  SoleProcess process_;
  const RunContext& clock_ = process_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Meeting>> meetings_;
};

}  // namespace lockstep::local
