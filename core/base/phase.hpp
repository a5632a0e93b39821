// Phase: what a piece of computation is for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Forward, full backward, backward for input, backward for weight, recompute, optimizer, anything
/// else, and the synchronization of replicas that train apart. The letters F, B, I and W are those
/// of torch.distributed.pipelining. Saved traces hold the numbers, so that new ones come last.
enum class Phase : std::uint8_t { F, B, I, W, R, O, None, S };
inline constexpr int kNumPhases = static_cast<int>(Phase::S) + 1;

constexpr std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, kNumPhases> kNames = {"F", "B", "I",    "W",
                                                               "R", "O", "none", "S"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace lockstep
