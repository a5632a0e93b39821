#include "backends/cpu/remote_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/local/collectives.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::cpu {
namespace {

constexpr int kMessageLanes = 4;  // forward and backward, each from the lower or the higher rank

/// What members send each other before the data. The addresses in it mean nothing to the others.
struct Arrival {
  Party party;
  SimTime time{};
};

}  // namespace

RemoteCommunicator::RemoteCommunicator(const Program& program, Rank rank, CpuDevice& device,
                                       Process& process)
    : rank_(rank),
      program_(program),
      device_(device),
      process_(process),
      lanes_(static_cast<int>(program.groups.size()) + kMessageLanes) {
  for (const Op& op : program.role_of(rank).ops) routes_.push_back(lane(op));
}

RemoteCommunicator::Lane RemoteCommunicator::lane(const Op& op) const {
  Route route = route_of(program_, rank_, op);
  if (route.members.empty() || is_collective(op.kind)) return {std::move(route), op.group().v};
  const bool upwards = route.members[0] < route.members[1];
  const int lane = lanes_ - kMessageLanes + (route.backward ? 2 : 0) + (upwards ? 0 : 1);
  return {std::move(route), lane};
}

int RemoteCommunicator::next_tag(const Lane& route) {
  const Rank other = route.members.size() < 2 ? rank_
                     : route.position == 0    ? route.members[1]
                                              : route.members[0];
  const std::int64_t sequence = sequence_[{route.lane, other}]++;
  // A tag is used again only after thousands of other transfers.
  const std::int64_t period = (process_.max_tag() - 1) / lanes_;
  return static_cast<int>(1 + route.lane * period + sequence % period);
}

Result<void> RemoteCommunicator::enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                                         std::span<const std::int64_t> bytes, DType dtype) {
  const Lane& route = routes_[id];
  if (route.members.empty()) return no_route(rank_, id, op);
  const auto own = local::party_of(program_, rank_, id, args, bytes, dtype,
                                   static_cast<int>(route.members.size()));
  if (!own) return own.error();
  const Transfer transfer{&route, next_tag(route), *own, &scratch_[op.stream]};
  return device_.enqueue_task(id, op.stream, [this, transfer](SimTime begin) {
    SimTime active = begin;
    if (meet(transfer, active)) static_cast<void>(move(transfer));
    return active;
  });
}

bool RemoteCommunicator::meet(const Transfer& transfer, SimTime& active) {
  const Lane& route = *transfer.route;
  const Arrival own{transfer.party, process_.now()};
  IndexVector<int, Arrival> arrivals(route.members.size());
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const Rank peer = route.members[i];
    if (peer == rank_) continue;
    out.push_back({peer, reinterpret_cast<const std::byte*>(&own), sizeof own});
    in.push_back({peer, reinterpret_cast<std::byte*>(&arrivals[i]), sizeof own});
  }
  arrivals[route.position] = own;
  if (!process_.exchange(transfer.tag, out, in, Patience::Sleep)) return false;
  std::vector<Party> parties;
  for (const Arrival& arrival : arrivals) {
    parties.push_back(arrival.party);
    active = std::max(active, arrival.time);
  }
  active = std::min(active, process_.now());  // the clocks of other machines are not known exactly
  if (const auto same = check_agreement(parties); !same) {
    process_.fail(same.error());
    return false;
  }
  return true;
}

bool RemoteCommunicator::move(const Transfer& transfer) {
  const auto members = static_cast<std::int64_t>(transfer.route->members.size());
  const std::int64_t part = transfer.party.bytes / members;
  switch (transfer.party.kind) {
    case OpKind::AllReduce:
      return all_reduce(transfer);
    case OpKind::ReduceScatter:
      return reduce_scatter(transfer);
    case OpKind::AllGather:
      return all_gather(transfer, part);
    case OpKind::AllToAll:
      return all_to_all(transfer, part);
    case OpKind::AllToAllRows:
      return all_to_all_rows(transfer);
    case OpKind::AllGatherRows:
      return all_gather_rows(transfer);
    case OpKind::ReduceScatterRows:
      return reduce_scatter_rows(transfer);
    case OpKind::Rotate:
      return rotate(transfer);
    default:
      return from_root(transfer);
  }
}

bool RemoteCommunicator::all_reduce(const Transfer& transfer) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  const std::int64_t size = size_of(party.dtype), elements = party.bytes / size;
  const auto slice = [&](std::size_t i) {
    return local::slice_of(elements, party.dtype, std::ssize(members),
                           static_cast<std::int64_t>(i));
  };
  const auto bytes = [&](const local::Slice& s) { return (s.end - s.begin) * size; };
  // Every member's values of this member's slice come here and are added …
  const local::Slice own = slice(to_size(transfer.route->position));
  transfer.scratch->resize(members.size() * to_size(bytes(own)));
  std::vector<const std::byte*> sources;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::byte* values = transfer.scratch->data() + i * to_size(bytes(own));
    sources.push_back(members[i] == rank_ ? party.source + own.begin * size : values);
    if (members[i] == rank_) continue;
    out.push_back({members[i], party.source + slice(i).begin * size, bytes(slice(i))});
    in.push_back({members[i], values, bytes(own)});
  }
  if (!process_.exchange(transfer.tag, out, in, Patience::Awake)) return false;
  local::add_in_order(party.dtype, sources, {0, own.end - own.begin},
                      {party.target + own.begin * size}, party.largest);
  // … and the sums go back to everyone.
  out.clear();
  in.clear();
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == rank_) continue;
    out.push_back({members[i], party.target + own.begin * size, bytes(own)});
    in.push_back({members[i], party.target + slice(i).begin * size, bytes(slice(i))});
  }
  return process_.exchange(transfer.tag, out, in, Patience::Awake);
}

bool RemoteCommunicator::reduce_scatter(const Transfer& transfer) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  const std::int64_t shard = party.bytes / std::ssize(members);
  transfer.scratch->resize(to_size(party.bytes));
  std::vector<const std::byte*> sources;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::byte* values = transfer.scratch->data() + i * to_size(shard);
    const std::byte* given = party.source + static_cast<std::int64_t>(i) * shard;
    sources.push_back(members[i] == rank_ ? given : values);
    if (members[i] == rank_) continue;
    out.push_back({members[i], given, shard});
    in.push_back({members[i], values, shard});
  }
  if (!process_.exchange(transfer.tag, out, in, Patience::Awake)) return false;
  local::add_in_order(party.dtype, sources, {0, shard / size_of(party.dtype)}, {party.target});
  return true;
}

bool RemoteCommunicator::all_gather(const Transfer& transfer, std::int64_t part) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::byte* to = party.target;
  for (const Rank member : members) {
    if (member == rank_) {
      local::copy(to, party.source, part);
    } else {
      out.push_back({member, party.source, part});
      in.push_back({member, to, part});
    }
    to += part;
  }
  return process_.exchange(transfer.tag, out, in, Patience::Awake);
}

bool RemoteCommunicator::all_to_all(const Transfer& transfer, std::int64_t part) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::int64_t at = 0;
  for (const Rank member : members) {
    if (member == rank_) {
      local::copy(party.target + at, party.source + at, part);
    } else {
      out.push_back({member, party.source + at, part});
      in.push_back({member, party.target + at, part});
    }
    at += part;
  }
  return process_.exchange(transfer.tag, out, in, Patience::Awake);
}

bool RemoteCommunicator::all_to_all_rows(const Transfer& transfer) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  const auto going = rows_of_members(party.goes, party.parts, members.size());
  const auto coming = rows_of_members(party.comes, party.parts, members.size());
  if (const auto fits = check_room(party, coming); !fits) {
    process_.fail(fits.error());
    return false;
  }
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  const std::byte* from = party.source;
  std::byte* to = party.target;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::int64_t sent = going[i] * party.bytes, received = coming[i] * party.bytes;
    if (members[i] == rank_) {
      local::copy(to, from, received);
    } else {
      if (sent > 0) out.push_back({members[i], from, sent});
      if (received > 0) in.push_back({members[i], to, received});
    }
    from += sent;
    to += received;
  }
  return process_.exchange(transfer.tag, out, in, Patience::Awake);
}

bool RemoteCommunicator::all_gather_rows(const Transfer& transfer) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  const auto rows = rows_in_places(party, party.comes);
  const std::int64_t own = rows[to_size(transfer.route->position)] * party.bytes;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::byte* to = party.target;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::int64_t coming = rows[i] * party.bytes;
    if (members[i] == rank_) {
      local::copy(to, party.source, own);
    } else {
      if (own > 0) out.push_back({members[i], party.source, own});
      if (coming > 0) in.push_back({members[i], to, coming});
    }
    to += party.places() * party.bytes;
  }
  return process_.exchange(transfer.tag, out, in, Patience::Awake);
}

bool RemoteCommunicator::reduce_scatter_rows(const Transfer& transfer) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  const auto rows = rows_in_places(party, party.comes);
  const std::int64_t own = rows[to_size(transfer.route->position)] * party.bytes;
  transfer.scratch->resize(members.size() * to_size(own));
  std::vector<const std::byte*> sources;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  const std::byte* given = party.source;
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::byte* const values = transfer.scratch->data() + i * to_size(own);
    sources.push_back(members[i] == rank_ ? given : values);
    if (members[i] != rank_) {
      if (rows[i] > 0) out.push_back({members[i], given, rows[i] * party.bytes});
      if (own > 0) in.push_back({members[i], values, own});
    }
    given += party.places() * party.bytes;
  }
  if (!process_.exchange(transfer.tag, out, in, Patience::Awake)) return false;
  local::add_in_order(party.dtype, sources, {0, own / size_of(party.dtype)}, {party.target});
  return true;
}

bool RemoteCommunicator::rotate(const Transfer& transfer) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  const int size = static_cast<int>(members.size()), own = transfer.route->position;
  if (size == 1) {
    local::copy(party.target, party.source, party.bytes);
    return true;
  }
  const Outgoing out{members[to_size((own + 1) % size)], party.source, party.bytes};
  const Incoming in{members[to_size((own + size - 1) % size)], party.target, party.bytes};
  return process_.exchange(transfer.tag, {&out, 1}, {&in, 1}, Patience::Awake);
}

bool RemoteCommunicator::from_root(const Transfer& transfer) {
  const std::vector<Rank>& members = transfer.route->members;
  const Party& party = transfer.party;
  const Rank root = members[to_size(party.root)];
  if (root != rank_) {
    const Incoming in{root, party.target, party.bytes};
    return process_.exchange(transfer.tag, {}, {&in, 1}, Patience::Awake);
  }
  std::vector<Outgoing> out;
  for (const Rank member : members) {
    if (member != root) out.push_back({member, party.source, party.bytes});
  }
  return process_.exchange(transfer.tag, out, {}, Patience::Awake);
}

}  // namespace lockstep::cpu
