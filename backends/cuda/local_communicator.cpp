#include "backends/cuda/local_communicator.hpp"

#include <string>
#include <utility>

namespace lockstep::cuda {
namespace {

/// Moves the data of a transfer on one stream, when all its members have come.
class Mover {
 public:
  Mover(Driver& driver, StreamHandle stream, const std::vector<Member>& members)
      : driver_(driver), stream_(stream), members_(members) {}

  Result<void> move() const {
    const auto size = std::ssize(members_);
    const std::int64_t part = members_[0].party.bytes / size;
    switch (members_[0].party.kind) {
      case OpKind::AllReduce:
        return add(0, members_[0].party.bytes, true, 0);
      case OpKind::ReduceScatter:
        for (std::int64_t i = 0; i < size; ++i) {
          if (auto done = add(i * part, part, false, i); !done) return done;
        }
        return {};
      case OpKind::AllGather:
        return exchange([&](std::int64_t) { return std::int64_t{0}; }, part);
      case OpKind::AllToAll:
        return exchange([&](std::int64_t to) { return to * part; }, part);
      case OpKind::AllToAllRows:
        return exchange_rows();
      // Within a GPU's memory, to move all places costs less than to read how many have rows.
      case OpKind::AllGatherRows:
        return exchange([&](std::int64_t) { return std::int64_t{0}; }, places());
      case OpKind::ReduceScatterRows:
        for (std::int64_t i = 0; i < size; ++i) {
          if (auto done = add(i * places(), places(), false, i); !done) return done;
        }
        return {};
      case OpKind::Rotate:
        for (std::int64_t from = 0; from < size; ++from) {
          const Party& next = party((from + 1) % size);
          if (auto done = copy(next.target, party(from).source, next.bytes); !done) return done;
        }
        return {};
      default:  // a broadcast, or a message
        for (std::int64_t to = 0; to < size; ++to) {
          const Party& from = party(party(0).root);
          if (to == party(0).root) continue;
          if (auto done = copy(party(to).target, from.source, from.bytes); !done) {
            return done;
          }
        }
        return {};
    }
  }

 private:
  const Party& party(std::int64_t i) const { return members_[to_size(i)].party; }

  /// Of the rows of each member, in bytes.
  std::int64_t places() const { return party(0).places() * party(0).bytes; }

  /// Adds up bytes [offset, offset + bytes) of all members in order, and writes the sums to all
  /// targets or to `one`.
  Result<void> add(std::int64_t offset, std::int64_t bytes, bool to_all, std::int64_t one) const {
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    for (const Member& member : members_) {
      sources.push_back(member.party.source + offset);
      if (to_all) targets.push_back(member.party.target);
    }
    if (!to_all) targets.push_back(party(one).target);
    const DType dtype = party(0).dtype;
    return driver_.add_in_order(stream_, dtype, bytes / size_of(dtype), sources, targets,
                                party(0).largest);
  }

  /// Copies to part `from` of member `to` what begins at offset(to) of member `from`.
  template <class Offset>
  Result<void> exchange(const Offset& offset, std::int64_t part) const {
    for (std::int64_t to = 0; to < std::ssize(members_); ++to) {
      for (std::int64_t from = 0; from < std::ssize(members_); ++from) {
        auto done = copy(party(to).target + from * part, party(from).source + offset(to), part);
        if (!done) return done;
      }
    }
    return {};
  }

  /// The GPU reads the counts itself.
  Result<void> exchange_rows() const {
    if (members_.size() > std::size_t{RowExchange::kMostMembers}) {
      return Error{ErrorKind::Unsupported,
                   std::to_string(members_.size()) +
                       " logical ranks divide the experts; the most is " +
                       std::to_string(RowExchange::kMostMembers),
                   std::nullopt};
    }
    RowExchange rows;
    rows.members = static_cast<int>(members_.size());
    rows.row_bytes = party(0).bytes;
    rows.parts = party(0).parts;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Party& own = members_[i].party;
      rows.source[i] = own.source;
      rows.target[i] = own.target;
      rows.room[i] = own.room;
      rows.goes[i] = own.goes;
    }
    return driver_.exchange_rows(stream_, rows);
  }

  /// Copies, unless both addresses are the same, as they are in gathers in place.
  Result<void> copy(std::byte* to, const std::byte* from, std::int64_t bytes) const {
    if (to == from || bytes == 0) return {};
    return driver_.copy(stream_, to, from, bytes);
  }

  Driver& driver_;
  StreamHandle stream_;
  const std::vector<Member>& members_;
};

/// Lets the host of a member see whether what comes has room. The GPU has not moved it if not.
Result<void> check_room_on_host(const Member& member) {
  const Party& party = member.party;
  CudaDevice& device = *member.device;
  const std::size_t members = to_size(party.members);
  auto* const counts = device.counts_of(party.op);
  auto copied = device.driver().copy(device.handle(member.stream), counts,
                                     reinterpret_cast<const std::byte*>(party.comes),
                                     party.parts * party.members * size_of(DType::I32));
  if (!copied) return copied;
  return device.check_on_host(member.stream, [party, members, counts] {
    const auto* const comes = reinterpret_cast<const std::int32_t*>(counts);
    return check_room(party, rows_of_members(comes, party.parts, members));
  });
}

/// The first member's stream waits for the others, moves the data, and lets them all go on.
Result<void> issue(const std::vector<Member>& members) {
  CudaDevice& first = *members[0].device;
  Driver& driver = first.driver();
  const StreamHandle stream = first.handle(members[0].stream);
  for (std::size_t i = 1; i < members.size(); ++i) {
    const auto there = members[i].device->arrival(members[i].party.op);
    if (!there) return there.error();
    if (auto done = driver.wait(stream, *there); !done) return done;
  }
  if (auto done = first.mark(members[0].party.op, CudaDevice::Active); !done) return done;
  const auto all_there = first.arrival(members[0].party.op);
  if (!all_there) return all_there.error();
  for (std::size_t i = 1; i < members.size(); ++i) {
    const Member& member = members[i];
    auto done = driver.wait(member.device->handle(member.stream), *all_there);
    if (!done) return done;
    if (done = member.device->mark(member.party.op, CudaDevice::Active); !done) return done;
  }
  if (auto done = Mover(driver, stream, members).move(); !done) return done;
  const auto moved = first.arrival(members[0].party.op);
  if (!moved) return moved.error();
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (i > 0) {
      auto done = driver.wait(member.device->handle(member.stream), *moved);
      if (!done) return done;
    }
    if (member.party.kind == OpKind::AllToAllRows) {
      if (auto done = check_room_on_host(member); !done) return done;
    }
    if (auto done = member.device->mark(member.party.op, CudaDevice::End); !done) return done;
    member.device->go_on(member.stream, member.party.op);
  }
  return {};
}

}  // namespace

LocalCommunicator::LocalCommunicator(const Program& program, Rank rank, CudaDevice& device)
    : program_(program), rank_(rank), device_(device) {
  const std::lock_guard lock(device.node().mutex());
  for (const Op& op : program.role_of(rank).ops) places_.push_back(place(op));
}

LocalCommunicator::Place LocalCommunicator::place(const Op& op) const {
  Route route = route_of(program_, rank_, op);
  if (route.members.empty()) return {};
  Node& node = device_.node();
  Meeting& meeting = is_collective(op.kind)
                         ? node.group(op.group(), route.members.front())
                         : node.channel(route.members[0], route.members[1], route.backward);
  return {std::move(route), &meeting};
}

Result<void> LocalCommunicator::enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                                        std::span<const std::int64_t> bytes, DType dtype) {
  const Place& place = places_[id];
  if (place.meeting == nullptr) return no_route(rank_, id, op);
  const bool adds = op.kind == OpKind::AllReduce || op.kind == OpKind::ReduceScatter ||
                    op.kind == OpKind::ReduceScatterRows;
  if (adds && !can_sum(dtype)) {
    return Error{ErrorKind::Unsupported,
                 "backend 'cuda' does not add " + std::string(to_string(dtype)) + " values",
                 std::nullopt};
  }
  const int size = static_cast<int>(place.route.members.size());
  const auto own = make_party(program_, rank_, id, args, bytes, dtype, size);
  if (!own) return own.error();
  const std::int64_t number = number_[place.meeting]++;
  return device_.enqueue_transfer(
      id, op.stream, [this, &place, number, member = Member{*own, &device_, op.stream}] {
        return arrive(place, number, member);
      });
}

Result<void> LocalCommunicator::arrive(const Place& place, std::int64_t number,
                                       const Member& member) {
  std::vector<Member>& members = place.meeting->waiting[number];
  members.resize(place.route.members.size());
  members[to_size(place.route.position)] = member;
  std::vector<Party> parties;
  for (const Member& other : members) {
    if (other.device == nullptr) return {};
    parties.push_back(other.party);
  }
  if (auto same = check_agreement(parties); !same) return same;
  const std::vector<Member> all = std::move(members);
  place.meeting->waiting.erase(number);
  return issue(all);
}

}  // namespace lockstep::cuda
