#include "backends/cuda/nccl_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

namespace lockstep::cuda {
namespace {

// Kernels of all communicators of a GPU must be able to run at once, or a rank could wait with what
// it has for what it cannot start: few thread blocks each. A message of a channel needs less.
constexpr int kGroupBlocks = 16;
constexpr int kChannelBlocks = 4;
constexpr std::chrono::milliseconds kPoll{1};

CommKey key_of(const Route& route, const Op& op) {
  if (is_collective(op.kind)) return {0, op.group().v, route.members.front()};
  return {route.backward ? 2 : 1, route.members[0], route.members[1]};
}

Result<void> refuse_shared_gpus(const std::vector<NcclRank>& ranks) {
  std::map<const Driver*, Rank> owner;
  for (const NcclRank& r : ranks) {
    const auto [at, first] = owner.emplace(r.gpu, r.rank);
    if (first) continue;
    return Error{ErrorKind::Unsupported,
                 "ranks " + std::to_string(at->second) + " and " + std::to_string(r.rank) +
                     " share a GPU, which NCCL refuses; the communicator 'local' runs any number "
                     "of ranks on one GPU",
                 std::nullopt};
  }
  return {};
}

}  // namespace

std::map<CommKey, std::vector<Rank>> communicators_of(const Program& program) {
  std::map<CommKey, std::vector<Rank>> all;
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    std::set<std::tuple<bool, int, Stream>> seen;  // a rank's ops repeat few transfers
    for (const Op& op : program.role_of(rank).ops) {
      if (!is_collective(op.kind) && !is_p2p(op.kind)) continue;
      if (!seen.emplace(op.kind == OpKind::Send, op.target, op.stream).second) continue;
      const Route route = route_of(program, rank, op);
      if (!route.members.empty()) all.emplace(key_of(route, op), route.members);
    }
  }
  return all;
}

Result<std::unique_ptr<NcclWorld>> NcclWorld::join(const Program& program,
                                                   const std::vector<NcclRank>& ranks, Nccl& nccl,
                                                   Process& process, double seconds) {
  if (auto apart = refuse_shared_gpus(ranks); !apart) return apart.error();
  std::set<Rank> own;
  for (const NcclRank& r : ranks) own.insert(r.rank);
  const auto keys = communicators_of(program);
  // The process of a communicator's first member makes its id; ids go to all, in the order of keys.
  struct Named {
    CommKey key;
    NcclId id;
  };
  std::vector<Named> made;
  for (const auto& [key, members] : keys) {
    if (own.count(members.front()) == 0) continue;
    const auto id = nccl.unique_id();
    if (!id) return id.error();
    made.push_back({key, *id});
  }
  const auto named = all_gather_values(process, made);
  if (!named) return named.error();
  std::map<CommKey, NcclId> ids;
  for (const Named& n : *named) ids[n.key] = n.id;
  std::unique_ptr<NcclWorld> world(new NcclWorld(nccl));
  for (const auto& [key, members] : keys) {
    auto joined = world->join_one(key, members, ids[key], ranks, process, seconds);
    if (joined) continue;
    world->abort();
    return joined.error();
  }
  return world;
}

Result<void> NcclWorld::join_one(const CommKey& key, const std::vector<Rank>& members,
                                 const NcclId& id, const std::vector<NcclRank>& ranks,
                                 Process& process, double seconds) {
  const int blocks = key.kind == 0 ? kGroupBlocks : kChannelBlocks;
  std::vector<CommHandle> mine;
  if (auto done = nccl_.group_start(); !done) return done;
  for (const NcclRank& r : ranks) {
    const auto at = std::find(members.begin(), members.end(), r.rank);
    if (at == members.end()) continue;
    const auto comm = nccl_.join(*r.gpu, id, static_cast<int>(members.size()),
                                 static_cast<int>(at - members.begin()), blocks);
    if (!comm) return comm.error();
    comms_[{r.rank, key}] = *comm;
    mine.push_back(*comm);
  }
  if (auto done = nccl_.group_end(); !done) return done;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (const CommHandle comm : mine) {
    for (;;) {
      const auto ready = nccl_.ready(comm);
      if (!ready) return ready.error();
      if (*ready) break;
      if (auto well = process.failure().result(); !well) return well;
      if (std::chrono::steady_clock::now() > deadline) {
        return Error{ErrorKind::Device,
                     "not all of " + std::to_string(members.size()) +
                         " ranks joined a communicator of rank " + std::to_string(members.front()) +
                         " in time",
                     std::nullopt};
      }
      std::this_thread::sleep_for(kPoll);
    }
  }
  return {};
}

NcclWorld::~NcclWorld() {
  if (aborted_) return;
  for (const auto& [at, comm] : comms_) nccl_.destroy(comm);
}

CommHandle NcclWorld::comm(Rank rank, const CommKey& key) const { return comms_.at({rank, key}); }

Result<void> NcclWorld::check(Rank rank) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return {};
  for (const auto& [at, comm] : comms_) {
    if (at.first != rank) continue;
    if (const auto ready = nccl_.ready(comm); !ready) return ready.error();
  }
  return {};
}

void NcclWorld::abort() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(aborted_, true)) return;
  for (const auto& [at, comm] : comms_) nccl_.abort(comm);
}

NcclCommunicator::NcclCommunicator(const Program& program, Rank rank, CudaDevice& device,
                                   NcclWorld& world)
    : rank_(rank), device_(device), world_(world) {
  for (const Op& op : program.role_of(rank).ops) {
    Route route = route_of(program, rank, op);
    CommHandle comm = nullptr;
    if (!route.members.empty()) comm = world.comm(rank, key_of(route, op));
    places_.push_back({std::move(route), comm});
  }
  device.set_watch([this]() -> Result<void> {
    if (auto well = device_.node().failure().result(); !well) {
      world_.abort();  // another rank, or process, has failed: kernels wait for it in vain
      return well;
    }
    return world_.check(rank_);
  });
}

Result<void> NcclCommunicator::enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                                       std::span<const std::int64_t> bytes, DType dtype) {
  const Place& place = places_[static_cast<std::size_t>(id.v)];
  if (place.comm == nullptr) return no_route(rank_, id, op);
  const auto party =
      make_party(rank_, id, op, args, bytes, dtype, static_cast<int>(place.route.members.size()));
  if (!party) return party.error();
  return device_.enqueue_work(id, op.stream, [this, &place, party = *party, stream = op.stream] {
    return issue(place, party, device_.handle(stream));
  });
}

Result<void> NcclCommunicator::issue(const Place& place, const Party& party, StreamHandle stream) {
  Nccl& nccl = world_.nccl();
  const auto size = std::ssize(place.route.members);
  const std::int64_t elements = party.bytes / size_of(party.dtype), part = elements / size;
  const std::int64_t part_bytes = party.bytes / size;
  switch (party.kind) {
    case OpKind::AllReduce:
      return nccl.all_reduce(place.comm, stream, party.target, elements, party.dtype);
    case OpKind::AllGather:
      return nccl.all_gather(place.comm, stream, party.source, party.target, part, party.dtype);
    case OpKind::ReduceScatter:
      return nccl.reduce_scatter(place.comm, stream, party.source, party.target, part, party.dtype);
    case OpKind::Broadcast:
      return nccl.broadcast(place.comm, stream, party.target, elements, party.dtype);
    case OpKind::Send:
      return nccl.send(place.comm, stream, party.source, elements, party.dtype, 1);
    case OpKind::Recv:
      return nccl.receive(place.comm, stream, party.target, elements, party.dtype, 0);
    default:
      break;
  }
  // All to all: one group, in which no send waits for another.
  if (auto done = nccl.group_start(); !done) return done;
  for (int peer = 0; peer < size; ++peer) {
    const std::int64_t at = peer * part_bytes;
    auto done = nccl.send(place.comm, stream, party.source + at, part, party.dtype, peer);
    if (!done) return done;
    done = nccl.receive(place.comm, stream, party.target + at, part, party.dtype, peer);
    if (!done) return done;
  }
  return nccl.group_end();
}

void NcclCommunicator::abort(const Error& reason) {
  device_.node().fail(reason);
  world_.abort();
}

}  // namespace lockstep::cuda
