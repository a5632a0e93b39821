// OpClass: what a span of some kind occupies, from the kind's name; for our own traces and others.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// A device at work on arithmetic, a transfer between ranks, a copy or fill of memory, or nothing
/// of the device's: the host, an annotation, a wait. Transfers are told apart by who meets whom:
/// all members of a group, or the two ends of a message. SendRecv: one kernel that may be either
/// end, as NCCL's is.
enum class OpClass : std::uint8_t { Compute, Collective, Send, Recv, SendRecv, Copy, Host };

/// Of TraceOp::kind's name. Kinds of our own programs are core/run's; those of traces from
/// elsewhere are listed in docs/traces.md. A name that is in neither is compute.
OpClass op_class(std::string_view kind);

constexpr bool is_message(OpClass c) {
  return c == OpClass::Send || c == OpClass::Recv || c == OpClass::SendRecv;
}
constexpr bool is_transfer(OpClass c) { return c == OpClass::Collective || is_message(c); }

}  // namespace lockstep
