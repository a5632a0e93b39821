// FakeDevice and FakeCommunicator: a rank that records what the executor asks of it and computes
// nothing, so that a run on them ends immediately.
#pragma once

#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/run/executor.hpp"

namespace lockstep::testing {

struct FakeRank {
  std::vector<std::byte> arena;
  std::vector<std::string> log;                   // what was asked, in order
  std::vector<std::vector<std::int32_t>> copied;  // host data of each HostToDevice
  double metric = 0;                              // what DeviceToHost delivers
  std::optional<KernelKind> unsupported;
  int fails_at_step = -1;              // enqueue_call of this step fails
  bool hangs = false;                  // synchronize() returns only after abort()
  std::function<void()> on_call = {};  // what a call computes
  std::function<void()> on_read = {};  // called before read() copies

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Error> aborted;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(FakeRank& rank) : rank_(rank) {}
  bool supports(const Kernel& kernel) const override { return rank_.unsupported != kernel.kind; }
  std::byte* arena() override { return rank_.arena.data(); }
  std::int64_t arena_bytes() const override {
    return static_cast<std::int64_t>(rank_.arena.size());
  }
  Result<void> write(std::int64_t offset, std::span<const std::byte> from) override {
    std::memcpy(rank_.arena.data() + offset, from.data(), from.size());
    return {};
  }
  Result<void> read(std::int64_t offset, std::span<std::byte> to) override {
    if (rank_.on_read) rank_.on_read();
    std::memcpy(to.data(), rank_.arena.data() + offset, to.size());
    return {};
  }
  Result<void> fill(std::int64_t offset, std::int64_t bytes, std::uint8_t value) override {
    std::memset(rank_.arena.data() + offset, value, static_cast<std::size_t>(bytes));
    return {};
  }
  bool reads_beside_step() const override { return true; }
  void begin_step(const StepContext& context) override {
    step_ = context.step;
    enqueued_.clear();
    rank_.log.push_back("step " + std::to_string(context.step));
  }
  Result<void> enqueue_call(OpId id, const Op&, std::span<std::byte* const> args) override {
    if (step_ == rank_.fails_at_step) {
      return Error{ErrorKind::Device, "the fake device breaks", std::nullopt};
    }
    std::string line = "call %" + std::to_string(id.v) + " at";
    for (const std::byte* arg : args) line += " " + std::to_string(arg - rank_.arena.data());
    if (rank_.on_call) rank_.on_call();
    return record(id, line);
  }
  Result<void> enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                            std::size_t bytes) override {
    if (op.kind == OpKind::HostToDevice) {
      rank_.copied.emplace_back(bytes / sizeof(std::int32_t));
      std::memcpy(rank_.copied.back().data(), host, bytes);
    } else if (bytes == sizeof(double)) {
      std::memcpy(host, &rank_.metric, bytes);
    } else {
      const auto metric = static_cast<float>(rank_.metric);
      std::memcpy(host, &metric, sizeof metric);
    }
    return record(id, "copy %" + std::to_string(id.v) + " at " +
                          std::to_string(buffer - rank_.arena.data()) + " of " +
                          std::to_string(bytes));
  }
  Result<void> wait(Stream waiter, OpId dependency) override {
    rank_.log.push_back(std::string(to_string(waiter)) + " waits %" + std::to_string(dependency.v));
    return {};
  }
  Result<std::vector<OpTime>> synchronize() override {
    rank_.log.emplace_back("synchronize");
    std::unique_lock lock(rank_.mutex);
    if (rank_.hangs) rank_.changed.wait(lock, [this] { return rank_.aborted.has_value(); });
    if (rank_.aborted) return Error{ErrorKind::Device, "woken by abort", std::nullopt};
    std::vector<OpTime> times;
    for (const OpId op : enqueued_) {
      const SimTime begin{1000 + 10 * op.v};
      times.push_back({op, begin, begin + SimTime{2}, begin + SimTime{5}});
    }
    return times;
  }
  Result<void> record(OpId id, std::string line) {
    enqueued_.push_back(id);
    rank_.log.push_back(std::move(line));
    return {};
  }

 private:
  FakeRank& rank_;
  std::vector<OpId> enqueued_;
  int step_ = 0;
};

class FakeCommunicator final : public Communicator {
 public:
  FakeCommunicator(FakeRank& rank, FakeDevice& device) : rank_(rank), device_(device) {}
  Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype) override {
    std::string line = std::string(to_string(op.kind)) + " %" + std::to_string(id.v) + " " +
                       std::string(to_string(dtype));
    for (std::size_t i = 0; i < args.size(); ++i) {
      line += " " + std::to_string(bytes[i]) + "@" + std::to_string(args[i] - rank_.arena.data());
    }
    return device_.record(id, line);
  }
  void abort(const Error& reason) override {
    const std::lock_guard lock(rank_.mutex);
    rank_.aborted = reason;
    rank_.changed.notify_all();
  }

 private:
  FakeRank& rank_;
  FakeDevice& device_;
};

}  // namespace lockstep::testing
