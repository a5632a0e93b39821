// NcclCommunicator: transfers between ranks that have a GPU each. Every group, and every channel of
// messages, has an NCCL communicator of its own: NCCL runs the calls of one communicator in order,
// whatever streams they are on, and a receive that was posted early must not hold up later calls.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/nccl.hpp"
#include "core/base/index_vector.hpp"
#include "core/run/process.hpp"

namespace lockstep::cuda {

/// Names a communicator: that of a group instance (kind 0; first is the group, second the lowest
/// member), or that of a channel (kind 1 forward, 2 backward; first is the sender, second the
/// receiver). All ranks join in the order of keys.
struct CommKey {
  int kind = 0, first = 0, second = 0;
  auto operator<=>(const CommKey&) const = default;
};

struct CommMembers {
  std::vector<Rank> ranks;  // by position
  bool exchange = false;    // whether each member sends to each, in an all-to-all
  bool operator==(const CommMembers&) const = default;
};

/// Every communicator that a program's ranks need.
std::map<CommKey, CommMembers> communicators_of(const Program& program);

struct NcclRank {
  Rank rank = 0;
  Driver* gpu = nullptr;
};

/// The communicators of the ranks of this process.
class NcclWorld {
 public:
  /// All processes call it together. Blocks until all have joined and all senders are connected, or
  /// `seconds` have passed. Errors: Unsupported if two ranks share a GPU; Device.
  static Result<std::unique_ptr<NcclWorld>> join(const Program& program,
                                                 const std::vector<NcclRank>& ranks, Nccl& nccl,
                                                 Process& process, double seconds = 120);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  CommHandle comm(Rank rank, const CommKey& key) const;
  /// Makes `calls` on one communicator, from the thread of its rank, and waits until NCCL has taken
  /// them. Errors: those of the calls; that of `run` if it has failed meanwhile; Device after an
  /// abort.
  Result<void> call(CommHandle comm, const RunContext& run,
                    const std::function<Result<void>(Nccl&)>& calls);
  /// Returns the error of the first communicator of `rank` that has failed, if any.
  Result<void> check(Rank rank);
  /// Ends all transfers of this process. Thread-safe; a second call does nothing.
  void abort();

 private:
  struct Joining;
  explicit NcclWorld(Nccl& nccl) : nccl_(nccl) {}
  Result<void> join_one(const Joining& joining, const CommKey& key, const CommMembers& members,
                        const NcclId& id);
  Result<void> connect(const Joining& joining, const CommKey& key, const CommMembers& members);

  Nccl& nccl_;
  std::shared_mutex mutex_;  // held shared by calls of NCCL, exclusively by an abort
  std::map<std::pair<Rank, CommKey>, CommHandle> comms_;
  bool aborted_ = false;
};

/// The communicator of one rank.
class NcclCommunicator final : public Communicator {
 public:
  /// `program`, `device` and `world` must outlive the communicator; `device` is that of `rank`.
  /// `timeout` is that of CudaDevice::set_watch().
  NcclCommunicator(const Program& program, Rank rank, CudaDevice& device, NcclWorld& world,
                   double timeout = 0);

  Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype) override;
  void abort(const Error& reason) override;

 private:
  struct Place {
    Route route;
    CommHandle comm = nullptr;
    /// The op before it that calls the same communicator, whose calls all members must make in one
    /// order; invalid: none.
    OpId behind;
  };
  Result<void> enqueue_rows(OpId id, const Op& op, const Place& place, const Party& party);
  static Result<void> issue_rows(Nccl& nccl, const Place& place, const Party& party,
                                 const std::vector<std::int64_t>& going,
                                 const std::vector<std::int64_t>& coming, StreamHandle stream);
  static Result<void> issue_places(Nccl& nccl, const Place& place, const Party& party,
                                   const std::vector<std::int64_t>& rows, StreamHandle stream);
  Result<void> issue(Nccl& nccl, const Place& place, const Party& party, StreamHandle stream) const;

  const Program& program_;
  Rank rank_;
  CudaDevice& device_;
  NcclWorld& world_;
  IndexVector<OpId, Place> places_;  // by op; an op that is no transfer has no members
};

}  // namespace lockstep::cuda
