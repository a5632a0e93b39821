// Appointments: says which transfer of which meeting each op of a rank is.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "backends/local/fabric.hpp"
#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"

namespace lockstep::local {

/// One rank's part in one transfer: the arguments of Meeting::arrive() or Meeting::post().
struct Appointment {
  Meeting* meeting = nullptr;
  std::int64_t sequence = 0;
  int position = -1;
  Party party;
};

/// The appointments of one rank. The n-th transfer that it enqueues on a group or channel meets the
/// n-th of its peers. Used from the thread that enqueues.
class Appointments {
 public:
  /// `program` and `fabric` must outlive it.
  Appointments(const Program& program, Rank rank, Fabric& fabric);

  /// The appointment of the next transfer, `op`; the arguments are those of
  /// Communicator::enqueue(). Errors: Internal if the rank is outside the group of the op, and
  /// those of party_of().
  Result<Appointment> next(OpId id, const Op& op, std::span<std::byte* const> args,
                           std::span<const std::int64_t> bytes, DType dtype);

 private:
  struct Place {
    Meeting* meeting = nullptr;
    int position = -1;
    int size = 0;
  };
  Place place(const Op& op) const;

  const Program& program_;
  Rank rank_;
  Fabric& fabric_;
  IndexVector<OpId, Place> places_;            // by op; an op that is no transfer has no meeting
  std::map<Meeting*, std::int64_t> sequence_;  // transfers enqueued so far
};

}  // namespace lockstep::local
