// MemoryStore: a StateStore whose disk is memory that the processes of a test share.
#pragma once

#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/ir/training_state.hpp"

namespace lockstep::testing {

struct MemoryDisk {
  std::mutex mutex;
  TrainingState under_way;
  std::vector<TrainingState> saved;
  std::vector<std::string> calls;  // of all processes
  std::string fault;               // what the call `faulty` says
  std::string faulty = "commit";
};

class MemoryStore final : public StateStore {
 public:
  explicit MemoryStore(MemoryDisk& disk) : disk_(disk) {}
  Result<void> begin(const StateHead& head) override {
    const std::lock_guard lock(disk_.mutex);
    disk_.calls.emplace_back("begin");
    if (auto works = call("begin"); !works) return works;
    const auto scale = loss_scale_of(head);
    const auto apart = steps_apart_of(head);
    if (!scale) return scale.error();
    if (!apart) return apart.error();
    disk_.under_way = {head.step, head.samples, *scale, *apart, {}};
    for (const auto& [name, info] : head.tensors) {
      disk_.under_way.tensors[name] = {
          info.dtype, info.shape, std::vector<std::byte>(static_cast<std::size_t>(info.bytes()))};
    }
    return {};
  }
  Result<void> write(const StateHead&, const std::string& tensor, std::int64_t begin,
                     std::span<const std::byte> values) override {
    const std::lock_guard lock(disk_.mutex);
    if (auto works = call("write"); !works) return works;
    std::copy(values.begin(), values.end(),
              disk_.under_way.tensors.at(tensor).data.begin() + begin);
    return {};
  }
  Result<std::vector<std::byte>> finish_writing() override {
    const std::lock_guard lock(disk_.mutex);
    disk_.calls.emplace_back("written");
    if (auto works = call("finish_writing"); !works) return works.error();
    return std::vector<std::byte>(3);
  }
  std::string refusal() const override { return refuses; }
  Result<void> commit(const StateHead&,
                      const std::vector<std::vector<std::byte>>& written) override {
    const std::lock_guard lock(disk_.mutex);
    disk_.calls.push_back("commit of " + std::to_string(written.size()));
    if (auto works = call("commit"); !works) return works;
    disk_.saved.push_back(disk_.under_way);
    return {};
  }
  Result<std::unique_ptr<StateReader>> newest() const override {
    const std::lock_guard lock(disk_.mutex);
    if (disk_.saved.empty()) return invalid("nothing was saved");
    return std::unique_ptr<StateReader>(std::make_unique<HeldState>(disk_.saved.back()));
  }

  std::string refuses;

 private:
  Result<void> call(const std::string& name) const {
    if (disk_.fault.empty() || name != disk_.faulty) return {};
    return Error{ErrorKind::Device, disk_.fault, std::nullopt};
  }

  MemoryDisk& disk_;
};

}  // namespace lockstep::testing
