#include "core/analysis/memory_map.hpp"

#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"
#include "tests/integration/simulated.hpp"

namespace lockstep {
namespace {

using test::add;
using test::call;
using test::empty_world;
using test::HandMade;
using test::seconds;

Buffer buffer(std::int64_t offset, std::int64_t bytes, int first, int last) {
  Buffer b;
  b.offset = offset;
  b.bytes = {bytes};
  b.set_lifetime({first}, {last});
  return b;
}

/// A rank with ops at 0..1, 1..2 and 2..3 s, and an arena of 100 bytes.
HandMade three_ops() {
  HandMade m = empty_world(1);
  Role& role = m.program.roles[0];
  const std::vector<BufferId> args[] = {{{0}, {3}}, {{1}, {2}}, {{4}}};  // 3 is a view of 1
  for (int i = 0; i < 3; ++i) {
    Op op = call(Phase::F, 0, i);
    op.args_begin = static_cast<std::uint32_t>(role.args.size());
    op.args_count = static_cast<std::uint16_t>(args[i].size());
    role.args.insert(role.args.end(), args[i].begin(), args[i].end());
    add(m, 0, op, "forward", i, i, i + 1);
  }
  role.arena = {100};
  Buffer view = buffer(0, 20, 0, 2);
  view.set_view({1});
  role.buffers = {buffer(0, 40, -1, -1), buffer(40, 20, 0, 1), buffer(80, 10, 1, 1), view,
                  buffer(40, 50, 2, 2)};
  return m;
}

TEST_CASE("a buffer lives from the begin of its first op to the end of its last",
          "[core][analysis]") {
  const HandMade m = three_ops();
  const StepGraph step(m.trace, 0, &m.program);
  const std::vector<BufferLife> lives = buffer_lives(step, 0);
  REQUIRE(lives.size() == 4);  // the view lies in its parent
  CHECK(lives[0].buffer.v == 0);
  CHECK(lives[0].persistent());
  CHECK(lives[1].buffer.v == 1);
  CHECK(lives[1].until == seconds(2));
  CHECK(lives[3].from == seconds(2));
}

TEST_CASE("bytes that a transfer used last are taken over when it ends, not when the next begins",
          "[core][analysis]") {
  HandMade m = three_ops();
  // Reserved until op 2, but nothing names it after op 1.
  Buffer& longer = m.program.roles[0].buffers[2];
  longer.set_lifetime(longer.first(), {2});
  const std::vector<BufferLife> lives = buffer_lives(StepGraph(m.trace, 0, &m.program), 0);
  CHECK(lives[2].buffer.v == 2);
  CHECK(lives[2].until == seconds(2));
}

TEST_CASE("no two buffers of a rank lie on each other at any time", "[core][analysis]") {
  const std::string file =
      GENERATE(std::string("tiny/gpt2-fsdp2-1f1b2.toml"),
               std::string("tensor-parallel/llama2-70b-tp8-pp4-dp2-64xh100.toml"));
  for (const test::Simulated& s : test::simulate_file(test::scenario_file(file))) {
    const StepGraph step(s.trace, 0, &s.program);
    for (const Rank rank : {0, s.program.mesh.world_size() - 1}) {
      const std::vector<BufferLife> lives = buffer_lives(step, rank);
      REQUIRE(lives.size() > 20);
      std::int64_t overlapping = 0;
      for (std::size_t i = 0; i < lives.size(); ++i) {
        for (std::size_t j = i + 1; j < lives.size() && lives[j].from < lives[i].until; ++j) {
          const bool apart = lives[i].offset + lives[i].bytes <= lives[j].offset ||
                             lives[j].offset + lives[j].bytes <= lives[i].offset;
          overlapping += apart ? 0 : 1;
        }
      }
      CHECK(overlapping == 0);
    }
  }
}

TEST_CASE("the arena at a moment: what lies where, holes, and what is freed next",
          "[core][analysis]") {
  const HandMade m = three_ops();
  const StepGraph step(m.trace, 0, &m.program);
  const std::vector<BufferLife> lives = buffer_lives(step, 0);
  const ArenaState state = arena_at(lives, 100, seconds(1.5));
  REQUIRE(state.live.size() == 3);
  CHECK(state.live[1].buffer.v == 1);
  CHECK(state.live[2].buffer.v == 2);
  CHECK(state.used == 70);
  CHECK(state.free() == 30);  // 60..80 and 90..100
  CHECK(state.largest_hole == 20);
  CHECK(state.fragmentation() == Approx(1.0 / 3));
  // Both go at 2 s: the lower one is named first; the persistent one never.
  CHECK(state.next_freed() == std::vector<std::size_t>{1, 2});

  const ArenaState later = arena_at(lives, 100, seconds(2));  // freed and allocated at one time
  REQUIRE(later.live.size() == 2);
  CHECK(later.live[1].buffer.v == 4);
  CHECK(later.largest_hole == 10);
  CHECK(later.fragmentation() == 0);
}

TEST_CASE("a rank's curve has its peak, and folded ranks have their original's",
          "[core][analysis]") {
  HandMade m = empty_world(2);
  m.trace.same_as = {0, 0};
  m.trace.memory_kinds = {"param", "grad"};
  m.trace.memory = {{0, seconds(0), {10, 0}},
                    {0, seconds(1), {10, 30}},
                    {0, seconds(2), {20, 20}},
                    {0, seconds(3), {10, 5}}};
  for (const Rank rank : {0, 1}) {
    const MemoryCurve curve = memory_curve(m.trace, rank);
    CHECK(curve.samples.size() == 4);
    CHECK(curve.peak == 40);
    CHECK(curve.peak_time == seconds(1));
    CHECK(curve.arena == 1000 + rank);
    CHECK(curve.at(seconds(2.5))->bytes_by_kind[1] == 20);
    CHECK(curve.at(seconds(-1)) == nullptr);
  }
  CHECK(memory_curve(empty_world(1).trace, 0).samples.empty());
}

}  // namespace
}  // namespace lockstep
