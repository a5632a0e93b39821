// ThreadTeam: threads that live as long as the team and work together when they are asked to. A run
// has a team for its ranks, a rank one for its kernels, a search one for its layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep {

/// The number of this machine's cores; 1 if the system does not say.
int num_cores();
/// As many threads as were asked for, or one for each core if `asked` is not positive.
int threads_or_cores(int asked);
/// How many threads are worth starting for work on so many things, of which each takes about 100
/// ns: one where the work takes less than a hundredth of a second, for starting and joining threads
/// takes about a tenth of a millisecond, otherwise one for each core.
int threads_for(std::size_t things);

class ThreadTeam {
 public:
  /// At least one member; the caller's thread is member 0. Throws std::system_error if the system
  /// gives no more threads.
  explicit ThreadTeam(int members);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  int size() const;
  /// Calls body(member) for every member in [0, size) at once, always on the same thread for one
  /// member; returns when all have returned. `body` does not throw. Not reentrant.
  void run(const std::function<void(int member)>& body);
  /// Calls body(begin, end) for disjoint ranges that cover [0, n), each a multiple of `grain` long
  /// except the last; returns when all are done. The split depends on size() only. With one thread
  /// it is a plain call. Not reentrant.
  void parallel_for(std::int64_t n, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);
  /// Calls body(i) once for every i in [0, count), each by the next member that is free, for pieces
  /// of unequal length; returns when all are done. The calls begin in the order of i. Not
  /// reentrant.
  void each(std::size_t count, const std::function<void(std::size_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
