#include "backends/cpu/cpu_communicator.hpp"

#include "backends/local/collectives.hpp"

namespace lockstep::cpu {

Result<void> CpuCommunicator::enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                                      std::span<const std::int64_t> bytes, DType dtype) {
  const auto next = appointments_.next(id, op, args, bytes, dtype);
  if (!next) return next.error();
  return device_.enqueue_task(id, op.stream, [this, at = *next](SimTime begin) {
    const local::Gathering* gathering = at.meeting->arrive(at.sequence, at.position, at.party);
    if (gathering == nullptr) return begin;
    const SimTime active = gathering->complete;
    const auto moved = local::move_share(gathering->parties, at.position);
    if (!moved) fabric_.fail(moved.error());
    at.meeting->part(at.sequence);
    return active;
  });
}

}  // namespace lockstep::cpu
