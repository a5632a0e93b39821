// LoopbackProcess: processes that are threads of the test and pass their messages through memory.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "core/run/process.hpp"

namespace lockstep::testing {

struct LoopbackNetwork {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> mail;  // from, to, tag
  SoleProcess shared;                                                            // clock, failure
};

class LoopbackProcess final : public Process {
 public:
  LoopbackProcess(LoopbackNetwork& network, int index, int size)
      : network_(network), index_(index), size_(size) {}
  int index() const override { return index_; }
  int size() const override { return size_; }
  int max_tag() const override { return 32767; }
  bool exchange(int tag, std::span<const Outgoing> out, std::span<const Incoming> in,
                Patience) override {
    std::unique_lock lock(network_.mutex);
    for (const Outgoing& message : out) {
      network_.mail[{index_, message.to, tag}].emplace_back(message.data,
                                                            message.data + message.bytes);
    }
    network_.changed.notify_all();
    for (const Incoming& message : in) {
      auto& mail = network_.mail[{message.from, index_, tag}];
      network_.changed.wait(lock, [&] { return !mail.empty() || failure().is_set(); });
      if (failure().is_set()) return false;
      if (mail.front().size() != static_cast<std::size_t>(message.bytes)) return false;
      if (message.bytes > 0) std::memcpy(message.data, mail.front().data(), mail.front().size());
      mail.pop_front();
    }
    return !failure().is_set();
  }
  void fail(const Error& error) override {
    network_.shared.fail(error);
    const std::lock_guard lock(network_.mutex);
    network_.changed.notify_all();
  }
  const FirstError& failure() const override { return network_.shared.failure(); }
  SimTime now() const override { return network_.shared.now(); }
  SimTime clock_uncertainty() const override { return SimTime{7}; }
  Result<void> finish() override { return {}; }
  void end_all(int) override {}

 private:
  LoopbackNetwork& network_;
  int index_, size_;
};

/// Calls body(process) in `size` processes at once, and returns when all have returned.
template <class Body>
void in_processes(int size, const Body& body) {
  LoopbackNetwork network;
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      LoopbackProcess process(network, i, size);
      body(process);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep::testing
