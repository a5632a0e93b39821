#include "backends/cuda/nccl_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

namespace lockstep::cuda {
namespace {

// The kernels of all communicators of a GPU must be able to run at once: otherwise a rank could
// wait in one for a peer that waits for another which this rank cannot start. So each has few
// thread blocks; the messages of a channel need fewer than a group.
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

std::map<CommKey, CommMembers> communicators_of(const Program& program) {
  std::map<CommKey, CommMembers> all;
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    std::set<std::tuple<OpKind, int, Stream>> seen;  // the ops of a rank repeat a few transfers
    for (const Op& op : program.role_of(rank).ops) {
      if (!is_collective(op.kind) && !is_p2p(op.kind)) continue;
      if (!seen.emplace(OpKind{op.kind}, op.target, Stream{op.stream}).second) continue;
      const Route route = route_of(program, rank, op);
      if (route.members.empty()) continue;
      CommMembers& members = all[key_of(route, op)];
      members.ranks = route.members;
      members.exchange |= is_exchange(op.kind) || op.kind == OpKind::Rotate ||
                          op.kind == OpKind::AllGatherRows;  // what goes as messages
    }
  }
  return all;
}

/// What joining needs, the same for all communicators of a process.
struct NcclWorld::Joining {
  using Clock = std::chrono::steady_clock;
  const std::vector<NcclRank>& ranks;  // of this process
  Process& process;
  Clock::time_point deadline;

  /// Waits until `done` returns true. Errors: that of `done`, that of the run, and `late` after the
  /// deadline.
  template <class Done>
  Result<void> until(const Done& done, const std::string& late) const {
    for (;;) {
      const Result<bool> now = done();
      if (!now) return now.error();
      if (*now) return {};
      if (auto well = process.failure().result(); !well) return well;
      if (Clock::now() > deadline) return Error{ErrorKind::Device, late, std::nullopt};
      std::this_thread::sleep_for(kPoll);
    }
  }
};

Result<std::unique_ptr<NcclWorld>> NcclWorld::join(const Program& program,
                                                   const std::vector<NcclRank>& ranks, Nccl& nccl,
                                                   Process& process, double seconds) {
  if (auto apart = refuse_shared_gpus(ranks); !apart) return apart.error();
  std::set<Rank> own;
  for (const NcclRank& r : ranks) own.insert(r.rank);
  const auto keys = communicators_of(program);
  // The process of a communicator's first member makes its id. All processes get the ids, in the
  // order of keys.
  struct Named {
    CommKey key;
    NcclId id;
  };
  std::vector<Named> made;
  for (const auto& [key, members] : keys) {
    if (own.count(members.ranks.front()) == 0) continue;
    const auto id = nccl.unique_id();
    if (!id) return id.error();
    made.push_back({key, *id});
  }
  const auto named = all_gather_values(process, made);
  if (!named) return named.error();
  std::map<CommKey, NcclId> ids;
  for (const Named& n : *named) ids[n.key] = n.id;
  std::unique_ptr<NcclWorld> world(new NcclWorld(nccl));
  const std::chrono::duration<double> most(seconds);
  const Joining joining{
      ranks, process,
      Joining::Clock::now() + std::chrono::duration_cast<Joining::Clock::duration>(most)};
  for (const auto& [key, members] : keys) {
    auto joined = world->join_one(joining, key, members, ids[key]);
    if (joined) joined = world->connect(joining, key, members);
    if (joined) continue;
    world->abort();
    return joined.error();
  }
  return world;
}

Result<void> NcclWorld::join_one(const Joining& joining, const CommKey& key,
                                 const CommMembers& members, const NcclId& id) {
  const int blocks = key.kind == 0 ? kGroupBlocks : kChannelBlocks;
  std::vector<CommHandle> mine;
  auto joined = nccl_.group_start();
  for (const NcclRank& r : joining.ranks) {
    const auto at = std::find(members.ranks.begin(), members.ranks.end(), r.rank);
    if (!joined || at == members.ranks.end()) continue;
    const auto comm = nccl_.join(*r.gpu, id, static_cast<int>(members.ranks.size()),
                                 static_cast<int>(at - members.ranks.begin()), blocks);
    if (!comm) {
      joined = comm.error();
      break;
    }
    comms_[{r.rank, key}] = *comm;
    mine.push_back(*comm);
  }
  auto ended = nccl_.group_end();
  if (!joined) return joined;
  if (!ended) return ended;
  const std::string late = "not all of " + std::to_string(members.ranks.size()) +
                           " ranks joined a communicator of rank " +
                           std::to_string(members.ranks.front()) + " in time";
  for (const CommHandle comm : mine) {
    auto ready = joining.until([&] { return nccl_.ready(comm); }, late);
    if (!ready) return ready;
  }
  return {};
}

/// Sends a byte from each member to each to which it will send. NCCL connects two members at their
/// first message, and does not take that call before both have made it. In a step, where ranks make
/// calls in different orders, they could therefore wait for each other for ever.
Result<void> NcclWorld::connect(const Joining& joining, const CommKey& key,
                                const CommMembers& members) {
  if (key.kind == 0 && !members.exchange) return {};
  struct End {
    Driver& gpu;
    StreamHandle stream = nullptr;
    std::byte* memory = nullptr;  // the bytes to send to each, then those received from each
    ~End() {
      if (memory != nullptr) gpu.release(Memory::Device, memory);
      if (stream != nullptr) gpu.release(stream);
    }
  };
  const auto size = static_cast<int>(members.ranks.size());
  std::deque<End> ends;
  std::vector<CommHandle> mine;
  auto called = nccl_.group_start();
  for (int own = 0; own < size && called; ++own) {
    const Rank rank = members.ranks[to_size(own)];
    const auto at = std::find_if(joining.ranks.begin(), joining.ranks.end(),
                                 [&](const NcclRank& r) { return r.rank == rank; });
    if (at == joining.ranks.end()) continue;
    End& end = ends.emplace_back(End{*at->gpu});
    const auto stream = end.gpu.create_stream(Priority::Normal);
    if (stream) end.stream = *stream;
    const auto memory = end.gpu.allocate(Memory::Device, 2 * size);
    if (memory) end.memory = *memory;
    if (!stream || !memory) {
      called = stream ? memory.error() : stream.error();
      break;
    }
    const CommHandle comm = mine.emplace_back(comms_.at({rank, key}));
    for (int peer = 0; peer < size && called; ++peer) {
      if (peer == own) continue;
      if (key.kind == 0 || own == 0) {
        called = nccl_.send(comm, end.stream, end.memory + peer, 1, DType::U8, peer);
      }
      if (called && (key.kind == 0 || own == 1)) {
        called = nccl_.receive(comm, end.stream, end.memory + size + peer, 1, DType::U8, peer);
      }
    }
  }
  const auto ended = nccl_.group_end();
  if (called && !ended) called = ended;
  const std::string late = "ranks " + std::to_string(members.ranks.front()) + " to " +
                           std::to_string(members.ranks.back()) + " were not connected in time";
  for (std::size_t i = 0; i < mine.size() && called; ++i) {
    called = joining.until([&] { return nccl_.ready(mine[i]); }, late);
  }
  if (called) {
    const auto arrived = [&]() -> Result<bool> {
      bool all = true;
      for (const End& end : ends) {
        auto idle = end.gpu.idle(end.stream);
        if (!idle) return idle;
        all = *idle && all;
      }
      return all;
    };
    called = joining.until(arrived, late);
  }
  // A message may still write to the memory; it is aborted before the memory is freed.
  if (!called) abort();
  return called;
}

NcclWorld::~NcclWorld() {
  if (aborted_) return;
  for (const auto& [at, comm] : comms_) nccl_.destroy(comm);
}

CommHandle NcclWorld::comm(Rank rank, const CommKey& key) const { return comms_.at({rank, key}); }

Result<void> NcclWorld::call(CommHandle comm, const RunContext& run,
                             const std::function<Result<void>(Nccl&)>& calls) {
  const Error ended{ErrorKind::Device, "NCCL's transfers were ended", std::nullopt};
  for (bool called = false;; called = true) {
    {
      const std::shared_lock lock(mutex_);
      if (aborted_) return ended;
      if (auto done = called ? Result<void>() : calls(nccl_); !done) return done;
      const auto taken = nccl_.ready(comm);
      if (!taken) return taken.error();
      if (*taken) return {};
    }
    if (auto well = run.failure().result(); !well) return well;
    std::this_thread::yield();
  }
}

Result<void> NcclWorld::check(Rank rank) {
  const std::shared_lock lock(mutex_);
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
                                   NcclWorld& world, double timeout)
    : program_(program), rank_(rank), device_(device), world_(world) {
  // Where the host waits for counts of rows, it holds a stream's calls back, and goes on with those
  // of other streams. Ranks wait at different places, so that the order of the list is kept for
  // each communicator.
  std::map<CommHandle, OpId> last;
  for (const OpId id : program.role_of(rank).ops.ids()) {
    const Op& op = program.role_of(rank).op(id);
    Route route = route_of(program, rank, op);
    if (route.members.empty()) {
      places_.push_back({});
      continue;
    }
    const CommHandle comm = world.comm(rank, key_of(route, op));
    places_.push_back({std::move(route), comm, std::exchange(last[comm], id)});
  }
  const auto watch = [this]() -> Result<void> {
    if (auto well = device_.node().failure().result(); !well) {
      world_.abort();  // another rank or process has failed, and kernels would wait for it for ever
      return well;
    }
    return world_.check(rank_);
  };
  device.set_watch(watch, timeout);
}

Result<void> NcclCommunicator::enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                                       std::span<const std::int64_t> bytes, DType dtype) {
  const Place& place = places_[id];
  if (place.comm == nullptr) return no_route(rank_, id, op);
  const auto party = make_party(program_, rank_, id, args, bytes, dtype,
                                static_cast<int>(place.route.members.size()));
  if (!party) return party.error();
  if (is_counted(op.kind)) return enqueue_rows(id, op, place, *party);
  const auto issue_op = [this, &place, party = *party, stream = op.stream] {
    return world_.call(place.comm, device_.node(), [&](Nccl& nccl) {
      return issue(nccl, place, party, device_.handle(stream));
    });
  };
  return device_.enqueue_work(id, op.stream, issue_op, place.behind);
}

/// The host must know the counts before it can ask for messages of these sizes: they are copied to
/// it behind what the stream has been given, of which the exchange of the counts was a part.
Result<void> NcclCommunicator::enqueue_rows(OpId id, const Op& op, const Place& place,
                                            const Party& party) {
  const std::int64_t bytes = party.parts * party.members * size_of(DType::I32);
  std::byte* const counts = device_.counts_of(id);
  const Stream stream = op.stream;
  const auto prepare = [this, party, bytes, counts, stream]() -> Result<void> {
    Driver& driver = device_.driver();
    auto copied = driver.copy(device_.handle(stream), counts,
                              reinterpret_cast<const std::byte*>(party.goes), bytes);
    if (!copied) return copied;
    return driver.copy(device_.handle(stream), counts + bytes,
                       reinterpret_cast<const std::byte*>(party.comes), bytes);
  };
  const auto issue_op = [this, &place, party, bytes, counts, stream] {
    const auto of = [&](std::int64_t offset) {
      return rows_of_members(reinterpret_cast<const std::int32_t*>(counts + offset), party.parts,
                             to_size(party.members));
    };
    if (party.kind != OpKind::AllToAllRows) {
      const auto rows =
          rows_in_places(party, reinterpret_cast<const std::int32_t*>(counts + bytes));
      return world_.call(place.comm, device_.node(), [&](Nccl& nccl) {
        return issue_places(nccl, place, party, rows, device_.handle(stream));
      });
    }
    const auto going = of(0), coming = of(bytes);
    if (auto fits = check_room(party, coming); !fits) return fits;
    return world_.call(place.comm, device_.node(), [&](Nccl& nccl) {
      return issue_rows(nccl, place, party, going, coming, device_.handle(stream));
    });
  };
  return device_.enqueue_after(id, stream, prepare, issue_op, place.behind);
}

/// One group of messages, in which no send waits for another.
Result<void> NcclCommunicator::issue_rows(Nccl& nccl, const Place& place, const Party& party,
                                          const std::vector<std::int64_t>& going,
                                          const std::vector<std::int64_t>& coming,
                                          StreamHandle stream) {
  const std::int64_t width = party.bytes / size_of(party.dtype);  // of a row, in elements
  auto done = nccl.group_start();
  const std::byte* from = party.source;
  std::byte* to = party.target;
  for (std::size_t peer = 0; peer < going.size() && done; ++peer) {
    const int position = static_cast<int>(peer);
    if (going[peer] > 0) {
      done = nccl.send(place.comm, stream, from, going[peer] * width, party.dtype, position);
    }
    if (done && coming[peer] > 0) {
      done = nccl.receive(place.comm, stream, to, coming[peer] * width, party.dtype, position);
    }
    from += going[peer] * party.bytes;
    to += coming[peer] * party.bytes;
  }
  const auto ended = nccl.group_end();
  return done ? ended : done;
}

/// One group: messages of a member's rows to all others, or a sum of each member's rows for it.
Result<void> NcclCommunicator::issue_places(Nccl& nccl, const Place& place, const Party& party,
                                            const std::vector<std::int64_t>& rows,
                                            StreamHandle stream) {
  const std::int64_t width = party.bytes / size_of(party.dtype);  // of a row, in elements
  const int own = place.route.position;
  const bool gathers = party.kind == OpKind::AllGatherRows;
  const std::int64_t sent = rows[to_size(own)] * width;
  auto done = nccl.group_start();
  for (std::size_t i = 0; i < rows.size() && done; ++i) {
    const int member = static_cast<int>(i);
    const std::int64_t at = member * party.places() * party.bytes, elements = rows[i] * width;
    if (!gathers) {
      if (elements == 0) continue;
      done = nccl.reduce(place.comm, stream, party.source + at, party.target, elements, party.dtype,
                         member);
      continue;
    }
    if (sent > 0) done = nccl.send(place.comm, stream, party.source, sent, party.dtype, member);
    if (done && elements > 0) {
      done = nccl.receive(place.comm, stream, party.target + at, elements, party.dtype, member);
    }
  }
  const auto ended = nccl.group_end();
  return done ? ended : done;
}

Result<void> NcclCommunicator::issue(Nccl& nccl, const Place& place, const Party& party,
                                     StreamHandle stream) const {
  const auto size = std::ssize(place.route.members);
  const std::int64_t elements = party.bytes / size_of(party.dtype), part = elements / size;
  const std::int64_t part_bytes = party.bytes / size;
  switch (party.kind) {
    case OpKind::AllReduce:
      return nccl.all_reduce(place.comm, stream, party.target, elements, party.dtype,
                             party.largest);
    case OpKind::AllGather:
      return nccl.all_gather(place.comm, stream, party.source, party.target, part, party.dtype);
    case OpKind::ReduceScatter:
      return nccl.reduce_scatter(place.comm, stream, party.source, party.target, part, party.dtype);
    case OpKind::Broadcast:
      return nccl.broadcast(place.comm, stream, party.target, elements, party.dtype, party.root);
    case OpKind::Send:
      return nccl.send(place.comm, stream, party.source, elements, party.dtype, 1);
    case OpKind::Recv:
      return nccl.receive(place.comm, stream, party.target, elements, party.dtype, 0);
    default:
      break;
  }
  // An all-to-all, or a rotation, is one group of messages, in which no send waits for another.
  auto done = nccl.group_start();
  if (party.kind == OpKind::Rotate) {
    const int own = place.route.position, all = static_cast<int>(size);
    done = nccl.send(place.comm, stream, party.source, elements, party.dtype, (own + 1) % all);
    if (done) {
      done = nccl.receive(place.comm, stream, party.target, elements, party.dtype,
                          (own + all - 1) % all);
    }
    const auto ended = nccl.group_end();
    return done ? ended : done;
  }
  for (int peer = 0; peer < size && done; ++peer) {
    const std::int64_t at = peer * part_bytes;
    done = nccl.send(place.comm, stream, party.source + at, part, party.dtype, peer);
    if (!done) break;
    done = nccl.receive(place.comm, stream, party.target + at, part, party.dtype, peer);
  }
  const auto ended = nccl.group_end();
  return done ? ended : done;
}

void NcclCommunicator::abort(const Error& reason) {
  device_.node().fail(reason);
  world_.abort();
}

}  // namespace lockstep::cuda
