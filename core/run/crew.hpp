// Crew: one host thread per rank that lives as long as the run.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

class Crew {
 public:
  explicit Crew(std::size_t size);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Calls body(i) on thread i for every i in [0, size) at once; returns when all have returned.
  void run(const std::function<void(std::size_t)>& body);

 private:
  void work(std::size_t index);

  std::mutex mutex_;
  std::condition_variable start_, finish_;
  const std::function<void(std::size_t)>* body_ = nullptr;
  long generation_ = 0;
  std::size_t busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep
