// Look: the class of an op, which determines its colour, pattern and letter.
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
  Product,  // this and the following: families of kernels in traces from elsewhere
  Attention,
  Convolution,
  Normalization,
  Reduction,
  Indexing,
  Elementwise,
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

/// The look of a name of TraceOp::kind; OtherCompute for one that is not known.
Look look_of_kind(std::string_view kind);

/// The look of a kernel in a trace from elsewhere, by its name.
Look look_of_kernel(std::string_view name);

/// The letters in a box: "F", "B", "I", "W", "R", "O", "AG", "RS", ….
std::string_view letters(Look look);
std::string_view long_name(Look look);  // "forward", "all-gather"

/// The letters with the microbatch of a computation, or the layer of a transfer: "F3", "AG L5".
std::string label(const TraceOp& op, Look look);

}  // namespace lockstep::gui
