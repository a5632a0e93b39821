// OpClass: what a span occupies, told from the name of its kind; for our own traces and for those
// from elsewhere.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// Compute: arithmetic of the device. Collective, Send, Recv, SendRecv: a transfer between ranks,
/// in which all members of a group or the two ends of a message meet; SendRecv is one kernel that
/// may be either end, as NCCL's is. Copy: a copy or fill of memory. Host: nothing of the device's,
/// such as work of the host, an annotation or a wait.
enum class OpClass : std::uint8_t { Compute, Collective, Send, Recv, SendRecv, Copy, Host };

/// The class of a kind, given the name of TraceOp::kind. core/run/trace_builder.hpp lists the kinds
/// of our own programs, docs/traces.md those of traces from elsewhere. An unknown name is compute.
OpClass op_class(std::string_view kind);

constexpr bool is_message(OpClass c) {
  return c == OpClass::Send || c == OpClass::Recv || c == OpClass::SendRecv;
}
constexpr bool is_transfer(OpClass c) { return c == OpClass::Collective || is_message(c); }

}  // namespace lockstep
