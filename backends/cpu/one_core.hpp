// one_core: on which core the thread of a rank computes.
#pragma once

#include <thread>

#include "core/base/ids.hpp"

namespace lockstep::cpu {

/// Keeps the threads of a rank on one core where the ranks fill the cores that this process may
/// use, equally many on each. Otherwise Linux puts the threads of two ranks that wake each other on
/// one core and leaves another idle: steps of context parallelism on two cores took 75 ms instead
/// of 49.
void keep_on_one_core(std::thread::native_handle_type thread, Rank rank, int ranks);

}  // namespace lockstep::cpu
