// Programs: small programs with given times, for tests and benchmarks of the simulator.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::sim_test {

inline Function delay(std::string name, double seconds) {
  Kernel kernel;
  kernel.kind = KernelKind::Delay;
  kernel.scalars[0] = seconds;
  return {std::move(name), {}, {kernel}};
}

/// Appends ops to a role; every add returns the new op's id.
class RoleBuilder {
 public:
  explicit RoleBuilder(Role& role) : role_(role) {}

  OpId call(FunctionId function, std::initializer_list<OpId> after = {}, Phase phase = Phase::F,
            Stream stream = Stream::Compute) {
    return add(Op{.kind = OpKind::Call, .stream = stream, .phase = phase, .target = function.v},
               after, {});
  }
  OpId collective(OpKind kind, GroupId group, Stream stream, BufferId buffer,
                  std::initializer_list<OpId> after = {}) {
    return add(Op{.kind = kind, .stream = stream, .target = group.v}, after, {buffer, buffer});
  }
  OpId send(int peer, bool backward, BufferId buffer, std::initializer_list<OpId> after = {}) {
    return add(Op{.kind = OpKind::Send,
                  .stream = backward ? Stream::SendBackward : Stream::SendForward,
                  .target = peer},
               after, {buffer});
  }
  OpId recv(int peer, bool backward, BufferId buffer, std::initializer_list<OpId> after = {}) {
    return add(Op{.kind = OpKind::Recv,
                  .stream = backward ? Stream::RecvBackward : Stream::RecvForward,
                  .target = peer},
               after, {buffer});
  }
  OpId copy(BufferId buffer) {
    return add(Op{.kind = OpKind::HostToDevice,
                  .stream = Stream::Copy,
                  .target = static_cast<std::int32_t>(HostData::Tokens)},
               {}, {buffer});
  }
  BufferId buffer(std::int64_t bytes, BufferKind kind = BufferKind::Boundary, OpId first = {},
                  OpId last = {}) {
    Buffer b;
    b.bytes = {bytes};
    b.kind = kind;
    b.set_lifetime(first, last);
    role_.buffers.push_back(b);
    return {static_cast<std::int32_t>(role_.buffers.size()) - 1};
  }
  Op& last() { return role_.ops.back(); }

 private:
  OpId add(Op op, std::initializer_list<OpId> after, std::initializer_list<BufferId> args) {
    op.after_begin = static_cast<std::uint32_t>(role_.after.size());
    for (const OpId dependency : after) {
      if (dependency.valid()) role_.after.push_back(dependency);
    }
    op.after_count = static_cast<std::uint8_t>(role_.after.size() - op.after_begin);
    op.args_begin = static_cast<std::uint32_t>(role_.args.size());
    op.args_count = static_cast<std::uint16_t>(args.size());
    role_.args.insert(role_.args.end(), args);
    role_.ops.push_back(op);
    return {static_cast<std::int32_t>(role_.ops.size()) - 1};
  }

  Role& role_;
};

/// A program with mesh pp × dp_replicate, one role for every pipeline coordinate, and groups "pp"
/// and "dp".
inline Program make_mesh_program(int pp, int dp) {
  Program program;
  program.mesh.dims = {{"pp", pp}, {"dp_replicate", dp}};
  program.groups = {{"pp", {0}, {}}, {"dp", {1}, {}}};
  program.roles.resize(static_cast<std::size_t>(pp));
  for (Rank rank = 0; rank < pp * dp; ++rank) {
    program.roles[rank / dp].ranks.push_back(rank);
    program.role_of_rank.push_back({rank / dp});
  }
  return program;
}

enum class Order { GPipe, OneFOneB };

struct PipelineCase {
  Order order = Order::OneFOneB;
  int p = 2, m = 4, dp = 1;
  double forward = 1, backward = 2;  // seconds
  double p2p = 0;                    // seconds; negative for messages over the cluster's links
  std::int64_t message_bytes = 0;
};

/// The actions of stage `s` in order. GPipe: all F, then all B. 1F1B: a warm-up of p - 1 - s F,
/// then one F and one B in turn, then a cool-down.
inline std::vector<std::pair<Phase, int>> actions(const PipelineCase& c, int s) {
  const int warmup = c.order == Order::GPipe ? c.m : std::min(c.m, c.p - 1 - s);
  std::vector<std::pair<Phase, int>> list;
  int f = 0;
  int b = 0;
  while (f < warmup) list.push_back({Phase::F, f++});
  while (b < c.m) {
    if (f < c.m) list.push_back({Phase::F, f++});
    list.push_back({Phase::B, b++});
  }
  return list;
}

inline Program make_pipeline(const PipelineCase& c) {
  Program program = make_mesh_program(c.p, c.dp);
  program.p2p_latency = {c.p2p};
  program.functions = {delay("stage.F", c.forward), delay("stage.B", c.backward)};
  for (int s = 0; s < c.p; ++s) {
    RoleBuilder role(program.roles[s]);
    const BufferId message = role.buffer(c.message_bytes);
    for (const auto& [phase, mb] : actions(c, s)) {
      const bool backward = phase == Phase::B;
      const int from = backward ? s + 1 : s - 1;
      const int to = backward ? s - 1 : s + 1;
      const auto tag = [&, mb = mb, phase = phase] {
        role.last().microbatch = mb;
        role.last().stage = static_cast<std::int16_t>(s);
        role.last().phase = phase;
      };
      OpId input;
      if (from >= 0 && from < c.p) {
        input = role.recv(from, backward, message);
        tag();
      }
      const OpId call = role.call({backward ? 1 : 0}, {input}, phase);
      tag();
      if (to >= 0 && to < c.p) {
        role.send(to, backward, message, {call});
        tag();
      }
    }
  }
  return program;
}

}  // namespace lockstep::sim_test
