#include "core/base/free_memory.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace lockstep {
namespace {

/// The number that a file of one line holds; -1 if there is none, as in "max".
std::int64_t number_in(const char* path) {
  std::ifstream file(path);
  std::int64_t number = -1;
  return file >> number ? number : -1;
}

}  // namespace

Bytes free_memory() {
  std::int64_t free = 0;
  std::ifstream facts("/proc/meminfo");
  for (std::string name, unit; facts >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "MemAvailable:" && facts >> kibibytes) free = kibibytes << 10;
    std::getline(facts, unit);
  }
  const std::int64_t most = number_in("/sys/fs/cgroup/memory.max");
  const std::int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (most > 0 && used >= 0) {
    const std::int64_t left = std::max<std::int64_t>(1, most - used);
    free = free > 0 ? std::min(free, left) : left;
  }
  return Bytes{free};
}

std::optional<Bytes> free_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::int64_t pages = std::max<std::int64_t>(0, number_in("/proc/self/statm"));
  return Bytes{static_cast<std::int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE)};
}

void share_heap_if_limited() {
  if (free_address_space()) mallopt(M_ARENA_MAX, 1);
}

}  // namespace lockstep
