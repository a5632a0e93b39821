// DataLoaderSpec: the processes that make a rank's samples ready on its host, as torch's DataLoader
// has them. Only the simulator applies it; a real run loads as fast as its host does.
#pragma once

#include "core/base/units.hpp"

namespace lockstep {

struct DataLoaderSpec {
  Seconds sample;           // of one worker for one sample: read, decode, augment; 0: no time
  int num_workers = 0;      // of each rank; 0: the rank's own process loads when it needs samples
  int prefetch_factor = 2;  // microbatches that each worker has ready before they are asked for
  bool pin_memory = true;   // otherwise the host copies what goes to the device to pinned memory
  bool operator==(const DataLoaderSpec&) const = default;
};

}  // namespace lockstep
