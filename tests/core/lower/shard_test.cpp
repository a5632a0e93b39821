#include <algorithm>
#include <map>
#include <set>

#include "core/ir/verify/verify.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;
using test::lowered;

namespace {

Scenario with_stage(const Layout& layout, int stage,
                    Architecture architecture = Architecture::Llama) {
  Scenario s = test::tiny_scenario(architecture, layout);
  s.strategy.zero_stage = stage;
  return s;
}

bool is_metric(const Role& role, const Op& op) {
  return role.buffer(role.args_of(op)[0]).kind == BufferKind::Metric;
}

int count(const Role& role, OpKind kind) {
  return static_cast<int>(std::count_if(role.ops.begin(), role.ops.end(), [&](const Op& op) {
    return op.kind == kind && !is_metric(role, op);
  }));
}

/// The bytes that a rank sends in rings: (n-1)/n of what is gathered or scattered, and twice that
/// for what is all-reduced.
double bytes_sent(const Program& program, OpKind kind) {
  const Role& role = program.roles[0];
  double sent = 0;
  for (const Op& op : role.ops) {
    if (op.kind != kind || is_metric(role, op)) continue;
    const double n = group_size(program.mesh, program.group(op.group()));
    const double all = static_cast<double>(payload_bytes(program, role, op).v);
    sent += all * (n - 1) / n * (kind == OpKind::AllReduce ? 2 : 1);
  }
  return sent;
}
double bytes_sent(const Program& program) {
  return bytes_sent(program, OpKind::AllReduce) + bytes_sent(program, OpKind::AllGather) +
         bytes_sent(program, OpKind::ReduceScatter);
}

/// Bytes of the units' parameters, each padded to a multiple of `shards` elements.
double unit_bytes(const Program& program, int shards, const std::string& prefix = "") {
  double bytes = 0;
  for (const Unit& unit : program.roles[0].units) {
    if (unit.name.rfind(prefix, 0) == 0) {
      bytes += 4.0 * static_cast<double>(round_up(unit.elements, shards));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("every ZeRO stage verifies with and without replicas, pipelines and accumulation",
          "[core][lower]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const Layout& layout :
         {Layout{1, 2}, Layout{1, 3}, Layout{2, 2}, Layout{3, 2}, Layout{2, 3, 2, 4},
          Layout{2, 2, 4, 5}, Layout{1, 5, 2, 3}, Layout{1, 3, 1, 1, 3}}) {
      for (int stage : {0, 1, 2, 3}) {
        for (bool overlap : {true, false}) {
          Scenario s = with_stage(layout, stage, architecture);
          s.strategy.overlap_grad_reduce = overlap;
          s.strategy.fsdp_persistence_threshold = layout.replicate == 2 ? 1700 : 0;
          s.strategy.fsdp_backward_prefetch = layout.shard == 3 ? 2 : -1;
          CHECK(verify(lowered(s)).empty());
        }
      }
    }
  }
}

TEST_CASE("gradients that are no views of their buckets are copied there and back",
          "[core][lower]") {
  for (const Layout& layout : {Layout{3}, Layout{2, 1, 1, 1, 3}, Layout{2, 1, 2, 4}}) {
    Scenario s = with_stage(layout, 0);
    const Program views = lowered(s);
    s.strategy.gradient_as_bucket_view = false;
    const Program copies = lowered(s);
    CHECK(verify(copies).empty());
    CHECK(bytes_sent(copies) == bytes_sent(views));
    const auto kept = [](const Program& program, BufferKind kind) {
      std::int64_t bytes = 0;
      for (const Buffer& buffer : program.roles[0].buffers) {
        if (buffer.kind == kind && !buffer.is_view()) bytes += buffer.bytes.v;
      }
      return bytes;
    };
    const std::int64_t gradients = kept(views, BufferKind::Grad);
    CHECK(kept(copies, BufferKind::Grad) == gradients);
    CHECK(kept(copies, BufferKind::Comm) - kept(views, BufferKind::Comm) == gradients);
    std::int64_t copied = 0;  // bytes, both ways
    for (const Op& op : copies.roles[0].ops) {
      if (op.kind != OpKind::Call) continue;
      const Function& function = copies.function(op.function());
      if (function.name.text().starts_with("copy.")) copied += function.formals[0].bytes.v;
    }
    CHECK(copied == 2 * gradients);
  }
}

TEST_CASE("ZeRO stages 1 and 2 scatter each gradient and gather each unit once a step",
          "[core][lower]") {
  for (int n : {1, 4, 9}) {
    for (int stage : {1, 2}) {
      for (int k : {1, 3}) {
        Scenario s = with_stage({1, 2, 1, 1, k}, stage);
        s.model.layers = n;
        s.strategy.accumulate_sharded_gradients = AccumulateShards::Never;
        const Program program = lowered(s);
        const Role& role = program.roles[0];
        CHECK(count(role, OpKind::ReduceScatter) == n + 2);  // + embedding and head
        CHECK(count(role, OpKind::AllGather) == n + 2);
        CHECK(count(role, OpKind::AllReduce) == 0);
        for (const Op& op : role.ops) {  // parameters come back after the update only
          if (op.kind == OpKind::AllGather) CHECK(op.phase == Phase::O);
        }
      }
    }
  }
}

TEST_CASE("bytes sent per rank and step are those of the ring formulas", "[core][lower]") {
  // P = bytes of the parameters; n ranks share them; k microbatches are accumulated.
  for (int n : {2, 3, 4, 7}) {
    const double ring = (n - 1.0) / n;
    const Program ddp = lowered(with_stage({n}, 3));
    CHECK(bytes_sent(ddp) == Approx(2 * ring * unit_bytes(ddp, 1)));
    for (int stage : {0, 1, 2, 3}) {
      INFO(n << " ranks, ZeRO-" << stage);
      Scenario s = with_stage({1, n}, stage);
      s.strategy.fsdp_reshard_after_forward = ReshardAfterForward::Never;
      const Program program = lowered(s);
      const double p = unit_bytes(program, stage == 0 ? 1 : n);
      CHECK(bytes_sent(program) == Approx(2 * ring * p));
    }
    // Resharded after forward: 3 P (n-1)/n, but the root units and the last block stay.
    const Program fsdp = lowered(with_stage({1, n}, 3));
    const double p = unit_bytes(fsdp, n);
    const double stay = p - unit_bytes(fsdp, n, "blocks.") + unit_bytes(fsdp, n, "blocks.3");
    CHECK(bytes_sent(fsdp) == Approx(ring * (3 * p - stay)));
  }
}

TEST_CASE("accumulation of whole gradients gathers twice per microbatch and scatters once",
          "[core][lower]") {
  const int layers = 4;
  for (int k : {1, 2, 5}) {
    Scenario s = with_stage({1, 2, 1, 1, k}, 3);
    s.strategy.fsdp_reshard_after_forward = ReshardAfterForward::Always;
    s.strategy.accumulate_sharded_gradients = AccumulateShards::Never;
    const Program program = lowered(s);
    // At each turn from forward to backward, and back, the block is gathered already.
    CHECK(count(program.roles[0], OpKind::AllGather) == 2 * k * layers - (2 * k - 1) + 2);
    CHECK(count(program.roles[0], OpKind::ReduceScatter) == layers + 2);
  }
}

TEST_CASE("accumulation in shards scatters every microbatch and keeps one unit's gradient whole",
          "[core][lower]") {
  const int layers = 6;
  for (int stage : {2, 3}) {
    for (int d : {1, 2}) {
      for (int k : {1, 2, 5}) {
        INFO("ZeRO-" << stage << ", " << d << " replicas, " << k << " microbatches");
        Scenario s = with_stage({d, 2, 1, 1, k}, stage);
        s.model.layers = layers;
        s.strategy.accumulate_sharded_gradients = AccumulateShards::Never;
        const Program whole = lowered(s);
        s.strategy.accumulate_sharded_gradients = AccumulateShards::Always;
        const Program sharded = lowered(s);
        s.strategy.accumulate_sharded_gradients = AccumulateShards::Default;
        CHECK(lowered(s) == (k > 1 ? sharded : whole));
        const Role& role = sharded.roles[0];
        CHECK(count(role, OpKind::ReduceScatter) == k * (layers + 2));
        CHECK(count(role, OpKind::AllReduce) == (d == 1 ? 0 : layers + 2));  // on the last one
        CHECK(count(role, OpKind::AllGather) == count(whole.roles[0], OpKind::AllGather));
        // Two whole gradients are alive together: one that is computed and one that is scattered.
        std::int64_t largest = 0, most = 0;
        for (const Unit& unit : role.units) largest = std::max(largest, unit.elements);
        for (std::size_t i = 0; i < role.ops.size(); ++i) {
          std::int64_t alive = 0;
          for (const Unit& unit : role.units) alive -= 4 * unit.shard_elements;
          for (const Buffer& b : role.buffers) {
            if (b.kind != BufferKind::Grad || b.first().v > static_cast<int>(i)) continue;
            if (static_cast<int>(i) <= b.last().v) alive += b.bytes.v;
          }
          most = std::max(most, alive);
        }
        CHECK(most <= 3 * 4 * (largest + 1));
        if (k > 1) CHECK(role.arena < whole.roles[0].arena);
      }
    }
  }
}

TEST_CASE("resharded to fewer ranks, backward gathers over those", "[core][lower]") {
  // Forward gathers over n, backward over k: P (n-1)/n + P' (k-1)/k, where P' are the blocks but
  // the last. A piece of 1/k is kept of each from forward to backward.
  for (const auto& [n, k] : {std::pair{4, 2}, std::pair{6, 2}, std::pair{6, 3}, std::pair{8, 4}}) {
    for (int d : {1, 2}) {
      INFO(n << " shards, " << k << " after forward, " << d << " replicas");
      Scenario s = with_stage({d, n}, 3);
      s.strategy.fsdp_reshard_degree = k;
      const Program program = lowered(s);
      const double p = unit_bytes(program, n);
      const double again = unit_bytes(program, n, "blocks.") - unit_bytes(program, n, "blocks.3");
      CHECK(bytes_sent(program, OpKind::AllGather) ==
            Approx(p * (n - 1) / n + again * (k - 1) / k));
      CHECK(bytes_sent(program, OpKind::ReduceScatter) == Approx(p * (n - 1) / n));
      for (const Group& group : program.groups) {
        const std::vector<Rank> ranks = members(program.mesh, group, n + 1 < d * n ? n + 1 : 1);
        if (group.name != "dp_reshard") continue;
        CHECK(static_cast<int>(ranks.size()) == k);
        CHECK(ranks.back() - ranks.front() == k - 1);  // neighbours
      }
    }
  }
}

TEST_CASE("replicas of shards add an all-reduce of each shard, P/n over d", "[core][lower]") {
  for (int stage : {1, 2, 3}) {
    for (const auto& [d, n] : {std::pair{2, 2}, std::pair{3, 2}, std::pair{2, 4}}) {
      const Program alone = lowered(with_stage({1, n}, stage));
      const Program hybrid = lowered(with_stage({d, n}, stage));
      const double p = unit_bytes(hybrid, n);
      CHECK(bytes_sent(hybrid, OpKind::AllReduce) == Approx(2 * (d - 1.0) / d * p / n));
      CHECK(bytes_sent(hybrid, OpKind::AllGather) == bytes_sent(alone, OpKind::AllGather));
      CHECK(bytes_sent(hybrid, OpKind::ReduceScatter) == bytes_sent(alone, OpKind::ReduceScatter));
    }
  }
}

TEST_CASE("replicas sum their shards once, or once for each of k microbatches", "[core][lower]") {
  Scenario s = with_stage({2, 4}, 3);
  const double p = unit_bytes(lowered(s), 4);
  s.training.global_batch_size = 3 * s.strategy.synchronous_ranks() * s.training.local_batch_size;
  REQUIRE(s.num_microbatches() == 3);
  const double once = 2 * (2 - 1.0) / 2 * p / 4;
  CHECK(bytes_sent(lowered(s), OpKind::AllReduce) == Approx(once));
  s.strategy.all_reduce_each_microbatch = true;
  const Program each = lowered(s);
  CHECK(bytes_sent(each, OpKind::AllReduce) == Approx(3 * once));
  for (const Op& op : each.roles[0].ops) {  // so that no reduce-scatter waits for the network
    if (op.kind != OpKind::ReduceScatter || op.phase == Phase::B) continue;
    for (OpId waited : each.roles[0].after_of(op)) {
      CHECK(each.roles[0].op(waited).kind != OpKind::AllReduce);
    }
  }
}

TEST_CASE("shards lie on neighbouring ranks, replicas apart", "[core][lower]") {
  const Program program = lowered(with_stage({2, 4}, 3));
  const auto group = [&](const std::string& name) {
    for (const Group& g : program.groups) {
      if (g.name == name) return members(program.mesh, g, 5);
    }
    return std::vector<Rank>{};
  };
  CHECK(group("dp_shard") == std::vector<Rank>{4, 5, 6, 7});
  CHECK(group("dp_replicate") == std::vector<Rank>{1, 5});
  CHECK(group("dp") == std::vector<Rank>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("the all-reduce between replicas follows its reduce-scatter and holds up none",
          "[core][lower]") {
  Scenario s = with_stage({2, 2}, 3);
  s.model.layers = 6;
  const Role role = lowered(s).roles[0];
  int reduced = 0;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (op.stream == Stream::Replicate) {
      ++reduced;
      CHECK(op.kind == OpKind::AllReduce);
      const Op& before = role.ops[i - 1];
      CHECK(before.kind == OpKind::ReduceScatter);
      CHECK(role.args_of(before)[1] == role.args_of(op)[0]);
      const auto after = role.after_of(op);
      CHECK(std::count(after.begin(), after.end(), OpId{static_cast<std::int32_t>(i - 1)}) == 1);
    } else if (op.kind == OpKind::ReduceScatter || op.phase == Phase::B) {
      for (OpId waited : role.after_of(op)) CHECK(role.op(waited).stream != Stream::Replicate);
    }
  }
  CHECK(reduced == 6 + 2);
}

TEST_CASE("model states per rank are those of the ZeRO table", "[core][lower]") {
  // In units of the parameters Φ (fp32): stage 0 holds Φ + Φ + 2Φ; 1: Φ + Φ + 2Φ/N;
  // 2: Φ + Φ/N + 2Φ/N; 3: Φ/N + Φ/N + 2Φ/N. Units are padded to a multiple of N elements.
  for (int n : {2, 3, 8}) {
    for (int stage : {0, 1, 2, 3}) {
      INFO(n << " ranks, ZeRO-" << stage);
      const Program program = lowered(with_stage({1, n}, stage, Architecture::Gpt2));
      const Role& role = program.roles[0];
      const double whole = unit_bytes(program, stage == 0 ? 1 : n);
      double parameters = 0, optimizer = 0, gradients = 0;
      for (const Buffer& b : role.buffers) {
        if (!b.persistent()) continue;
        (b.kind == BufferKind::Param ? parameters : optimizer) += static_cast<double>(b.bytes.v);
      }
      std::set<std::int32_t> held;  // what the updates read
      for (const Op& op : role.ops) {
        if (op.kind != OpKind::Call || op.phase != Phase::O) continue;
        if (program.function(op.function()).name.text().rfind("adamw", 0) != 0) continue;
        held.insert(role.root(role.args_of(op)[0]).v);
      }
      for (std::int32_t id : held) gradients += static_cast<double>(role.buffer({id}).bytes.v);
      CHECK(parameters == (stage < 3 ? whole : whole / n));
      CHECK(gradients == (stage < 2 ? whole : whole / n));
      CHECK(optimizer == 2 * (stage < 1 ? whole : whole / n));
    }
  }
}

TEST_CASE("a higher ZeRO stage never needs a larger arena", "[core][lower]") {
  for (int n : {2, 4}) {
    Scenario s = with_stage({1, n}, 0);
    s.model.layers = 8;
    Bytes before = lowered(s).roles[0].arena;
    for (int stage : {1, 2, 3}) {
      s.strategy.zero_stage = stage;
      const Bytes arena = lowered(s).roles[0].arena;
      CHECK(arena < before);
      before = arena;
    }
  }
}

TEST_CASE("units up to the persistence threshold keep their parameters whole", "[core][lower]") {
  Scenario s = with_stage({1, 2}, 3);
  const Program all = lowered(s);
  std::int64_t embedding = 0;
  for (const Unit& unit : all.roles[0].units) {
    CHECK_FALSE(unit.whole_param);
    if (unit.name.rfind("blocks.", 0) != 0) embedding = std::max(embedding, unit.elements);
  }
  s.strategy.fsdp_persistence_threshold = embedding;
  const Program some = lowered(s);
  for (const Unit& unit : some.roles[0].units) {
    INFO(unit.name << " " << unit.elements);
    CHECK(unit.whole_param == (unit.elements <= embedding));
    CHECK(some.roles[0].buffer(unit.states[StateKind::Moment1]).bytes.v ==
          4 * ceil_div(unit.elements, 2));
  }
  CHECK(count(some.roles[0], OpKind::AllGather) == count(all.roles[0], OpKind::AllGather));
}

TEST_CASE("blocks below the wrapping size stay gathered", "[core][lower]") {
  Scenario s = with_stage({1, 2}, 3);
  const Program by_block = lowered(s);
  std::int64_t block = 0;
  for (const Unit& unit : by_block.roles[0].units) {
    if (unit.name == "blocks.0") block = unit.elements;
  }
  const int layers = s.model.layers;
  CHECK(count(by_block.roles[0], OpKind::AllGather) == 2 * layers - 1 + 2);
  s.strategy.fsdp_min_num_params = block;
  CHECK(count(lowered(s).roles[0], OpKind::AllGather) == 2 * layers - 1 + 2);
  s.strategy.fsdp_min_num_params = block + 1;
  CHECK(count(lowered(s).roles[0], OpKind::AllGather) == layers + 2);
}

TEST_CASE("units are gathered in FSDP2's order, one ahead, the last block once", "[core][lower]") {
  Scenario s = with_stage({1, 2}, 3);
  s.model.layers = 4;
  const Role role = lowered(s).roles[0];
  std::string
      order;  // G: gather, F, B: first call of a layer's pass; 0 is the embedding, 5 the head
  std::string last;
  for (const Op& op : role.ops) {
    const bool pass = op.kind == OpKind::Call && (op.phase == Phase::F || op.phase == Phase::B);
    if ((op.kind != OpKind::AllGather || is_metric(role, op)) && !pass) continue;
    const std::string event = (op.kind == OpKind::AllGather ? "G"
                               : op.phase == Phase::F       ? "F"
                                                            : "B") +
                              std::to_string(op.layer);
    if (event != last) order += (order.empty() ? "" : " ") + event;
    last = event;
  }
  CHECK(order == "G0 G1 F0 G2 F1 G3 F2 G4 F3 G5 F4 F5 B5 G3 B4 G2 B3 G1 B2 B1 B0");
  // A gather waits for the computation before its place, even if there is free memory.
  std::vector<OpId> calls;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    const auto after = role.after_of(op);
    if (op.kind == OpKind::AllGather && op.layer > 1) {
      REQUIRE(!calls.empty());
      CHECK(std::find(after.begin(), after.end(), calls.back()) != after.end());
    }
    if (op.kind == OpKind::Call && op.stream == Stream::Compute) {
      calls.push_back({static_cast<std::int32_t>(i)});
    }
  }
}

TEST_CASE("forward and backward gather ahead by their own distances", "[core][lower]") {
  // Counts the gathers listed before a pass over a block, from its own on: they are distance + 1,
  // and fewer at the end of the step.
  for (int forward : {0, 1, 2}) {
    for (int backward : {-1, 0, 1, 3}) {
      INFO(forward << " " << backward);
      Scenario s = with_stage({1, 2}, 3);
      s.model.layers = 9;
      s.strategy.fsdp_prefetch = forward;
      s.strategy.fsdp_backward_prefetch = backward;
      const Role role = lowered(s).roles[0];
      std::map<std::int32_t, int> number;  // gathered buffer -> how many gathers before it
      for (const Op& op : role.ops) {
        if (op.kind == OpKind::AllGather) number.emplace(role.args_of(op)[1].v, number.size());
      }
      int listed = 0;
      for (const Op& op : role.ops) {
        listed += op.kind == OpKind::AllGather;
        if (op.kind != OpKind::Call || (op.phase != Phase::F && op.phase != Phase::B)) continue;
        int own = 0;  // the newest copy it reads
        for (BufferId arg : role.args_of(op)) {
          if (number.count(arg.v)) own = std::max(own, number.at(arg.v));
        }
        // Far from the turn between the passes and from both ends.
        if (op.phase == Phase::F && op.layer >= 3 && op.layer <= 5) {
          CHECK(listed - own == forward + 1);
        } else if (op.phase == Phase::B && op.layer >= 4 && op.layer <= 5) {
          CHECK(listed - own == (backward < 0 ? forward : backward) + 1);
        }
      }
    }
  }
}

TEST_CASE("the norm of the gradients is measured whether or not it clips", "[core][lower]") {
  for (const int stage : {1, 2, 3}) {
    Scenario s = with_stage({1, 2}, stage);
    const auto reports = [&](double max_norm) {
      s.training.max_norm = max_norm;
      const Program program = lowered(s);
      int norms = 0;
      int clipped = 0;  // updates that read the coefficient
      for (const Op& op : program.roles[0].ops) {
        norms += is_copy(op.kind) && op.host() == HostData::GradNorm;
        if (op.kind != OpKind::Call) continue;
        for (const Formal& formal : program.function(op.function()).formals) {
          clipped += formal.name == "coefficient" && formal.access == Access::Read;
        }
      }
      return std::pair(norms, clipped);
    };
    const int units = static_cast<int>(lowered(s).roles[0].units.size());
    CHECK(reports(1) == std::pair(1, units));
    CHECK(reports(0) == std::pair(1, 0));
  }
}
