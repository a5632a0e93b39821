// Ink: the meaning of a colour. Pictures are made of inks; a theme says which colours these are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ir/program.hpp"
#include "gui/model/run/look.hpp"

namespace lockstep::gui {

enum class Ink : std::uint8_t {
  Background,  // the background of a picture
  Band,        // every other row, and headings
  Grid,        // lines that guide the eye
  Text,
  Faint,   // text and lines of second rank
  Accent,  // selection, cursor, focus
  Wash,    // a translucent accent, for an area
  Idle,    // the hatch of a bubble
  Fault,   // errors, the capacity, the critical path
  Ok,      // improvements
  Over,    // a translucent fault, for memory above the capacity
  Look0,   // the Looks follow, then the kinds of memory
  Memory0 = Look0 + kNumLooks,
  End = Memory0 + kNumBufferKinds,
};
inline constexpr int kNumInks = static_cast<int>(Ink::End);

constexpr Ink ink_of(Look look) {
  return static_cast<Ink>(static_cast<int>(Ink::Look0) + static_cast<int>(look));
}
/// The ink of a kind of memory; `kind` is the number of a BufferKind, an index into
/// Trace::memory_kinds.
constexpr Ink memory_ink(int kind) {
  return static_cast<Ink>(static_cast<int>(Ink::Memory0) + kind % kNumBufferKinds);
}

enum class Hatch : std::uint8_t { None, Rising, Falling, Cross, Upright, Dots, Level };

/// The pattern that says the same as the colour. Computation has none, because its boxes have
/// letters.
constexpr Hatch hatch_of(Look look) {
  switch (look) {
    case Look::AllReduce:
      return Hatch::Cross;
    case Look::AllGather:
      return Hatch::Rising;
    case Look::ReduceScatter:
      return Hatch::Falling;
    case Look::Broadcast:
      return Hatch::Upright;
    case Look::AllToAll:
      return Hatch::Dots;
    default:
      return Hatch::None;
  }
}

/// The pattern of a kind of memory. Old versions of parameters have one, so that they are not taken
/// for the parameters themselves.
constexpr Hatch memory_hatch(int kind) {
  return kind == static_cast<int>(BufferKind::ParamVersion) ? Hatch::Upright : Hatch::None;
}

/// The pattern of the n-th term of what a process keeps beside its arena; all terms have the ink
/// Idle, because no op of the program explains them.
constexpr Hatch term_hatch(std::size_t n) { return static_cast<Hatch>(1 + n % 5); }

}  // namespace lockstep::gui
