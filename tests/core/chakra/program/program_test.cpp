#include "core/chakra/program/program.hpp"

#include "backends/sim/sim_backend.hpp"
#include "core/ir/verify/verify.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/scenario_texts.hpp"

namespace lockstep {
namespace {

struct Simulated {
  Scenario scenario;
  Program program;
  Trace trace;
};

Trace simulate(const Program& program, const ClusterSpec& cluster) {
  const auto ran = SimBackend().run(program, cluster, {});
  INFO((ran.ok() ? "" : to_string(ran.error())));
  REQUIRE(ran.ok());
  return ran->trace;
}

Simulated simulated(const std::string& text) {
  const LoadedScenario loaded = parse_scenario(text, "a.toml", {});
  INFO((loaded.ok() ? "" : to_string(loaded.errors.front())));
  REQUIRE(loaded.ok());
  Simulated s{loaded.points.front().scenario, {}, {}};
  auto program = lower(s.scenario);
  REQUIRE(program.ok());
  s.program = std::move(*program);
  s.trace = simulate(s.program, s.scenario.cluster);
  return s;
}

ChakraTrace exported(const Simulated& s) {
  ChakraWriter writer(s.program, s.trace, s.trace);
  ChakraTrace trace;
  for (Rank rank = 0; rank < s.program.mesh.world_size(); ++rank) {
    const auto nodes = writer.nodes(rank);
    INFO((nodes.ok() ? "" : to_string(nodes.error())));
    REQUIRE(nodes.ok());
    // By way of the bytes, so that nothing is known that a file does not say.
    const std::string file = "a." + std::to_string(rank) + ".et";
    const auto read = parse_chakra(chakra_bytes(*nodes), file);
    REQUIRE(read.ok());
    trace.ranks.push_back(*read);
    trace.files.push_back(file);
  }
  trace.groups = writer.groups();
  return trace;
}

SimTime makespan(const Trace& trace) {
  SimTime end{};
  for (const Span& span : trace.spans) end = std::max(end, span.end);
  return end;
}

const std::string kSharded = R"([model]
preset = "gpt2-124m"
layers = 4
[training]
local_batch_size = 4
seq_len = 512
[parallelism]
data_parallel_shard_degree = 2
tensor_parallel_degree = 2
enable_sequence_parallel = true
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 4
[cluster]
preset = "a100-80"
)";

TEST_CASE("a pipeline of given times takes as long from its Chakra trace", "[core][chakra]") {
  // (m + p - 1) (tF + tB) = 11 × 3 s. The messages have a latency there, which costs give as 0.
  const Simulated s = simulated(test::kSynthetic);
  CHECK(makespan(s.trace) == SimTime{33'000'000'000'000});
  auto program = program_of(exported(s), {});
  REQUIRE(program.ok());
  program->p2p_latency = {0};
  CHECK(makespan(simulate(*program, s.scenario.cluster)) == makespan(s.trace));
}

TEST_CASE("every rank's nodes say its flops, its bytes on the wire and its time",
          "[core][chakra]") {
  const Simulated s = simulated(kSharded);
  const ChakraTrace trace = exported(s);
  REQUIRE(trace.ranks.size() == 8);
  for (const Rank rank : trace.ranks.ids()) {
    const Role& role = s.program.role_of(rank);
    double flops = 0;
    std::int64_t sent = 0, collectives = 0;
    for (const Op& op : role.ops) {
      if (op.kind == OpKind::Call) flops += work(s.program.function(op.function())).flops.v;
      if (op.kind == OpKind::Send) sent += role.buffer(role.args_of(op)[0]).bytes.v;
      collectives += is_collective(op.kind);
    }
    std::int64_t node_flops = 0, node_sent = 0, nodes_of_groups = 0, micros = 0, picos = 0;
    for (const ChakraNode& node : trace.ranks[rank]) {
      node_flops += node.flops;
      if (node.type == ChakraType::Send) node_sent += node.payload;
      if (node.type == ChakraType::Collective) {
        ++nodes_of_groups;
        const auto& group = trace.groups.at(node.group);
        CHECK(std::count(group.begin(), group.end(), rank) == 1);
      }
      if (node.type == ChakraType::Compute) micros += node.duration_us, picos += node.duration_ps;
    }
    CHECK(std::abs(static_cast<double>(node_flops) - flops) <= 1e-9 * flops + 1000);
    CHECK(node_sent == sent);
    CHECK(nodes_of_groups == collectives);
    CHECK(std::abs(micros - picos / 1000000) <= 1);  // rounding does not add up
  }
}

TEST_CASE("no node says 0 where ASTRA-sim divides by it or sends it", "[core][chakra]") {
  // The lookup of an embedding has no flops; messages of given times have no bytes.
  for (const std::string& text : {kSharded, std::string(test::kSynthetic)}) {
    const ChakraTrace trace = exported(simulated(text));
    for (const Rank rank : trace.ranks.ids()) {
      for (const ChakraNode& node : trace.ranks[rank]) {
        INFO(node.name);
        if (node.type >= ChakraType::Send) CHECK(node.payload > 0);
        if (node.type != ChakraType::Compute || node.on_host) continue;
        CHECK(node.flops > 0);
        CHECK(node.bytes > 0);
      }
    }
  }
}

TEST_CASE("ASTRA-sim, which runs one transfer of a rank at a time, is never stuck",
          "[core][chakra]") {
  // The same rule, played: a rank takes the ready node of the lowest id; a collective occupies it
  // until all members have come; a receive occupies nothing.
  const ChakraTrace trace = exported(simulated(kSharded));
  struct Player {
    std::set<std::uint64_t> done, open;
    const ChakraNode* busy = nullptr;
  };
  std::vector<Player> players(trace.ranks.size());
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, int> sent, taken;
  std::size_t left = 0;
  for (const Rank rank : trace.ranks.ids()) {
    for (const ChakraNode& node : trace.ranks[rank]) players[rank].open.insert(node.id);
    left += trace.ranks[rank].size();
  }
  const auto finish = [&](Player& player, const ChakraNode& node) {
    player.open.erase(node.id);
    player.done.insert(node.id);
    --left;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (const Rank rank : trace.ranks.ids()) {
      Player& player = players[rank];
      for (const ChakraNode& node : trace.ranks[rank]) {
        const auto has = [&](std::uint64_t id) { return player.done.contains(id); };
        if (!player.open.contains(node.id) || &node == player.busy ||
            !std::all_of(node.after_data.begin(), node.after_data.end(), has) ||
            !std::all_of(node.after_control.begin(), node.after_control.end(), has)) {
          continue;
        }
        const std::tuple channel(node.source.value_or(-1), node.target.value_or(-1), node.tag);
        if (node.type == ChakraType::Recv) {
          if (taken[channel] == sent[channel]) continue;
          ++taken[channel];
        } else if (node.type != ChakraType::Compute && player.busy != nullptr) {
          continue;
        } else if (node.type == ChakraType::Send) {
          ++sent[channel];
        } else if (node.type == ChakraType::Collective) {
          player.busy = &node;
          moved = true;
          continue;
        }
        finish(player, node);
        moved = true;
      }
    }
    for (const Rank rank : trace.ranks.ids()) {
      const ChakraNode* node = players[rank].busy;
      if (node == nullptr) continue;
      const auto& group = trace.groups.at(node->group);
      if (!std::all_of(group.begin(), group.end(), [&](Rank member) {
            return players[member].busy != nullptr && players[member].busy->group == node->group;
          })) {
        continue;
      }
      for (const Rank member : group) {
        CHECK(players[member].busy->payload == node->payload);
        CHECK(players[member].busy->collective == node->collective);
      }
      for (const Rank member : group) {
        finish(players[member], *players[member].busy);
        players[member].busy = nullptr;
      }
      moved = true;
    }
  }
  CHECK(left == 0);
}

TEST_CASE("a program of a Chakra trace computes and sends what the trace says", "[core][chakra]") {
  const Simulated s = simulated(kSharded);
  const ChakraTrace trace = exported(s);
  const auto program = program_of(trace, {});
  INFO((program.ok() ? "" : to_string(program.error())));
  REQUIRE(program.ok());
  const Trace again = simulate(*program, s.scenario.cluster);
  // Every rank computes for as long: the delays are what the calls took, to the picosecond.
  for (const Rank rank : trace.ranks.ids()) {
    SimTime took{}, says{};
    for (const Span& span : s.trace.spans) {
      if (span.rank != s.trace.same_as[rank]) continue;
      const OpKind kind = s.program.role_of(rank).op(span.op).kind;
      if (kind == OpKind::Call || is_copy(kind)) took += span.end - span.active;
    }
    for (const Op& op : program->role_of(rank).ops) {
      if (op.kind != OpKind::Call) continue;
      says += to_sim_time({program->function(op.function()).kernels[0].scalars[0]});
    }
    CHECK(std::abs((took - says).count()) < 1000);
  }
  // One transfer at a time may take longer.
  const SimTime before = makespan(s.trace), after = makespan(again);
  CHECK(after >= before);
  CHECK(after.count() < 1.25 * static_cast<double>(before.count()));
}

ChakraNode node_of(std::uint64_t id, ChakraType type) {
  ChakraNode node;
  node.id = id;
  node.name = "n" + std::to_string(id);
  node.type = type;
  return node;
}

TEST_CASE("traces that nobody could run are refused with the rank's file and the node",
          "[core][chakra]") {
  const auto refusal = [](ChakraTrace trace) {
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
      trace.files.push_back("t." + std::to_string(r) + ".et");
    }
    const auto program = program_of(trace, {});
    REQUIRE(!program.ok());
    CHECK(program.error().kind == ErrorKind::InvalidSpec);
    return program.error().message;
  };
  ChakraTrace trace;
  trace.ranks.resize(2);
  ChakraNode call = node_of(1, ChakraType::Compute);
  call.after_data = {9};
  trace.ranks[0] = {call};
  CHECK(refusal(trace) == "t.0.et: node 1 'n1' depends on node 9, which is not in the file");
  call.after_data = {1};
  trace.ranks[0] = {call};
  CHECK_THAT(refusal(trace), ContainsSubstring("lead in a circle"));

  ChakraNode collective = node_of(1, ChakraType::Collective);
  trace.ranks[0] = {collective};
  CHECK_THAT(refusal(trace), ContainsSubstring("only 1 of its 2 ranks have as many"));
  trace.ranks[1] = {collective};
  trace.ranks[1][0].payload = 5;
  CHECK_THAT(refusal(trace), ContainsSubstring("should be the same collective"));
  trace.ranks[1][0] = collective;
  trace.ranks[1][0].group = "7";
  CHECK_THAT(refusal(trace), ContainsSubstring("is of group '7', which neither"));

  ChakraNode send = node_of(1, ChakraType::Send);
  send.target = 1;
  trace.ranks[0] = {send};
  trace.ranks[1] = {};
  CHECK_THAT(refusal(trace), ContainsSubstring("a message that its peer does not have"));
  send.target = 2;
  trace.ranks[0] = {send};
  CHECK_THAT(refusal(trace), ContainsSubstring("a message from rank 0 to 2"));

  // Two groups of the same two ranks, in another order on each.
  trace.groups = {{"1", {0, 1}}, {"2", {1, 0}}};
  ChakraNode first = node_of(1, ChakraType::Recv), then = node_of(2, ChakraType::Send);
  then.after_data = {1};
  for (const Rank rank : {0, 1}) {
    first.source = then.target = 1 - rank;
    first.target = then.source = rank;
    trace.ranks[rank] = {first, then};
  }
  CHECK_THAT(refusal(trace), ContainsSubstring("wait for each other in a circle"));
}

TEST_CASE("a node without a time takes what the roofline says", "[core][chakra]") {
  ChakraTrace trace;
  ChakraNode bound_by_flops = node_of(0, ChakraType::Compute);
  bound_by_flops.flops = 1000000;
  bound_by_flops.bytes = 10;
  ChakraNode bound_by_memory = node_of(1, ChakraType::Compute);
  bound_by_memory.flops = 10;
  bound_by_memory.bytes = 5000;
  trace.ranks.push_back({bound_by_flops, bound_by_memory});
  trace.files = {"t.0.et"};
  const auto program = program_of(trace, {1e6, 1e3});  // 1 s, then 5 s
  REQUIRE(program.ok());
  const LoadedScenario any = parse_scenario(test::kSynthetic, "a.toml", {});
  CHECK(makespan(simulate(*program, any.points.front().scenario.cluster)) ==
        SimTime{6'000'000'000'000});
}

}  // namespace
}  // namespace lockstep
