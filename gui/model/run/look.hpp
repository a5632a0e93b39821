// Look: the class of an op that its colour, pattern and letter follow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/trace/trace.hpp"

namespace lockstep::gui {

enum class Look : std::uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Recompute,
  Optimizer,
  OtherCompute,
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  AllToAll,
  Send,
  Recv,
  OtherTransfer,
  Copy,
  Host,
};
inline constexpr int kNumLooks = static_cast<int>(Look::Host) + 1;

/// Of TraceOp::kind's name; one that is not known is OtherCompute.
Look look_of_kind(std::string_view kind);

/// "F", "B", "I", "W", "R", "O", "AG", "RS", …: what stands in a box beside its colour.
std::string_view letters(Look look);
std::string_view long_name(Look look);  // "forward", "all-gather"

/// "F3", "AG L5": the letters with the microbatch of compute and the layer of a transfer.
std::string label(const TraceOp& op, Look look);

}  // namespace lockstep::gui
