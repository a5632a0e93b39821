// Tests what the views show of the three lessons: shards, gathered parameters, transfers, captions.
#include <algorithm>

#include "core/analysis/in_flight.hpp"
#include "core/analysis/shards.hpp"
#include "tests/catch.hpp"
#include "tests/integration/simulated.hpp"

using namespace lockstep;
using test::scenario_file;
using test::simulate_file;
using test::Simulated;

namespace {

SimTime fraction(const StepGraph& step, double of_step) {
  return step.begin() +
         SimTime{static_cast<std::int64_t>(of_step * static_cast<double>(step.makespan().count()))};
}

std::int64_t elements(const Program& program, Rank rank) {
  std::int64_t total = 0;
  for (const Unit& unit : program.role_of(rank).units) total += unit.elements;
  return total;
}

}  // namespace

TEST_CASE("DDP keeps all of everything; ZeRO shards the optimizer, gradients, parameters in turn",
          "[integration][analysis]") {
  const std::string file = scenario_file("tiny/gpt2-fsdp3.toml");
  struct Row {
    std::string zero;
    bool parameters, gradients;  // sharded
  };
  for (const Row& row : {Row{"1", false, false}, Row{"2", false, true}, Row{"3", true, true}}) {
    INFO("ZeRO-" << row.zero);
    const Simulated s = simulate_file(file, {"parallelism.zero_stage=" + row.zero}).front();
    const std::int64_t all = elements(s.program, 0);
    std::int64_t parameters = 0, gradients = 0, optimizer = 0;
    for (const Rank rank : {0, 1, 2}) {
      const RankShards shards = shards_of(s.program, rank);
      parameters += shards.parameters;
      gradients += shards.gradients;
      optimizer += shards.optimizer;
    }
    CHECK(parameters == (row.parameters ? 1 : 3) * all);
    CHECK(gradients == (row.gradients ? 1 : 3) * all);
    CHECK(optimizer == all);
  }
  const Simulated ddp = simulate_file(scenario_file("tiny/gpt2-ddp2.toml")).front();
  for (const Rank rank : {0, 1}) {
    const RankShards shards = shards_of(ddp.program, rank);
    const std::int64_t all = elements(ddp.program, rank);
    CHECK(shards.parameters == all);
    CHECK(shards.gradients == all);
    CHECK(shards.optimizer == all);
  }
}

TEST_CASE("pieces of a unit follow each other along the shard dimension and cover it",
          "[integration][analysis]") {
  const Simulated s = simulate_file(scenario_file("tiny/gpt2-fsdp3.toml")).front();
  std::vector<RankShards> shards;
  for (const Rank rank : {0, 1, 2}) shards.push_back(shards_of(s.program, rank));
  CHECK(shards[2].coordinates.size() == s.program.mesh.dims.size());
  for (std::size_t u = 0; u < shards[0].units.size(); ++u) {
    std::int64_t end = 0;
    for (const RankShards& rank : shards) {
      CHECK(rank.units[u].parameters.begin == end);
      end = rank.units[u].parameters.end;
    }
    CHECK(end == shards[0].units[u].elements);
  }
}

TEST_CASE("FSDP has some layers gathered, never all, and the arena holds what is alive",
          "[integration][analysis]") {
  const Simulated s = simulate_file(scenario_file("tiny/gpt2-fsdp3.toml")).front();
  const StepGraph step(s.trace, 0, &s.program);
  const std::vector<BufferLife> lives = buffer_lives(step, 1);
  const Role& role = s.program.role_of(1);
  std::size_t most = 0;
  for (int i = 0; i < 400; ++i) {
    const SimTime t = fraction(step, i / 400.0);
    std::size_t blocks = 0;
    for (const GatheredUnit& g : gathered_at(step, 1, lives, t)) {
      CHECK(g.from <= t);
      CHECK(t < g.until);
      CHECK(g.from <= g.ready);
      blocks += role.units[g.unit].name.rfind("blocks.", 0) == 0 ? 1 : 0;
    }
    most = std::max(most, blocks);
    const ArenaState state = arena_at(lives, role.arena.v, t);
    REQUIRE(state.used <= state.arena);
    // The memory curve of the trace has the same bytes.
    CHECK(total_bytes(*memory_curve(s.trace, 1).at(t)) == state.used);
  }
  CHECK(most == 2);  // the one in use and the one ahead, at the turn to backward, too
  CHECK(std::count_if(role.units.begin(), role.units.end(),
                      [](const Unit& u) { return u.name.rfind("blocks.", 0) == 0; }) == 4);
}

namespace {

std::string caption_at(const Simulated& s, double of_step) {
  const StepGraph step(s.trace, 0, &s.program);
  return caption(step, find_bubbles(step), fraction(step, of_step));
}

/// The first moment at which the caption of some step contains `text`; empty: never.
std::string caption_with(const Simulated& s, const std::string& text) {
  const StepGraph step(s.trace, 0, &s.program);
  const Bubbles bubbles = find_bubbles(step);
  for (int i = 0; i < 2000; ++i) {
    const std::string said = caption(step, bubbles, fraction(step, i / 2000.0));
    if (said.find(text) != std::string::npos) return said;
  }
  return "";
}

}  // namespace

TEST_CASE("the pipeline's caption names who waits for whom", "[integration][analysis]") {
  const Simulated s = simulate_file(scenario_file("schedules/1f1b-p4-m8.toml")).front();
  CHECK(caption_at(s, 0.05) ==
        "Rank 0 runs forward of microbatch 1 and rank 1 runs forward of microbatch 0. Rank 3 waits "
        "for forward of microbatch 0 on stage 2 (rank 2): warm-up bubble (2 ranks stand still).");
  CHECK(caption_at(s, 0.99) ==
        "Rank 0 runs backward of microbatch 7. Rank 3 is done with the step and others are not: "
        "cool-down bubble (3 ranks stand still).");
  CHECK(caption_with(s, "sends") ==
        "Rank 0 runs forward of microbatch 1. Rank 0 sends activations of microbatch 0 to rank 1. "
        "Rank 3 waits for forward of microbatch 0 on stage 2 (rank 2): warm-up bubble (2 ranks "
        "stand still).");
  CHECK(caption_with(s, "sends gradients") != "");
  CHECK(caption_at(s, 1) == "");
}

TEST_CASE("the captions of DDP and FSDP say what moves and whether it is hidden",
          "[integration][analysis]") {
  const Simulated ddp = simulate_file(scenario_file("tiny/gpt2-ddp2.toml")).front();
  CHECK(caption_with(ddp, "gradients") ==
        "All ranks sum gradients, and nothing is computed meanwhile.");
  CHECK(caption_at(ddp, 0.95) == "All ranks update the parameters of layer 3.");
  const Simulated fsdp = simulate_file(scenario_file("tiny/gpt2-fsdp3.toml")).front();
  CHECK(caption_at(fsdp, 0) ==
        "All ranks gather parameters of layer 0, and nothing is computed meanwhile.");
  CHECK(caption_with(fsdp, "parameters of layer 4") ==
        "All ranks run forward of layer 3, microbatch 0. All ranks gather parameters of layer 4 "
        "behind the computation.");
  CHECK(caption_with(fsdp, "keep a piece") ==
        "All ranks run backward of layer 4, microbatch 0. All ranks gather parameters of layer 3 "
        "behind the computation; all ranks sum gradients of layer 5 and keep a piece each behind "
        "the computation.");
}

TEST_CASE("every transfer of a step is in flight halfway through it, with all its ranks",
          "[integration][analysis]") {
  // In the second scenario, one rank stands for all replicas of its stage.
  for (const char* name :
       {"tiny/gpt2-fsdp2-1f1b2.toml", "clusters/llama2-13b-1f1b-fsdp-32xa100.toml"}) {
    INFO(name);
    const Simulated s = simulate_file(scenario_file(name)).front();
    const StepGraph step(s.trace, 0, &s.program);
    const std::size_t world = s.trace.same_as.size();
    const std::size_t stages = static_cast<std::size_t>(s.program.mesh.size_of("pp"));
    const int stride = world > 4 ? 17 : 1;
    int messages = 0, collectives = 0, transfers = 0;
    for (SpanIndex i = 0; i < step.size(); ++i) {
      if (step.span_class(i) != SpanClass::Transfer || step[i].end == step[i].active) continue;
      if (step.is_receive(i) || transfers++ % stride != 0) continue;
      const SimTime half = step[i].active + (step[i].end - step[i].active) / 2;
      const bool message = step.other_end(i) >= 0;
      std::vector<Rank> ranks;
      for (const Flight& f : in_flight(step, half)) {
        CHECK((f.begin <= half && half < f.end));
        CHECK((f.done >= 0 && f.done < 1));
        const TraceOp &a = step.op(f.span), &b = step.op(i);
        if (a.channel != b.channel || a.seq != b.seq) continue;
        if (step.meeting_of(f.span) == step.meeting_of(i)) CHECK(f.bytes == b.bytes);
        ranks.insert(ranks.end(), f.ranks.begin(), f.ranks.end());
      }
      std::sort(ranks.begin(), ranks.end());
      CHECK(std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end());
      CHECK(std::binary_search(ranks.begin(), ranks.end(), step[i].rank));
      // Replicas are in step: both ends of the message of each, the group of each.
      CHECK((ranks.size() == 2 * world / stages || ranks.size() == world / stages ||
             ranks.size() == world));
      message ? ++messages : ++collectives;
    }
    CHECK(messages > 0);
    CHECK(collectives > 0);
  }
}
