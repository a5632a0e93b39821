// DriveSpec: the drives of a node, on which its ranks keep what neither device nor host has room
// for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/units.hpp"

namespace lockstep {

/// What the ranks of a node put on its drives is striped over all of them. Only the simulator, and
/// who asks whether a program fits, read the figures: a real run takes what its folder lies on.
struct DriveSpec {
  int count = 0;        // of a node; 0: it has none
  Bytes capacity;       // of one drive; 0: unknown, and no limit
  BytesPerSecond read;  // of one drive, sequential; likewise `write`
  BytesPerSecond write;
  Seconds latency;                       // of a request
  int queue_depth = 8;                   // requests of a rank that are under way at a time
  Bytes request{std::int64_t{1} << 20};  // bytes of one

  /// What all drives of a node give together.
  BytesPerSecond all(bool reads) const { return {count * (reads ? read : write).v}; }
  /// What one rank reaches without company: queue_depth requests are answered in a latency
  /// (Little's law), and the drives give no more than they have.
  BytesPerSecond alone(bool reads) const {
    const BytesPerSecond most = all(reads);
    if (!(latency.v > 0)) return most;
    return {std::min(most.v, queue_depth * static_cast<double>(request.v) / latency.v)};
  }
  bool operator==(const DriveSpec&) const = default;
};

}  // namespace lockstep
