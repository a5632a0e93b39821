// HandMade: programs and traces for the tests of the analysis, whose times are written down and not
// simulated.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "core/ir/program.hpp"
#include "core/spec/scenario.hpp"
#include "core/trace/trace.hpp"
#include "tests/core/trace/edit_spans.hpp"

namespace lockstep::test {

struct HandMade {
  Program program;
  Trace trace;
  Scenario scenario;
};

inline SimTime seconds(double s) { return to_sim_time(Seconds{s}); }

inline std::int32_t name_id(Trace& trace, const std::string& name) {
  for (std::size_t i = 0; i < trace.names.size(); ++i) {
    if (trace.names[i] == name) return static_cast<std::int32_t>(i);
  }
  trace.names.push_back(name);
  return static_cast<std::int32_t>(trace.names.size()) - 1;
}

/// A world of `roles` ranks along "pp" and no ops.
inline HandMade empty_world(int roles) {
  HandMade m;
  m.program.mesh.dims = {{"pp", roles}};
  m.program.groups = {{"all", {0}, {}}};
  m.trace.backend = "sim";
  m.trace.program_hash = "hash";
  for (int s = 0; s < kNumStreams; ++s) {
    m.trace.streams.emplace_back(to_string(static_cast<Stream>(s)));
  }
  for (Rank r = 0; r < roles; ++r) {
    Role role;
    role.ranks = {r};
    role.arena = Bytes{1000 + r};
    m.program.roles.push_back(role);
    m.program.role_of_rank.push_back({r});
    m.trace.roles.emplace_back();
    m.trace.role_of_rank.push_back(r);
    m.trace.same_as.push_back(r);
    m.trace.rank_labels.push_back("rank " + std::to_string(r));
    m.trace.peak_memory.push_back(1000 + r);
  }
  m.scenario.cluster.device.peaks = {{DType::F32, {1e12}}};
  m.scenario.cluster.devices_per_node = roles;
  return m;
}

/// Appends an op to the role of `rank` and its span, in seconds, to the trace.
inline OpId add(HandMade& m, Rank rank, Op op, const std::string& kind, double begin, double active,
                double end) {
  Role& role = m.program.roles[rank];
  const OpId id{static_cast<std::int32_t>(role.ops.size())};
  role.ops.push_back(op);
  TraceOp t;
  t.name = name_id(m.trace, kind + " op");
  t.kind = name_id(m.trace, kind);
  t.stream = static_cast<std::uint16_t>(op.stream);
  t.phase = static_cast<std::uint8_t>(op.phase);
  t.stage = op.stage;
  t.microbatch = op.microbatch;
  m.trace.roles[rank].ops.push_back(t);
  m.trace.spans.push_back({rank, id, 0, seconds(begin), seconds(active), seconds(end)});
  return id;
}

inline Op call(Phase phase, int stage, int microbatch) {
  Op op;
  op.phase = phase;
  op.stage = static_cast<std::int16_t>(stage);
  op.microbatch = microbatch;
  op.target = 0;
  return op;
}

/// Makes an op wait for the ops `before`, which are on other streams of its rank.
inline void comes_after(HandMade& m, Rank rank, OpId op, const std::vector<OpId>& before) {
  Role& role = m.program.roles[rank];
  Op& o = role.ops[op];
  o.after_begin = static_cast<std::uint32_t>(role.after.size());
  o.after_count = static_cast<std::uint8_t>(before.size());
  role.after.insert(role.after.end(), before.begin(), before.end());
}

/// Changes an op of the trace.
template <class Change>
void change(HandMade& m, Rank rank, OpId id, Change&& change) {
  TraceOps& ops = m.trace.roles[rank].ops;
  TraceOp op = ops[id];
  change(op);
  ops.set(id, op);
}

/// Adds a collective of all ranks, whose members are ready at `begins` (by rank).
inline std::vector<OpId> meet(HandMade& m, OpKind kind, Stream stream, int seq,
                              const std::vector<double>& begins, double end) {
  m.trace.instances = {std::vector<Rank>(begins.size(), 0)};
  std::vector<OpId> ids;
  const double active = *std::max_element(begins.begin(), begins.end());
  for (std::size_t r = 0; r < begins.size(); ++r) {
    Op op;
    op.kind = kind;
    op.stream = stream;
    op.target = 0;
    const auto rank = static_cast<Rank>(r);
    ids.push_back(add(m, rank, op, std::string(to_string(kind)), begins[r], active, end));
    change(m, rank, ids.back(), [&](TraceOp& t) {
      t.channel = 0;
      t.seq = seq;
    });
  }
  return ids;
}

/// The two ends of a message from one rank to another.
struct Ends {
  OpId send, recv;
};
inline Ends message(HandMade& m, Rank from, Rank to, int seq, double send_begin, double recv_begin,
                    double end) {
  const double active = std::max(send_begin, recv_begin);
  Op op;
  op.kind = OpKind::Send;
  op.stream = Stream::SendForward;
  op.target = to;
  Ends ends;
  ends.send = add(m, from, op, "send", send_begin, active, end);
  op.kind = OpKind::Recv;
  op.stream = Stream::RecvForward;
  op.target = from;
  ends.recv = add(m, to, op, "recv", recv_begin, active, end);
  const auto belongs = [&](TraceOp& t) {
    t.channel = 1'000'000 + from * 100 + to;
    t.seq = seq;
  };
  change(m, from, ends.send, belongs);
  change(m, to, ends.recv, belongs);
  return ends;
}

/// Sorts spans as in a trace.
inline void sort_spans(HandMade& m) {
  const auto key = [&](const Span& s) {
    return std::tuple(s.step, s.rank, m.trace.roles[s.rank].ops[s.op].stream, s.begin, s.op.v);
  };
  edit_spans(m.trace, [&](auto& spans) {
    std::sort(spans.begin(), spans.end(),
              [&](const Span& a, const Span& b) { return key(a) < key(b); });
  });
}

/// The uniform pipeline of the textbooks: p stages, m microbatches, forward f, backward b seconds,
/// no transfers. Stage s runs F of microbatch j as soon as stage s-1 has; 1F1B or GPipe order.
inline HandMade pipeline(int p, int m, double f, double b, bool one_f_one_b) {
  HandMade world = empty_world(p);
  struct Action {
    Phase phase;
    int microbatch;
  };
  std::vector<std::vector<Action>> order(static_cast<std::size_t>(p));
  for (int s = 0; s < p; ++s) {
    auto& list = order[s];
    const int warmup = one_f_one_b ? std::min(p - s, m) : m;
    for (int j = 0; j < warmup; ++j) list.push_back({Phase::F, j});
    for (int j = 0; j < m; ++j) {
      list.push_back({Phase::B, j});
      if (warmup + j < m) list.push_back({Phase::F, warmup + j});
    }
  }
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  using Times = std::vector<std::vector<double>>;  // [stage][microbatch]; negative: not yet
  Times ended_f(at(p), std::vector<double>(at(m), -1)), ended_b = ended_f;
  std::vector<double> free_at(at(p), 0);
  std::vector<std::size_t> next(at(p), 0);
  std::vector<std::vector<Span>> spans(at(p));
  for (bool progress = true; progress;) {
    progress = false;
    for (int s = 0; s < p; ++s) {
      if (next[s] == order[s].size()) continue;
      const auto [phase, j] = order[s][next[s]];
      const bool forward = phase == Phase::F;
      double ready = forward ? (s == 0 ? 0 : ended_f[s - 1][j])
                             : (s == p - 1 ? ended_f[s][j] : ended_b[s + 1][j]);
      if (ready < 0) continue;
      ready = std::max(ready, free_at[s]);
      const double end = ready + (forward ? f : b);
      (forward ? ended_f : ended_b)[s][j] = end;
      free_at[s] = end;
      add(world, s, call(phase, s, j), forward ? "forward" : "backward", ready, ready, end);
      ++next[s];
      progress = true;
    }
  }
  edit_spans(world.trace, [](auto& spans) {
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span& x, const Span& y) { return x.rank < y.rank; });
  });
  return world;
}

}  // namespace lockstep::test
