// StreamClock: how far each stream of a rank has come, as far as somebody knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// By stream, a number that grows along it. It fills a line of the cache, so that two clocks are
/// merged by a few instructions without a loop.
struct alignas(64) StreamClock : IndexArray<Stream, std::int32_t, 16> {
  static_assert(kNumStreams <= 16);
  /// What is known after hearing of `other`, too.
  void merge(const StreamClock& other) {
    // By fours, as compilers make one comparison of each number of a loop.
    using Four [[gnu::vector_size(16)]] = std::int32_t;
    for (std::size_t s = 0; s < size(); s += 4) {
      Four mine, theirs;
      std::memcpy(&mine, data() + s, sizeof mine);
      std::memcpy(&theirs, other.data() + s, sizeof theirs);
      mine = mine > theirs ? mine : theirs;
      std::memcpy(data() + s, &mine, sizeof mine);
    }
  }
};

}  // namespace lockstep
