// ThreadTeam: the threads with which one rank computes; parallel_for over row ranges.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep::cpu {

class ThreadTeam {
 public:
  explicit ThreadTeam(int threads);  // at least 1; the caller's thread is one of them
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  int size() const;
  /// Calls body(begin, end) for disjoint ranges that cover [0, n), each a multiple of `grain` long
  /// except the last; returns when all are done. The split depends on size() only. With one thread
  /// it is a plain call. Not reentrant.
  void parallel_for(std::int64_t n, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cpu
