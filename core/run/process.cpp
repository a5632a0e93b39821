#include "core/run/process.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

constexpr int kControlTag = 0;
constexpr int kRoundTrips = 16;

Error failure_of(const Process& process) { return process.failure().result().error(); }

Result<std::vector<std::vector<std::byte>>> collect(Process& process,
                                                    std::span<const std::byte> own, bool everywhere,
                                                    int tag) {
  const bool receives = everywhere || process.index() == 0;
  const auto own_bytes = static_cast<std::int64_t>(own.size());
  IndexVector<int, std::int64_t> sizes(process.size());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int peer = 0; peer < process.size(); ++peer) {
    if (peer == process.index()) continue;
    if (everywhere || peer == 0) {
      out.push_back({peer, reinterpret_cast<const std::byte*>(&own_bytes), sizeof own_bytes});
    }
    if (receives) {
      in.push_back({peer, reinterpret_cast<std::byte*>(&sizes[peer]), sizeof own_bytes});
    }
  }
  if (!process.exchange(tag, out, in, Patience::Sleep)) return failure_of(process);
  for (const Incoming& message : in) {
    const std::int64_t size = sizes[message.from];
    if (size >= 0 && size <= process.most_unasked) continue;
    process.fail({ErrorKind::Device,
                  "process " + std::to_string(message.from) + " announces " + std::to_string(size) +
                      " bytes, more than this run can mean (" +
                      std::to_string(process.most_unasked.load()) + ")",
                  std::nullopt});
    return failure_of(process);
  }
  IndexVector<int, std::vector<std::byte>> all(receives ? sizes.size() : 0);
  for (Outgoing& message : out) message = {message.to, own.data(), own_bytes};
  for (Incoming& message : in) {
    std::vector<std::byte>& bytes = all[message.from];
    bytes.resize(to_size(sizes[message.from]));
    message = {message.from, bytes.data(), static_cast<std::int64_t>(bytes.size())};
  }
  if (!process.exchange(tag, out, in, Patience::Awake)) return failure_of(process);
  if (receives) all[process.index()].assign(own.begin(), own.end());
  return all;
}

/// The leader's side of compare_clocks: answers each question of `peer` with the time.
bool answer(Process& process, int peer, const std::function<SimTime()>& clock) {
  for (int i = 0; i < kRoundTrips; ++i) {
    std::byte question{};
    const Incoming in{peer, &question, 1};
    if (!process.exchange(kControlTag, {}, {&in, 1}, Patience::Awake)) return false;
    const std::int64_t now = clock().count();
    const Outgoing out{peer, reinterpret_cast<const std::byte*>(&now), sizeof now};
    if (!process.exchange(kControlTag, {&out, 1}, {}, Patience::Awake)) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<std::vector<std::byte>>> all_gather(Process& process,
                                                       std::span<const std::byte> own, int tag) {
  return collect(process, own, true, tag);
}

Result<std::vector<std::vector<std::byte>>> gather(Process& process, std::span<const std::byte> own,
                                                   int tag) {
  return collect(process, own, false, tag);
}

Result<ClockOffset> compare_clocks(Process& process, const std::function<SimTime()>& clock) {
  if (process.index() == 0) {
    for (int peer = 1; peer < process.size(); ++peer) {
      if (!answer(process, peer, clock)) return failure_of(process);
    }
    return ClockOffset{};
  }
  ClockOffset best{{}, SimTime::max()};
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::byte question{};
    std::int64_t leader = 0;
    const Outgoing out{0, &question, 1};
    const Incoming in{0, reinterpret_cast<std::byte*>(&leader), sizeof leader};
    const SimTime sent = clock();
    if (!process.exchange(kControlTag, {&out, 1}, {&in, 1}, Patience::Awake)) {
      return failure_of(process);
    }
    const SimTime half = (clock() - sent) / 2;
    if (half < best.uncertainty) best = {SimTime{leader} - (sent + half), half};
  }
  if (best.offset >= -best.uncertainty && best.offset <= best.uncertainty) best.offset = {};
  return best;
}

Result<SharedClock> share_clock(Process& process, const std::function<SimTime()>& clock) {
  const auto offset = compare_clocks(process, clock);
  if (!offset) return offset.error();
  const auto all =
      all_gather_values(process, std::vector<ClockOffset>{{clock(), offset->uncertainty}});
  if (!all) return all.error();
  SharedClock shared{all->front().offset - offset->offset, {}};
  for (const ClockOffset& one : *all) {
    shared.uncertainty = std::max(shared.uncertainty, 2 * one.uncertainty);
  }
  return shared;
}

}  // namespace lockstep
