// Counts in lowered programs what expert parallelism sends, holds and sums.
#include <algorithm>
#include <map>
#include <set>

#include "core/ir/verify/verify.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::lowered;
using test::tiny_scenario;

namespace {

Scenario divided(Architecture architecture, int ep, int shards, int zero_stage = 3,
                 const test::Layout& layout = {}) {
  test::Layout with = layout;
  with.shard = shards;
  Scenario s = tiny_scenario(architecture, with, 2);
  s.model.experts = 12;
  s.strategy.expert_parallel_degree = ep;
  s.strategy.zero_stage = zero_stage;
  return s;
}

struct Traffic {
  int count = 0;
  std::int64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};

/// All-to-alls of a role, by phase.
std::map<Phase, Traffic> exchanges(const Program& program) {
  std::map<Phase, Traffic> found;
  const Role& role = program.roles[0];
  for (const Op& op : role.ops) {
    if (!is_exchange(op.kind)) continue;
    CHECK(program.group(op.group()).name == "ep");
    Traffic& t = found[op.phase];
    ++t.count;
    t.bytes += payload_bytes(program, role, op).v;
  }
  return found;
}

/// The bytes of parameters and gradients that are gathered, scattered or summed, by kind and group.
std::map<std::string, std::int64_t> data_traffic(const Program& program) {
  std::map<std::string, std::int64_t> found;
  const Role& role = program.roles[0];
  for (const Op& op : role.ops) {
    if (!is_collective(op.kind) || is_exchange(op.kind)) continue;
    if (role.buffer(role.args_of(op)[0]).kind == BufferKind::Metric) continue;
    found[std::string(to_string(op.kind)) + " " + program.group(op.group()).name] +=
        payload_bytes(program, role, op).v;
  }
  return found;
}

std::int64_t experts_bytes(const Scenario& s) {  // of the whole model
  const ModelSpec& m = s.model;
  const std::int64_t one = m.architecture == Architecture::Gpt2
                               ? 2 * m.hidden * m.ffn_hidden + m.ffn_hidden + m.hidden
                               : 3 * m.hidden * m.ffn_hidden;
  return 4 * m.layers * m.experts * one;
}

}  // namespace

TEST_CASE("a block exchanges its places twice forward and twice backward", "[core][lower]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int ep : {2, 3, 4, 12}) {
      Scenario s = divided(architecture, ep, ep);
      const std::int64_t tokens = std::int64_t{2} * s.training.seq_len;
      const std::int64_t block =
          2 * s.model.experts * s.model.expert_capacity(tokens, ep) * s.model.hidden * 4;
      const Traffic all{8, 4 * block};
      CHECK(exchanges(lowered(s)) == std::map<Phase, Traffic>{{Phase::F, all}, {Phase::B, all}});
      s.model.expert_period = 2;
      const Traffic half{4, 2 * block};
      CHECK(exchanges(lowered(s)) == std::map<Phase, Traffic>{{Phase::F, half}, {Phase::B, half}});
      s.activation_checkpoint.mode = ActivationCheckpoint::Full;  // what came back is needed again
      CHECK(exchanges(lowered(s)) ==
            std::map<Phase, Traffic>{{Phase::F, half}, {Phase::B, half}, {Phase::R, half}});
    }
  }
  CHECK(exchanges(lowered(divided(Architecture::Llama, 1, 4))).empty());
}

TEST_CASE("a block without a capacity exchanges its rows and, once, how many they are",
          "[core][lower]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int ep : {2, 3, 4, 12}) {
      Scenario s = divided(architecture, ep, ep);
      s.model.capacity_factor = 0;
      const std::int64_t rows = 2 * s.training.seq_len * s.model.experts_per_token;
      const std::int64_t counts = 4 * s.model.experts;
      const std::int64_t both = 2 * rows * s.model.hidden * 4;
      const Traffic forward{12, 4 * (both + counts)}, backward{8, 4 * both};
      CHECK(exchanges(lowered(s)) ==
            std::map<Phase, Traffic>{{Phase::F, forward}, {Phase::B, backward}});
      s.activation_checkpoint.mode = ActivationCheckpoint::Full;
      const auto again = exchanges(lowered(s));
      CHECK(again.at(Phase::R) == forward);
      s.model.expert_rank_capacity_factor = 1.0;  // room is not what is moved
      CHECK(exchanges(lowered(s)) == again);
    }
  }
}

TEST_CASE("the load of a router's experts is summed over all ranks, and its bias kept whole",
          "[core][lower]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int stage : {0, 1, 2, 3}) {
      Scenario s = divided(architecture, 2, 4, stage);
      auto expected = data_traffic(lowered(s));
      s.model.router_bias_update_rate = 0.001;
      const Program program = lowered(s);
      expected["all_reduce dp"] += 4 * s.model.layers * s.model.experts;
      CHECK(data_traffic(program) == expected);
      int biases = 0;
      for (const Unit& unit : program.roles[0].units) {
        if (!unit.name.ends_with(".balance")) continue;
        ++biases;
        CHECK(unit.elements == s.model.experts);
        CHECK_FALSE(unit.shard_group.valid());
        CHECK(program.roles[0].buffer(unit.states[StateKind::Moment1]).bytes.v ==
              4 * s.model.experts);  // the load
        CHECK_FALSE(unit.has(StateKind::Moment2));
      }
      CHECK(biases == s.model.layers);
    }
  }
}

TEST_CASE("a load that some ranks do not add is found by the proof", "[core][lower]") {
  Scenario s = divided(Architecture::Llama, 2, 4);
  s.model.router_bias_update_rate = 0.001;
  Program program = lowered(s);
  REQUIRE(verify(program).empty());
  // The first sum over all ranks is over a part of them from now on.
  Role& role = program.roles[0];
  const auto sum = std::find_if(role.ops.begin(), role.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::AllReduce &&
           role.buffer(role.args_of(op)[0]).kind == BufferKind::Grad;
  });
  REQUIRE(sum != role.ops.end());
  const auto part = std::find_if(program.groups.begin(), program.groups.end(),
                                 [](const Group& group) { return group.name == "expert_dp"; });
  REQUIRE(part != program.groups.end());
  sum->target = static_cast<std::int32_t>(part - program.groups.begin());
  const auto faults = verify(program);
  REQUIRE_FALSE(faults.empty());
  CHECK_THAT(faults.front().message, ContainsSubstring("blocks.3.balance"));
}

TEST_CASE("experts are shared by the ranks that hold the same ones, the rest by all",
          "[core][lower]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const auto traffic = [&](int ep, int shards, int stage, int replicate = 1) {
      Scenario s = divided(architecture, ep, shards, stage, {replicate});
      s.training.max_norm = 0;
      return data_traffic(lowered(s));
    };
    const std::int64_t experts = experts_bytes(divided(architecture, 2, 4));
    // FSDP: gathered for forward and backward (but for the last block), scattered once.
    auto found = traffic(2, 4, 3);
    CHECK(found["reduce_scatter expert_dp"] == experts / 2);
    CHECK(found["all_gather expert_dp"] == experts / 2 * 7 / 4);
    CHECK(found["reduce_scatter dp"] > 0);
    CHECK(found.size() == 4);
    // ZeRO-1: scattered, gathered after the update. DDP: summed.
    found = traffic(2, 4, 1);
    CHECK(found["reduce_scatter expert_dp"] == experts / 2);
    CHECK(found["all_gather expert_dp"] == experts / 2);
    found = traffic(2, 4, 0);
    CHECK(found["all_reduce expert_dp"] == experts / 2);
    CHECK(found.size() == 2);
    // No other rank holds these experts, so nothing of them is sent.
    found = traffic(4, 4, 3);
    CHECK(found.size() == 2);
    CHECK(found.count("reduce_scatter dp") + found.count("all_gather dp") == 2);
    found = traffic(4, 4, 0);
    CHECK(found.size() == 1);
    CHECK(found.count("all_reduce dp") == 1);
    // With replicas of the shards their sum goes over these.
    found = traffic(2, 4, 3, 3);
    CHECK(found["all_reduce dp_replicate"] > 0);
    CHECK(found["reduce_scatter expert_dp_shard"] == experts / 2);
    found = traffic(4, 4, 3, 3);
    CHECK(found["all_reduce expert_dp"] == experts / 4);
  }
}

TEST_CASE("each rank holds its part of the experts, its shard of that, and their states",
          "[core][lower]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int ep : {1, 2, 3, 6}) {
      const Scenario s = divided(architecture, ep, 6);
      const Program program = lowered(s);
      CHECK(verify(program).empty());
      std::int64_t held = 0, sharded = 0, moments = 0;
      const Role& role = program.roles[0];
      for (const Unit& unit : role.units) {
        if (!unit.name.ends_with(".experts")) continue;
        held += 4 * unit.elements;
        sharded += role.buffer(unit.param()).bytes.v;
        moments += role.buffer(unit.states[StateKind::Moment1]).bytes.v;
        CHECK(split_parts(program, unit) == ep);
      }
      CHECK(held == experts_bytes(s) / ep);
      CHECK(sharded == experts_bytes(s) / 6);
      CHECK(moments == experts_bytes(s) / 6);
    }
  }
}

TEST_CASE("each element of an expert's gradient counts once in the norm", "[core][lower]") {
  // Experts are summed over "ep", whose ranks hold different ones; the rest is the same there and
  // is not.
  for (const int stage : {0, 1, 3}) {
    const Program program = lowered(divided(Architecture::Llama, 2, 6, stage));
    const Role& role = program.roles[0];
    std::multiset<std::string> sums;
    std::int64_t counted = 0;
    for (const Op& op : role.ops) {
      if (op.phase != Phase::O) continue;
      if (is_collective(op.kind) && role.buffer(role.args_of(op)[0]).kind == BufferKind::Metric) {
        sums.insert(std::string(to_string(op.kind)) + " " + program.group(op.group()).name);
      }
      if (op.kind != OpKind::Call) continue;
      const Function& function = program.function(op.function());
      if (function.name == "clip") counted = function.kernels[0].dims[0];
    }
    CHECK(counted == 6 + 3);
    std::multiset<std::string> expected = {"all_reduce ep", "all_reduce dp"};  // and of the loss
    if (stage > 0) expected.insert({"all_gather dp", "all_gather expert_dp"});
    CHECK(sums == expected);
  }
}

TEST_CASE("a buffer that two streams enter waits on both for who had its bytes before",
          "[core][lower]") {
  // The squares of experts and of the rest come from two streams into one buffer, which takes over
  // the bytes of a message that is still under way.
  for (const int m : {8, 12, 16, 24}) {
    Scenario s = tiny_scenario(Architecture::Llama, {1, 4, 8, m});
    s.model.layers = 16;
    s.model.experts = 4;
    s.strategy.expert_parallel_degree = 4;
    s.strategy.pipeline_parallel_schedule = PipelineSchedule::Interleaved1F1B;
    s.strategy.pipeline_parallel_virtual_stages = 2;
    CHECK(verify(lowered(s)).empty());
  }
}

TEST_CASE("ranks that divide each expert gather its rows and scatter its sums, each way once",
          "[core][lower]") {
  for (const int ep : {1, 2, 4}) {
    for (const int tp : {2, 4}) {
      for (const double factor : {0.0, 2.0}) {
        INFO(ep << " " << tp << " " << factor);
        Scenario s = divided(Architecture::Llama, ep, 4);
        s.model.capacity_factor = factor;
        s.model.heads = s.model.kv_heads = 4;
        s.model.head_dim = 6;
        s.strategy.tensor_parallel_degree = tp;
        s.strategy.enable_sequence_parallel = true;
        const auto traffic = [](const Program& program) {
          CHECK(verify(program).empty());
          std::map<std::pair<OpKind, Phase>, std::int64_t> found;
          for (const Op& op : program.roles[0].ops) {
            if (op.stream != Stream::Layer || program.group(op.group()).name != "tp") continue;
            found[{OpKind{op.kind}, Phase{op.phase}}] +=
                payload_bytes(program, program.roles[0], op).v;
          }
          return found;
        };
        auto expected = traffic(lowered(s));
        s.strategy.expert_tensor_parallel_degree = tp;
        const Program program = lowered(s);
        const std::int64_t tokens = 2 * s.training.seq_len / tp;
        const std::int64_t places = factor == 0
                                        ? s.model.expert_rows(tokens, ep).places
                                        : s.model.experts * s.model.expert_capacity(tokens, ep);
        const std::int64_t rows = s.model.layers * tp * places * s.model.hidden * 4;
        // Where rows come from other ranks, only those that there are move: on average, as many as
        // the tokens' choices. Of a rank's own there are as many as places.
        const bool counted = factor == 0 && ep > 1;
        const std::int64_t counted_rows =
            s.model.layers * tp * tokens * s.model.experts_per_token * s.model.hidden * 4;
        for (const Phase phase : {Phase::F, Phase::B}) {
          if (counted) {
            expected[{OpKind::AllGatherRows, phase}] += counted_rows;
            expected[{OpKind::ReduceScatterRows, phase}] += counted_rows;
          } else {
            expected[{OpKind::AllGather, phase}] += rows;
            expected[{OpKind::ReduceScatter, phase}] += rows;
          }
        }
        if (factor == 0) {
          expected[{OpKind::AllGather, Phase::F}] += s.model.layers * tp * 4 * s.model.experts;
        }
        CHECK(traffic(program) == expected);
        // Every rank has its part of each of its experts, and their gradients are summed over the
        // ranks that hold the same.
        std::int64_t held = 0;
        for (const Unit& unit : program.roles[0].units) {
          if (unit.name.ends_with(".experts")) held += 4 * unit.elements;
        }
        CHECK(held == experts_bytes(s) / (ep * tp));
      }
    }
  }
}

TEST_CASE("MFU counts the experts that tokens choose, wherever they are", "[core][lower]") {
  const auto flops = [](int ep, int shards, double capacity_factor) {
    Scenario s = divided(Architecture::Llama, ep, shards);
    s.model.capacity_factor = capacity_factor;
    return lowered(s).model_flops_per_step.v / shards;
  };
  const double one = flops(1, 1, 1.0);
  CHECK(flops(2, 4, 1.0) == Approx(one));
  CHECK(flops(4, 4, 2.0) == Approx(one).epsilon(0.05));  // SwiGLU counts, which is small
  CHECK(flops(1, 1, 0.25) < one);                        // most choices find no room
}

TEST_CASE("folded experts are divided over tensor, context and data ranks, innermost first",
          "[core][lower]") {
  struct Case {
    int tp, cp, shards, ep;
    std::int64_t same;  // ranks of a replica that hold the same parts of experts
    int etp = 1;
  };
  for (const Case& c :
       {Case{2, 1, 2, 2, 2}, Case{2, 1, 2, 4, 1}, Case{1, 2, 2, 2, 2}, Case{1, 2, 3, 6, 1},
        Case{2, 2, 1, 2, 2}, Case{2, 2, 3, 4, 3}, Case{2, 2, 3, 12, 1}, Case{4, 1, 2, 2, 2, 2},
        Case{4, 1, 2, 4, 1, 2}, Case{4, 2, 1, 4, 1, 2}, Case{4, 2, 3, 2, 6, 2},
        Case{2, 2, 3, 2, 3, 2}, Case{2, 2, 3, 6, 1, 2}}) {
    for (const int zero_stage : {0, 1, 3}) {
      INFO(c.tp << c.cp << c.shards << c.ep << c.etp << zero_stage);
      Scenario s = divided(Architecture::Llama, c.ep, c.shards, zero_stage);
      s.model.heads = s.model.kv_heads = 4;
      s.model.head_dim = 6;
      s.strategy.tensor_parallel_degree = c.tp;
      s.strategy.enable_sequence_parallel = true;
      s.strategy.context_parallel_degree = c.cp;
      s.strategy.context_parallel_method = ContextParallelMethod::AllGather;
      s.strategy.expert_parallel_folding = true;
      s.strategy.expert_tensor_parallel_degree = c.etp;
      const Program program = lowered(s);
      CHECK(verify(program).empty());
      CHECK(exchanges(program).size() == 2);  // forward and backward, all over "ep"
      for (const Group& group : program.groups) {
        if (group.name != "ep") continue;
        const std::vector<Rank> first = members(program.mesh, group, 0);
        REQUIRE(static_cast<int>(first.size()) == c.ep);
        // Neighbours, or the first of each of the neighbouring groups that divide an expert.
        for (int i = 0; i < c.ep; ++i) CHECK(first[to_size(i)] == i * c.etp);
      }
      std::int64_t held = 0;
      for (const Unit& unit : program.roles[0].units) {
        if (unit.name.ends_with(".experts")) held += 4 * unit.elements;
      }
      CHECK(held == experts_bytes(s) / (c.ep * c.etp));
      CHECK(c.same * c.ep * c.etp == std::int64_t{c.tp} * c.cp * c.shards);
      const auto found = data_traffic(program);
      CHECK(found.count("all_reduce expert_dp") == (zero_stage == 0 && c.same > 1 ? 1U : 0U));
      CHECK(found.count("reduce_scatter expert_dp") == (zero_stage > 0 && c.same > 1 ? 1U : 0U));
    }
  }
}

TEST_CASE("a block of moments in 8 bits ends where an expert's tensor does, wherever experts lie",
          "[core][lower]") {
  const auto blocks = [](int ep, int hidden) {
    Scenario s = divided(Architecture::Llama, ep, ep);
    s.model.ffn_hidden = hidden;
    s.optimizer.state_dtype = StateDType::U8;
    s.optimizer.block_size = 128;
    const Program program = lowered(s);
    std::set<std::int64_t> found;
    for (const Unit& unit : program.roles[0].units) {
      if (!unit.name.ends_with("experts")) continue;
      found.insert(unit.state_block);
      CHECK(unit.shard_elements % unit.state_block == 0);
    }
    return found;
  };
  // An expert has [2 × 7, 24] and [24, 7]: 336 and 168 elements, which blocks of 84 divide.
  for (const int ep : {1, 2, 4}) CHECK(blocks(ep, 7) == std::set<std::int64_t>{84});
  CHECK(blocks(2, 64) == std::set<std::int64_t>{128});
}
