// StreamClock: how far each stream of a rank has come, as far as somebody knows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// By stream, a number that grows along it. It fills a line of the cache, so that two clocks are
/// merged by a few instructions without a loop.
struct alignas(64) StreamClock : IndexArray<Stream, std::int32_t, 16> {
  static_assert(kNumStreams <= 16);
  /// What is known after hearing of `other`, too.
  void merge(const StreamClock& other) {
    for (std::size_t s = 0; s < size(); ++s) (*this)[s] = std::max((*this)[s], other[s]);
  }
};

}  // namespace lockstep
