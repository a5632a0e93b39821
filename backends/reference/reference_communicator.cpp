#include "backends/reference/reference_communicator.hpp"

#include "backends/local/collectives.hpp"

namespace lockstep::reference {
namespace {

/// One member's part in a transfer, divided into steps; between two steps it waits for the others.
class Transfer {
 public:
  Transfer(const local::Appointment& at, local::Fabric& fabric) : at_(at), fabric_(&fabric) {}

  /// Takes as many steps as the others allow; returns true when the transfer has ended.
  bool operator()(OpTime& time) {
    if (next_ == Next::Post) {
      at_.meeting->post(at_.sequence, at_.position, at_.party);
      next_ = Next::Move;
    }
    if (next_ == Next::Move) {
      const local::Gathering* all = at_.meeting->complete(at_.sequence);
      if (all == nullptr) return false;
      time.active = all->complete;
      const auto moved = local::move_share(all->parties, at_.position);
      if (!moved) fabric_->fail(moved.error());
      at_.meeting->leave(at_.sequence);
      next_ = Next::End;
    }
    return at_.meeting->over(at_.sequence);
  }

 private:
  enum class Next { Post, Move, End };
  local::Appointment at_;
  local::Fabric* fabric_;
  Next next_ = Next::Post;
};

}  // namespace

Result<void> ReferenceCommunicator::enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                                            std::span<const std::int64_t> bytes, DType dtype) {
  const auto next = appointments_.next(id, op, args, bytes, dtype);
  if (!next) return next.error();
  return device_.enqueue_task(id, op.stream, Transfer(*next, fabric_));
}

}  // namespace lockstep::reference
