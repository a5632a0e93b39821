// Ink: what a colour means. Pictures are made of inks; a theme says which colours they are.
#pragma once

#include <cstdint>

#include "core/ir/program.hpp"
#include "gui/model/run/look.hpp"

namespace lockstep::gui {

enum class Ink : std::uint8_t {
  Background,  // of a picture
  Band,        // every other row, headings
  Grid,        // lines that guide the eye
  Text,
  Faint,   // text and lines of second rank
  Accent,  // selection, cursor, focus
  Wash,    // translucent accent: an area
  Idle,    // the hatch of a bubble
  Fault,   // errors, capacity, critical path
  Ok,      // improvements
  Look0,   // the Looks follow, then the memory kinds
  Memory0 = Look0 + kNumLooks,
  End = Memory0 + kNumBufferKinds,
};
inline constexpr int kNumInks = static_cast<int>(Ink::End);

constexpr Ink ink_of(Look look) {
  return static_cast<Ink>(static_cast<int>(Ink::Look0) + static_cast<int>(look));
}
/// `kind`: BufferKind's number, index into Trace::memory_kinds.
constexpr Ink memory_ink(int kind) {
  return static_cast<Ink>(static_cast<int>(Ink::Memory0) + kind % kNumBufferKinds);
}

enum class Hatch : std::uint8_t { None, Rising, Falling, Cross, Upright, Dots };

/// The pattern that says the same as the colour. Computation has none: its boxes carry letters.
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

/// Copies of parameters have a pattern, so that none is taken for the parameters themselves.
constexpr Hatch memory_hatch(int kind) {
  return kind == static_cast<int>(BufferKind::ParamVersion) ? Hatch::Upright : Hatch::None;
}

}  // namespace lockstep::gui
