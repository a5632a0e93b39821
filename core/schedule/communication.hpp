// The second level of PyTorch's schedule files: actions with the communication between them.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace lockstep {

/// Cells of every rank, "2F0", "2SEND_F0", "0UNSHARD", … as the passes of
/// torch.distributed.pipelining put them in: add_unshard_reshard (a stage's parameters are gathered
/// while it is among the `most_active` stages that the rank touches next; 0: from first to last
/// use), add_reduce_grad (after a stage's last backward pass) and add_send_recv (both ends of a
/// message when its sender has computed, so that every channel has one order).
/// Requires check_schedule to find nothing.
std::vector<std::vector<std::string>> with_communication(const Schedule& schedule, int most_active);
std::string print_communication_csv(const Schedule& schedule, int most_active);

}  // namespace lockstep
