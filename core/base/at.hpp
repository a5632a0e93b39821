// at: turns an id's number, a rank or another signed integer into the index of a container's
// element.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Requires i >= 0.
constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace lockstep
