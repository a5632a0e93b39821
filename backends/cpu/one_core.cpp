#include "backends/cpu/one_core.hpp"

#include <pthread.h>
#include <sched.h>

namespace lockstep::cpu {

void keep_on_one_core([[maybe_unused]] std::thread::native_handle_type thread,
                      [[maybe_unused]] Rank rank, [[maybe_unused]] int ranks) {
#ifdef __linux__
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int cores = CPU_COUNT(&allowed);
  const bool fill = ranks > cores ? ranks % cores == 0 : 2 * ranks > cores;
  if (ranks < 2 || !fill) return;
  int core = 0;
  for (int left = rank % cores; left > 0 || !CPU_ISSET(core, &allowed); ++core) {
    if (CPU_ISSET(core, &allowed)) --left;
  }
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(core, &own);
  // Without it everything works all the same.
  static_cast<void>(pthread_setaffinity_np(thread, sizeof own, &own));
#endif
}

}  // namespace lockstep::cpu
