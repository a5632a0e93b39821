#include "backends/local/fabric.hpp"

#include "core/base/index_vector.hpp"

namespace lockstep::local {

void Meeting::post(std::int64_t sequence, int position, const Party& party) {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[sequence];
  std::vector<Party>& parties = slot.gathering.parties;
  parties.resize(to_size(size_));
  parties[to_size(position)] = party;
  if (slot.arrived + 1 == size_) {
    if (const auto same = check_agreement(parties); !same) {
      lock.unlock();  // fail() takes every meeting's lock
      return fabric_.fail(same.error());
    }
    slot.gathering.complete = fabric_.now();
  }
  const bool all = ++slot.arrived == size_;
  lock.unlock();
  if (all) changed_.notify_all();
}

const Gathering* Meeting::complete(std::int64_t sequence) {
  const std::lock_guard lock(mutex_);
  const Slot& slot = slots_.at(sequence);
  return slot.arrived == size_ ? &slot.gathering : nullptr;
}

const Gathering* Meeting::arrive(std::int64_t sequence, int position, const Party& party) {
  post(sequence, position, party);
  std::unique_lock lock(mutex_);
  const Slot& slot = slots_.at(sequence);
  changed_.wait(lock, [&] { return slot.arrived == size_ || fabric_.failure().is_set(); });
  return fabric_.failure().is_set() ? nullptr : &slot.gathering;
}

void Meeting::leave(std::int64_t sequence) {
  std::unique_lock lock(mutex_);
  const bool all = ++slots_.at(sequence).finished == size_;
  lock.unlock();
  if (all) changed_.notify_all();
}

bool Meeting::over(std::int64_t sequence) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_.at(sequence);
  if (slot.finished < size_) return false;
  if (++slot.gone == size_) slots_.erase(sequence);
  return true;
}

void Meeting::part(std::int64_t sequence) {
  leave(sequence);
  std::unique_lock lock(mutex_);
  Slot& slot = slots_.at(sequence);
  changed_.wait(lock, [&] { return slot.finished == size_ || fabric_.failure().is_set(); });
  if (++slot.gone == size_) slots_.erase(sequence);
}

void Meeting::wake_all() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

Meeting& Fabric::meeting(std::tuple<int, int, int> key, int size) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Meeting>& meeting = meetings_[key];
  if (meeting == nullptr) meeting = std::make_unique<Meeting>(*this, size);
  return *meeting;
}

Meeting& Fabric::group(GroupId group, Rank first, int size) {
  return meeting({0, group.v, first}, size);
}

Meeting& Fabric::channel(Rank from, Rank to, bool backward) {
  return meeting({backward ? 2 : 1, from, to}, 2);
}

void Fabric::fail(const Error& error) {
  process_.fail(error);
  const std::lock_guard lock(mutex_);
  for (auto& [key, meeting] : meetings_) meeting->wake_all();
}

}  // namespace lockstep::local
