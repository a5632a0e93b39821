// OpClass: what a span of some kind occupies, from the kind's name; for our own traces and others.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// A device at work on arithmetic, a transfer between ranks, a copy or fill of memory, or nothing
/// of the device's: the host, an annotation, a wait.
enum class OpClass : std::uint8_t { Compute, Communication, Copy, Host };

/// Of TraceOp::kind's name. Kinds of our own programs are core/run's; those of traces from
/// elsewhere are listed in docs/traces.md. A name that is in neither is compute.
OpClass op_class(std::string_view kind);

}  // namespace lockstep
