// Phase: what a piece of computation is for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Forward, full backward, backward for input, backward for weight, recompute, optimizer, and
/// anything else. The letters F, B, I and W are those of torch.distributed.pipelining.
enum class Phase : std::uint8_t { F, B, I, W, R, O, None };

constexpr std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, 7> kNames = {"F", "B", "I", "W", "R", "O", "none"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace lockstep
