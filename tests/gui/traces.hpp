// Traces made by hand for tests of drawings, whose spans have known places in the picture.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/ir/program.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui::test {

inline constexpr SimTime kMs{1'000'000'000};

/// A trace of `world` ranks "rank N (ppN)". Its ops are on the compute stream: F of a microbatch
/// for even ids, B of it for odd ids. Tests add the spans.
inline Trace empty_trace(int world) {
  Trace trace;
  trace.backend = "sim";
  trace.names = {"block.F", "forward", "block.B", "backward", "all_gather dp", "all_gather"};
  for (int s = 0; s < kNumStreams; ++s) {
    trace.streams.emplace_back(to_string(static_cast<Stream>(s)));
  }
  TraceRole role;
  for (int i = 0; i < 64; ++i) {
    TraceOp op;
    const bool gather = i >= 48;
    op.name = gather ? 4 : i % 2 == 0 ? 0 : 2;
    op.kind = op.name + 1;
    op.stream = static_cast<std::uint8_t>(gather ? Stream::Gather : Stream::Compute);
    op.phase = static_cast<std::uint8_t>(gather ? Phase::None : i % 2 == 0 ? Phase::F : Phase::B);
    if (gather) {
      op.layer = i - 48;
    } else {
      op.microbatch = i / 2;
    }
    role.ops.push_back(op);
  }
  trace.roles = {role};
  for (Rank rank = 0; rank < world; ++rank) {
    trace.role_of_rank.push_back(0);
    trace.same_as.push_back(rank);
    trace.rank_labels.push_back("rank " + std::to_string(rank) + " (pp" + std::to_string(rank) +
                                ")");
    trace.peak_memory.push_back(0);
  }
  return trace;
}

inline Span span(Rank rank, int op, SimTime begin, SimTime end) {
  return {rank, OpId{op}, 0, begin, begin, end};
}

/// A trace with `count` spans on each of `lanes` ranks, whose lengths and gaps are random: most
/// short, some long.
inline Trace random_trace(int lanes, int count, unsigned seed) {
  Trace trace = empty_trace(lanes);
  std::mt19937 random(seed);
  for (Rank rank = 0; rank < lanes; ++rank) {
    SimTime time{static_cast<std::int64_t>(random() % 1000)};
    for (int i = 0; i < count; ++i) {
      const std::int64_t scale = random() % 16 == 0 ? 100'000 : 300;
      time += SimTime{static_cast<std::int64_t>(random() % 3 == 0 ? random() % 2000 : 0)};
      const SimTime end = time + SimTime{static_cast<std::int64_t>(random() % scale)};
      trace.spans.push_back(span(rank, static_cast<int>(random() % 48), time, end));
      time = end;
    }
  }
  return trace;
}

}  // namespace lockstep::gui::test
