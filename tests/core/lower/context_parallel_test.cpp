// Counts in lowered programs what context parallelism divides and sends.
#include <map>
#include <set>

#include "core/ir/ring.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::lowered;
using test::tiny_scenario;

namespace {

using Method = ContextParallelMethod;

Scenario divided(Architecture architecture, int cp, std::int64_t kv_heads = 12, int tp = 1,
                 const test::Layout& layout = {}, Method method = Method::Ulysses) {
  Scenario s = tiny_scenario(architecture, layout, 2);
  s.model.heads = 12;
  s.model.kv_heads = kv_heads;
  s.model.head_dim = 2;
  s.model.ffn_hidden = 48;
  s.training.seq_len = 12;
  s.strategy.context_parallel_degree = cp;
  s.strategy.context_parallel_method = method;
  s.strategy.tensor_parallel_degree = tp;
  return s;
}

/// Kind and bytes of every collective of a role over "cp", in the given phase and layer.
using Exchanges = std::multiset<std::pair<OpKind, std::int64_t>>;
Exchanges exchanges(const Program& program, Phase phase, int layer) {
  Exchanges found;
  const Role& role = program.roles[0];
  for (const Op& op : role.ops) {
    if (!is_collective(op.kind) || op.phase != phase || op.layer != layer) continue;
    if (program.group(op.group()).name != "cp") continue;
    CHECK(op.stream == Stream::Layer);
    found.emplace(OpKind{op.kind}, payload_bytes(program, role, op).v);
  }
  return found;
}

/// Flops of a rank's matrix products and attention.
double heavy_flops(const Program& program) {
  double flops = 0;
  for (const Op& op : program.roles[0].ops) {
    if (op.kind != OpKind::Call) continue;
    for (const Kernel& kernel : program.function(op.function()).kernels) {
      const bool heavy = kernel.kind == KernelKind::Gemm ||
                         kernel.kind == KernelKind::AttentionForward ||
                         kernel.kind == KernelKind::AttentionBackward;
      if (heavy) flops += work(kernel).flops.v;
    }
  }
  return flops;
}

}  // namespace

TEST_CASE("a block exchanges 4 N h / P elements forward and as many backward", "[core][lower]") {
  // Jacobs et al. 2023: query, key, value and result of N tokens, each of width h, are divided over
  // P ranks.
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int cp : {2, 3, 4, 6, 12}) {
      for (const std::int64_t kv_heads : {12, 0}) {  // 0: as few as there are ranks
        const Scenario s = divided(architecture, cp, kv_heads > 0 ? kv_heads : cp);
        INFO(cp << " ranks, " << s.model.kv_heads << " key heads");
        const Program program = lowered(s);
        const std::int64_t tokens = std::int64_t{s.microbatch_size()} * s.training.seq_len;
        const std::int64_t result = tokens * 12 * 2 / cp * 4;  // bytes
        const std::int64_t qkv = result + 2 * tokens * s.model.kv_heads * 2 / cp * 4;
        for (int block = 1; block <= s.model.layers; ++block) {
          const Exchanges both = {{OpKind::AllToAll, qkv}, {OpKind::AllToAll, result}};
          CHECK(exchanges(program, Phase::F, block) == both);
          CHECK(exchanges(program, Phase::B, block) == both);
        }
        CHECK(exchanges(program, Phase::F, 0).empty());
        CHECK(exchanges(program, Phase::F, static_cast<int>(s.model.layers) + 1).empty());
      }
    }
  }
}

TEST_CASE(
    "a block gathers keys and values forward and again backward, and scatters their gradients",
    "[core][lower]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int cp : {2, 3, 6}) {
      for (const std::int64_t kv_heads : {1, 4, 12}) {  // none need divide
        const Scenario s = divided(architecture, cp, kv_heads, 1, {}, Method::AllGather);
        INFO(cp << " ranks, " << kv_heads << " key heads");
        const Program program = lowered(s);
        const std::int64_t tokens = std::int64_t{s.microbatch_size()} * s.training.seq_len;
        const std::int64_t keys = tokens * 2 * kv_heads * 2 * 4;  // bytes, of all ranks
        for (int block = 1; block <= s.model.layers; ++block) {
          CHECK(exchanges(program, Phase::F, block) == Exchanges{{OpKind::AllGather, keys}});
          CHECK(exchanges(program, Phase::B, block) ==
                Exchanges{{OpKind::AllGather, keys}, {OpKind::ReduceScatter, keys}});
        }
      }
    }
  }
}

TEST_CASE(
    "a block passes keys and values on P - 1 times forward, and with their gradients backward",
    "[core][lower]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int cp : {2, 3, 6}) {
      for (const std::int64_t kv_heads : {1, 4, 12}) {  // none need divide
        const Scenario s = divided(architecture, cp, kv_heads, 1, {}, Method::Ring);
        INFO(cp << " ranks, " << kv_heads << " key heads");
        const Program program = lowered(s);
        const std::int64_t own = std::int64_t{s.microbatch_size()} * s.own_seq_len();
        const std::int64_t keys = own * 2 * kv_heads * 2 * 4;  // bytes, of one rank
        Exchanges once, twice;
        for (int turn = 1; turn < cp; ++turn) {
          once.emplace(OpKind::Rotate, keys);
          twice.emplace(OpKind::Rotate, keys);
          twice.emplace(OpKind::Rotate, keys);
        }
        for (int block = 1; block <= s.model.layers; ++block) {
          CHECK(exchanges(program, Phase::F, block) == once);
          CHECK(exchanges(program, Phase::B, block) == twice);
        }
      }
    }
  }
}

TEST_CASE("a rank that passes keys on holds those of two ranks at a time", "[core][lower]") {
  // Memory of a gather grows with the ranks, that of a ring does not: with P ranks of N tokens each
  // of these holds keys and values of 2 N tokens, not P N.
  Scenario s = divided(Architecture::Llama, 6, 12, 1, {}, Method::Ring);
  s.training.seq_len = 12 * 64;  // so that activations outweigh the rest
  const auto most = [&](Method method) {
    s.strategy.context_parallel_method = method;
    const Program program = lowered(s);
    const Role& role = program.roles[0];
    std::int64_t most = 0;
    for (const OpId op : role.ops.ids()) {
      std::int64_t alive = 0;
      for (const Buffer& b : role.buffers) {
        const bool keys = b.name >= 0 && program.names[b.name].starts_with("keys.");
        if (keys && b.first() <= op && op <= b.last()) alive += b.bytes.v;
      }
      most = std::max(most, alive);
    }
    return most;
  };
  const std::int64_t keys = std::int64_t{s.microbatch_size()} * s.own_seq_len() * 2 * 24 * 4;
  CHECK(most(Method::AllGather) == 6 * keys);
  CHECK(most(Method::Ring) <= 2 * keys);
}

TEST_CASE("a ring may have hundreds of ranks", "[core][lower]") {
  Scenario s = divided(Architecture::Llama, 300, 1, 1, {}, Method::Ring);
  s.training.seq_len = 600;
  s.model.layers = 1;
  s.cluster.ranks_per_device = 300;
  CHECK(exchanges(lowered(s), Phase::B, 1).size() == 2 * 299);
}

TEST_CASE("neighbours exchange heads, and pass keys on between groups of them", "[core][lower]") {
  for (const auto& [heads, parts] : {std::pair(2, 3), {3, 2}, {2, 2}, {3, 1}, {1, 3}}) {
    Scenario s = divided(Architecture::Llama, heads * parts, 12, 1, {}, Method::Ring);
    s.strategy.context_parallel_ulysses_degree = heads;
    INFO(heads << " by heads, " << parts << " parts");
    const Program program = lowered(s);
    CHECK(program.mesh.size_of("cp") * program.mesh.size_of("cp_heads") == heads * parts);
    const std::int64_t own = std::int64_t{s.microbatch_size()} * s.own_seq_len();
    const std::int64_t width = own * 24 * 4;  // bytes of one of queries, keys, values
    Bytes sent;
    for (const Op& op : program.roles[0].ops) {
      if (!is_collective(op.kind) || op.phase != Phase::F || op.layer != 1) continue;
      const Group& group = program.group(op.group());
      sent += ring_bytes(op.kind, payload_bytes(program, program.roles[0], op),
                         group_size(program.mesh, group));
      CHECK(group_size(program.mesh, group) == (op.kind == OpKind::Rotate ? parts : heads));
    }
    // (h - 1) / h of four tensors change hands, and keys and values go past r - 1 ranks: after the
    // exchange a rank has h times the tokens of 1 / h of the heads, so as many bytes as before.
    CHECK(sent.v == 4 * width * (heads - 1) / heads + 2 * width * (parts - 1));
  }
}

TEST_CASE("pieces from both ends of a sequence give every rank as many earlier tokens",
          "[core][lower]") {
  for (const int cp : {2, 3, 6}) {
    const Scenario s = divided(Architecture::Llama, cp, 12, 1, {}, Method::AllGather);
    std::set<std::int64_t> positions, scores;
    for (int rank = 0; rank < cp; ++rank) {
      std::int64_t seen = 0;
      for (std::int64_t i = 0; i < s.own_seq_len(); ++i) {
        positions.insert(s.position(rank, i));
        seen += s.position(rank, i) + 1;
      }
      scores.insert(seen);
    }
    CHECK(positions.size() == 12);
    CHECK(*positions.rbegin() == 11);
    CHECK(scores == std::set<std::int64_t>{12 * 13 / 2 / cp});
  }
}

TEST_CASE("with tensor parallelism a rank exchanges its heads only", "[core][lower]") {
  const Program one = lowered(divided(Architecture::Llama, 3));
  const Program two = lowered(divided(Architecture::Llama, 3, 12, 2));
  CHECK(two.mesh.dims.back().name == "tp");
  Exchanges halves;
  for (const auto& [kind, bytes] : exchanges(one, Phase::F, 1)) halves.emplace(kind, bytes / 2);
  CHECK(exchanges(two, Phase::F, 1) == halves);
}

TEST_CASE("ranks of one sequence divide its arithmetic and its activations evenly",
          "[core][lower]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const Program whole = lowered(divided(architecture, 1));
    for (const auto& [cp, method] : {std::pair(2, Method::Ulysses),
                                     {3, Method::Ulysses},
                                     {4, Method::Ulysses},
                                     {2, Method::AllGather},
                                     {3, Method::AllGather},
                                     {6, Method::AllGather},
                                     {2, Method::Ring},
                                     {3, Method::Ring},
                                     {6, Method::Ring}}) {
      INFO(cp);
      const Program program = lowered(divided(architecture, cp, 12, 1, {}, method));
      CHECK(cp * heavy_flops(program) == Approx(heavy_flops(whole)).epsilon(1e-12));
      CHECK(program.model_flops_per_step.v == whole.model_flops_per_step.v);
      CHECK(program.tokens_per_step == whole.tokens_per_step);
      const auto bytes = [](const Program& p, std::string_view name) {
        std::set<std::int64_t> found;
        for (const Buffer& b : p.roles[0].buffers) {
          if (b.name >= 0 && p.names[b.name] == name) found.insert(b.bytes.v);
        }
        return found;
      };
      for (const char* name : {"y", "dx", "tokens", "targets"}) {
        INFO(name);
        const auto own = bytes(program, name), all = bytes(whole, name);
        REQUIRE(own.size() == 1);
        REQUIRE(all.size() == 1);
        CHECK(cp * *own.begin() == *all.begin());
      }
    }
  }
}

TEST_CASE("states are sharded, and gradients reduced, over slices of sequences, too",
          "[core][lower]") {
  const auto reductions = [](const Program& program) {
    std::set<std::string> found;
    for (const Op& op : program.roles[0].ops) {
      if (is_collective(op.kind) && op.stream != Stream::Layer)
        found.insert(std::string(to_string(op.kind)) + " " + program.group(op.group()).name);
    }
    return found;
  };
  using Names = std::set<std::string>;
  Scenario s = divided(Architecture::Llama, 2, 12, 1, {1, 3});
  Program program = lowered(s);
  CHECK(
      program.mesh.dims ==
      std::vector<MeshDim>{{"pp", 1}, {"dp_replicate", 1}, {"dp_shard", 3}, {"cp", 2}, {"tp", 1}});
  CHECK(reductions(program) ==
        Names{"all_gather dp_cp", "reduce_scatter dp_cp", "all_reduce dp_cp"});  // of the loss
  for (const Unit& unit : program.roles[0].units) {
    CHECK(unit.shard_elements == ceil_div(unit.elements, 6));
  }
  s.strategy.zero_stage = 0;
  CHECK(reductions(lowered(s)) == Names{"all_reduce dp_cp"});
  s.strategy.zero_stage = 3;
  s.strategy.data_parallel_replicate_degree = 2;
  s.training.global_batch_size = -1;
  program = lowered(s);
  const Names hybrid = reductions(program);
  CHECK(hybrid.count("reduce_scatter dp_shard_cp") == 1);
  CHECK(hybrid.count("all_reduce dp_replicate") == 1);
}
