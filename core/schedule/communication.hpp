// The second level of PyTorch's schedule files: actions, and the communication between them.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace lockstep {

/// The cells of every rank ("2F0", "2SEND_F0", "0UNSHARD", …), with communication where the passes
/// of torch.distributed.pipelining put it:
/// - add_unshard_reshard: a stage's parameters are unsharded while it is among the `most_active`
///   stages that the rank touches next; if that is 0, from their first to their last use.
/// - add_reduce_grad: gradients are reduced after a stage's last backward pass.
/// - add_send_recv: both ends of a message follow the sender's action, so that the two ranks have
///   their messages in one order.
/// Requires that check_schedule finds nothing wrong.
std::vector<std::vector<std::string>> with_communication(const Schedule& schedule, int most_active);
std::string print_communication_csv(const Schedule& schedule, int most_active);

}  // namespace lockstep
