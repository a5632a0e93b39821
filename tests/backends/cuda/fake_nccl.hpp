// FakeNccl: NCCL between FakeGpus of one process, with the rules that its manual gives for
// non-blocking communicators. A call returns before it is taken, and must be taken before the next
// one. The calls of one communicator run in the order in which they were made, whatever their
// streams. Members that have not yet sent to each other are connected when both call. The n-th call
// of each member must be the same. If a rule is broken, ready() returns an error. Sums are in rank
// order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/nccl.hpp"
#include "tests/backends/cuda/fake_gpu.hpp"

namespace lockstep::cuda::test {

class FakeNccl final : public Nccl {
 public:
  struct Call {
    std::string name;
    std::int64_t elements = 0;
    DType dtype = DType::F32;
    int peer = -1;  // of a message
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    int root = 0;  // of a broadcast or reduction
    bool matches(const Call& other) const {
      return name == other.name && elements == other.elements && dtype == other.dtype &&
             root == other.root;
    }
  };
  struct Comm {
    NcclId id{};
    int size = 0, position = 0, blocks = 0;
    bool in_group = false, aborted = false, destroyed = false;
    int polls = 0;
    std::vector<std::string> calls;  // "send 6 peer 1 grouped"
    FakeGpu* gpu = nullptr;

    std::vector<std::pair<StreamHandle, Call>> waiting;  // called and not yet taken
    bool taking = false;
    int polls_to_take = 0;
    long issued = 0, ended = 0;             // on streams
    long captured = 0, ended_in_graph = 0;  // in the graph
    long collectives = 0;                   // begun
  };
  std::vector<std::unique_ptr<Comm>> comms;
  int ids = 0, groups = 0;
  int polls_until_ready = 2;
  bool broken = false;             // ready() fails
  bool moves = true;               // data; false: calls are recorded, and taken
  std::atomic<bool> takes = true;  // calls
  std::atomic<int> polls_in_vain = 0;

  Result<NcclId> unique_id() override {
    NcclId id{};
    id[0] = static_cast<std::byte>(++ids);
    return id;
  }
  Result<CommHandle> join(Driver& gpu, const NcclId& id, int size, int position,
                          int blocks) override {
    const std::lock_guard lock(mutex_);
    comms.push_back(std::make_unique<Comm>());
    Comm& comm = *comms.back();
    comm.id = id;
    comm.size = size;
    comm.position = position;
    comm.blocks = blocks;
    comm.in_group = depth_[std::this_thread::get_id()] > 0;
    comm.gpu = &static_cast<FakeGpu&>(gpu);
    cliques_[id].members.resize(static_cast<std::size_t>(size));
    cliques_[id].members[position] = &comm;
    return reinterpret_cast<CommHandle>(&comm);
  }
  Result<bool> ready(CommHandle handle) override {
    Comm& comm = of(handle);
    std::vector<std::pair<StreamHandle, Call>> taken;
    {
      const std::lock_guard lock(mutex_);
      if (broken) return Error{ErrorKind::Device, "a peer is gone", std::nullopt};
      if (!fault_.empty()) return Error{ErrorKind::Device, fault_, std::nullopt};
      if (comm.aborted || comm.destroyed) return fault("asked after its end");
      if (++comm.polls <= polls_until_ready) return false;
      if (!comm.taking) return true;
      if (--comm.polls_to_take > 0 || !takes || !connected(comm)) return ++polls_in_vain, false;
      comm.taking = false;
      taken = std::exchange(comm.waiting, {});
    }
    if (moves) give(comm, std::move(taken));
    return true;
  }
  void abort(CommHandle comm) override {
    const std::lock_guard lock(mutex_);
    of(comm).aborted = true;
  }
  void destroy(CommHandle comm) override {
    const std::lock_guard lock(mutex_);
    of(comm).destroyed = true;
  }
  Result<void> group_start() override {
    const std::lock_guard lock(mutex_);
    ++groups;
    ++depth_[std::this_thread::get_id()];
    return {};
  }
  Result<void> group_end() override {
    const std::lock_guard lock(mutex_);
    if (--depth_[std::this_thread::get_id()] < 0) fault("a group ends that was not begun");
    return {};
  }
  Result<void> all_reduce(CommHandle c, StreamHandle stream, std::byte* buffer, std::int64_t n,
                          DType t, bool largest) override {
    return call(c, stream,
                {largest ? "all_reduce largest" : "all_reduce", n, t, -1, buffer, buffer});
  }
  Result<void> all_gather(CommHandle c, StreamHandle stream, const std::byte* from, std::byte* to,
                          std::int64_t n, DType t) override {
    return call(c, stream, {"all_gather", n, t, -1, from, to});
  }
  Result<void> reduce_scatter(CommHandle c, StreamHandle stream, const std::byte* from,
                              std::byte* to, std::int64_t n, DType t) override {
    return call(c, stream, {"reduce_scatter", n, t, -1, from, to});
  }
  Result<void> reduce(CommHandle c, StreamHandle stream, const std::byte* from, std::byte* to,
                      std::int64_t n, DType t, int root) override {
    return call(c, stream, {"reduce", n, t, -1, from, to, root});
  }
  Result<void> broadcast(CommHandle c, StreamHandle stream, std::byte* buffer, std::int64_t n,
                         DType t, int root) override {
    return call(c, stream, {"broadcast", n, t, -1, buffer, buffer, root});
  }
  Result<void> send(CommHandle c, StreamHandle stream, const std::byte* from, std::int64_t n,
                    DType t, int to) override {
    return call(c, stream, {"send", n, t, to, from, nullptr});
  }
  Result<void> receive(CommHandle c, StreamHandle stream, std::byte* to, std::int64_t n, DType t,
                       int from) override {
    return call(c, stream, {"receive", n, t, from, nullptr, to});
  }

 private:
  /// One collective or message: who has begun it, and whether the data have been moved.
  struct Meeting {
    std::map<int, Call> begun;
    bool moved = false;
  };
  struct Clique {
    std::vector<Comm*> members;
    std::map<long, Meeting> collectives;
    std::map<std::pair<int, int>, std::map<long, Meeting>> messages;  // from, to
    std::map<std::pair<int, int>, std::pair<long, long>> counts;      // sent, received
    std::set<std::pair<int, int>> senders, receivers;                 // who have called
  };

  static Comm& of(CommHandle comm) { return *reinterpret_cast<Comm*>(comm); }
  Error fault(const std::string& what) {
    if (fault_.empty()) fault_ = "NCCL's rules: " + what;
    return {ErrorKind::Device, fault_, std::nullopt};
  }
  static std::pair<int, int> ends(const Comm& comm, const Call& call) {
    return call.to == nullptr ? std::pair(comm.position, call.peer)
                              : std::pair(call.peer, comm.position);
  }

  Result<void> call(CommHandle handle, StreamHandle stream, const Call& call) {
    const std::lock_guard lock(mutex_);
    Comm& comm = of(handle);
    const bool grouped = depth_[std::this_thread::get_id()] > 0;
    comm.calls.push_back(call.name + " " + std::to_string(call.elements) +
                         (call.peer < 0 ? "" : " peer " + std::to_string(call.peer)) +
                         (grouped ? " grouped" : ""));
    if (comm.aborted || comm.destroyed) return fault(call.name + " after the communicator's end");
    if (comm.taking && !(grouped && !comm.waiting.empty())) {
      return fault(call.name + " before the last call was taken");
    }
    if (call.peer >= 0) {
      Clique& clique = cliques_[comm.id];
      (call.to == nullptr ? clique.senders : clique.receivers).insert(ends(comm, call));
    }
    comm.taking = true;
    comm.polls_to_take = 2;
    comm.waiting.emplace_back(stream, call);
    return {};
  }
  bool connected(const Comm& comm) {
    Clique& clique = cliques_[comm.id];
    return std::all_of(comm.waiting.begin(), comm.waiting.end(), [&](const auto& waiting) {
      if (waiting.second.peer < 0) return true;
      const auto pair = ends(comm, waiting.second);
      return clique.senders.count(pair) > 0 && clique.receivers.count(pair) > 0;
    });
  }

  /// What a call, or a group of calls, does on its stream.
  struct Launch {
    std::vector<Call> calls;
    std::vector<std::pair<Meeting*, Call>> meetings;  // once begun
    bool begun = false;
  };
  void give(Comm& comm, std::vector<std::pair<StreamHandle, Call>> taken) {
    if (taken.empty()) return;
    const StreamHandle stream = taken.front().first;
    const bool captured = comm.gpu->captures(stream);
    const auto launch = std::make_shared<Launch>();
    for (auto& [on, call] : taken) launch->calls.push_back(std::move(call));
    const long number = captured ? comm.captured++ : comm.issued++;
    static_cast<void>(comm.gpu->enqueue(stream, "nccl", [this, &comm, launch, number, captured] {
      const std::lock_guard lock(mutex_);
      if (comm.aborted) return true;
      long& ended = captured ? comm.ended_in_graph : comm.ended;
      if (ended != number || !go_on(comm, *launch)) return false;
      launch->begun = false;
      launch->meetings.clear();
      ++ended;
      if (captured && ended == comm.captured) ended = 0;  // for its next launch
      return true;
    }));
  }
  bool go_on(Comm& comm, Launch& launch) {
    Clique& clique = cliques_[comm.id];
    if (!std::exchange(launch.begun, true)) {
      for (const Call& call : launch.calls) {
        Meeting* meeting = nullptr;
        if (call.peer < 0) {
          meeting = &clique.collectives[comm.collectives++];
        } else {
          auto& [sent, received] = clique.counts[ends(comm, call)];
          meeting = &clique.messages[ends(comm, call)][call.to == nullptr ? sent++ : received++];
        }
        meeting->begun[call.peer < 0 ? comm.position : call.to == nullptr ? 0 : 1] = call;
        launch.meetings.emplace_back(meeting, call);
      }
    }
    for (auto& [meeting, call] : launch.meetings) {
      const auto all = static_cast<std::size_t>(call.peer < 0 ? comm.size : 2);
      if (meeting->begun.size() < all) return false;
      if (!std::exchange(meeting->moved, true)) move(*meeting);
    }
    return true;
  }
  void move(Meeting& meeting) {
    const Call& first = meeting.begun.at(0);
    const std::int64_t bytes = first.elements * size_of(first.dtype);
    const auto size = static_cast<std::size_t>(bytes);
    if (first.peer >= 0) {
      const Call& receive = meeting.begun.at(1);
      if (receive.elements != first.elements || receive.dtype != first.dtype) {
        fault("a message of other length or type than is received");
        return;
      }
      std::memmove(receive.to, first.from, size);
      return;
    }
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    for (const auto& [position, call] : meeting.begun) {
      if (!call.matches(first)) {
        fault(call.name + " meets " + first.name);
        return;
      }
      sources.push_back(call.from);
      targets.push_back(call.to);
    }
    if (first.name.starts_with("all_reduce")) {
      add_in_rank_order(first.dtype, sources, targets, first.elements, first.name != "all_reduce");
    } else if (first.name == "reduce") {
      add_in_rank_order(first.dtype, sources, {targets[to_size(first.root)]}, first.elements,
                        false);
    } else if (first.name == "broadcast") {
      for (std::byte* to : targets) std::memmove(to, sources[to_size(first.root)], size);
    } else if (first.name == "all_gather") {
      for (std::byte* to : targets) {
        for (std::size_t p = 0; p < sources.size(); ++p) {
          std::memmove(to + p * size, sources[p], size);
        }
      }
    } else {
      for (std::size_t p = 0; p < targets.size(); ++p) {
        std::vector<const std::byte*> parts;
        for (const std::byte* from : sources) parts.push_back(from + p * size);
        add_in_rank_order(first.dtype, parts, {targets[p]}, first.elements);
      }
    }
  }

  std::mutex mutex_;
  std::map<std::thread::id, int> depth_;
  std::map<NcclId, Clique> cliques_;
  std::string fault_;
};

}  // namespace lockstep::cuda::test
