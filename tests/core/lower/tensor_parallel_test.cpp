// Counts in lowered programs what tensor and sequence parallelism send.
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

Scenario divided(Architecture architecture, int tp, bool by_rows, const test::Layout& layout = {}) {
  Scenario s = tiny_scenario(architecture, layout, 2);
  s.model.heads = s.model.kv_heads = 12;
  s.model.head_dim = 2;
  s.model.ffn_hidden = 48;
  s.strategy.tensor_parallel_degree = tp;
  s.strategy.enable_sequence_parallel = by_rows;
  return s;
}

struct Traffic {
  int count = 0;
  std::int64_t bytes = 0;  // of the whole buffers
  bool operator==(const Traffic&) const = default;
};

/// Collectives of a role on the stream "layer", by kind, in calls of the given phase and layer.
std::map<OpKind, Traffic> traffic(const Program& program, Phase phase, int layer) {
  std::map<OpKind, Traffic> found;
  const Role& role = program.roles[0];
  for (const Op& op : role.ops) {
    if (op.stream != Stream::Layer || op.phase != phase || op.layer != layer) continue;
    CHECK(program.group(op.group()).name == "tp");
    Traffic& t = found[op.kind];
    ++t.count;
    t.bytes += payload_bytes(program, role, op).v;
  }
  return found;
}

OpKind kind_of_sum(bool by_rows) { return by_rows ? OpKind::ReduceScatter : OpKind::AllReduce; }

}  // namespace

TEST_CASE("a block all-reduces its rows twice forward and twice backward under tensor parallelism",
          "[core][lower]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int tp : {2, 3, 4, 6, 12}) {
      INFO(tp);
      const Scenario s = divided(architecture, tp, false);
      const Program program = lowered(s);
      const std::int64_t rows = std::int64_t{s.microbatch_size()} * s.training.seq_len;
      const std::int64_t bytes = rows * s.model.hidden * 4;
      const std::map<OpKind, Traffic> twice = {{OpKind::AllReduce, {2, 2 * bytes}}};
      const std::map<OpKind, Traffic> once = {{OpKind::AllReduce, {1, bytes}}};
      const int head = static_cast<int>(s.model.layers) + 1;
      for (int block = 1; block < head; ++block) {
        CHECK(traffic(program, Phase::F, block) == twice);
        CHECK(traffic(program, Phase::B, block) == twice);
      }
      CHECK(traffic(program, Phase::F, 0) == once);  // rows of the embedding
      CHECK(traffic(program, Phase::B, 0).empty());
      // For every row each rank sends three numbers, never the logits.
      CHECK(traffic(program, Phase::F, head) ==
            std::map<OpKind, Traffic>{{OpKind::AllGather, {1, tp * rows * 3 * 4}}});
      CHECK(traffic(program, Phase::B, head) == once);
    }
  }
}

TEST_CASE("sequence parallelism turns every all-reduce into a reduce-scatter and an all-gather",
          "[core][lower]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int tp : {2, 4}) {
      const Scenario s = divided(architecture, tp, true);
      const Program program = lowered(s);
      const std::int64_t rows = std::int64_t{s.microbatch_size()} * s.training.seq_len;
      const std::int64_t bytes = rows * s.model.hidden * 4;
      const std::map<OpKind, Traffic> forward = {{OpKind::AllGather, {2, 2 * bytes}},
                                                 {OpKind::ReduceScatter, {2, 2 * bytes}}};
      // Backward gathers dy and, a second time, the inputs that were not kept.
      const std::map<OpKind, Traffic> backward = {{OpKind::AllGather, {4, 4 * bytes}},
                                                  {OpKind::ReduceScatter, {2, 2 * bytes}}};
      for (int block = 1; block <= s.model.layers; ++block) {
        CHECK(traffic(program, Phase::F, block) == forward);
        CHECK(traffic(program, Phase::B, block) == backward);
      }
      CHECK(traffic(program, Phase::F, 0) ==
            std::map<OpKind, Traffic>{{OpKind::ReduceScatter, {1, bytes}}});
      // Messages between stages are shares of the rows.
      for (const Buffer& buffer : program.roles[0].buffers) {
        if (buffer.kind == BufferKind::Boundary) CHECK(buffer.bytes.v == bytes / tp);
      }
    }
  }
}

TEST_CASE("the gradient of the weights does not wait for the sum of dx", "[core][lower]") {
  const Program program = lowered(divided(Architecture::Llama, 2, false));
  const Role& role = program.roles[0];
  int beside = 0;
  for (std::size_t i = 0; i + 1 < role.ops.size(); ++i) {
    const Op& sum = role.ops[i];
    if (sum.stream != Stream::Layer || sum.phase != Phase::B) continue;
    const Op& next = role.ops[i + 1];
    if (next.kind != OpKind::Call || next.layer != sum.layer) continue;
    for (const OpId earlier : role.after_of(next)) CHECK(role.op(earlier).stream != Stream::Layer);
    ++beside;
  }
  CHECK(beside == 2 * 4 + 1);  // two in each of four blocks, one in the head
}

TEST_CASE("a framework that sums up dx after the gradient of the weights lets all wait for it",
          "[core][lower]") {
  for (const bool by_rows : {false, true}) {
    Scenario s = divided(Architecture::Gpt2, 2, by_rows);
    s.activation_checkpoint.mode = ActivationCheckpoint::Full;
    s.cluster.framework.overlaps_weight_gradients = false;
    s.cluster.framework.recomputes_all = true;
    const Program program = lowered(s);
    CHECK(verify(program).empty());
    const Role& role = program.roles[0];
    int sums = 0;
    for (std::size_t i = 0; i + 1 < role.ops.size(); ++i) {
      const Op& sum = role.ops[i];
      if (sum.stream != Stream::Layer || sum.phase != Phase::B) continue;
      if (sum.kind != kind_of_sum(by_rows)) continue;
      const auto waits = role.after_of(role.ops[i + 1]);
      CHECK(std::any_of(waits.begin(), waits.end(),
                        [&](OpId op) { return op.v == static_cast<std::int32_t>(i); }));
      ++sums;
    }
    CHECK(sums == 2 * 4 + 1);  // two in each of four blocks, one in the head
    // The second sum of a block's forward pass is computed again, too.
    CHECK(traffic(program, Phase::R, 1)[kind_of_sum(by_rows)].count == 2);
  }
}

TEST_CASE("each element of a gradient counts once in the norm, and is summed where it is partial",
          "[core][lower]") {
  // Units that are not split have equal gradients on all tensor parallel ranks; with sequence
  // parallelism, partial sums.
  for (const bool by_rows : {false, true}) {
    const Program program = lowered(divided(Architecture::Llama, 2, by_rows, {2}));
    const Role& role = program.roles[0];
    std::set<std::string> reduced_over;
    int over_tp = 0;
    for (const Op& op : role.ops) {
      if (op.kind != OpKind::AllReduce || op.stream != Stream::Reduce) continue;
      if (op.phase == Phase::O) {
        over_tp += program.group(op.group()).name == "tp";
      } else {
        reduced_over.insert(program.group(op.group()).name);
      }
    }
    CHECK(over_tp == 1);
    CHECK(reduced_over ==
          (by_rows ? std::set<std::string>{"dp", "dp_replicate+tp"} : std::set<std::string>{"dp"}));
  }
}

TEST_CASE("a rank holds its part of every divided parameter, and all of the others",
          "[core][lower]") {
  const Program whole = lowered(divided(Architecture::Gpt2, 1, false));
  const auto held = [](const Program& program) {
    std::int64_t elements = 0;
    for (const Unit& unit : program.roles[0].units) elements += unit.elements;
    return elements;
  };
  std::int64_t replicated = 0;  // norms, biases of row-parallel layers, positions
  for (const Parameter& p : lowered(divided(Architecture::Gpt2, 2, false)).parameters) {
    if (p.split_dim < 0) replicated += p.elements();
  }
  const std::int64_t c = 24, blocks = 4;
  CHECK(replicated == blocks * 6 * c + 2 * c + 16 * c);
  for (const int tp : {2, 3, 4}) {
    const Program program = lowered(divided(Architecture::Gpt2, tp, tp != 3));
    const std::int64_t padding = (round_up(61, tp) - 61) * c;  // of the vocabulary
    CHECK(tp * (held(program) - replicated) == held(whole) - replicated + padding);
    CHECK(verify(program).empty());
  }
}

TEST_CASE("one prefetch gathers all units of the next layer", "[core][lower]") {
  Scenario s = divided(Architecture::Llama, 2, true, {1, 2});
  s.model.layers = 8;
  const Program program = lowered(s);
  const Role& role = program.roles[0];
  std::map<int, int> gathers;  // by layer, in the whole step
  for (const Op& op : role.ops)
    gathers[op.layer] += op.kind == OpKind::AllGather && op.stream == Stream::Gather;
  // Two units, forward and backward; the last block keeps its copy from one to the other.
  for (int block = 1; block < 8; ++block) CHECK(gathers[block] == 4);
  CHECK(gathers[8] == 2);
}

TEST_CASE("ranks that share key and value heads hold them whole, and sum their gradients",
          "[core][lower]") {
  for (const int kv_heads : {1, 2}) {
    for (const bool by_rows : {false, true}) {
      INFO(kv_heads);
      Scenario s = divided(Architecture::Llama, 4, by_rows, {2});
      s.model.kv_heads = kv_heads;
      const Program program = lowered(s);
      CHECK(verify(program).empty());
      CHECK(program.mesh.size_of("tp") == kv_heads);
      CHECK(program.mesh.size_of("kv_replicate") == 4 / kv_heads);
      const Role& role = program.roles[0];
      // A rank holds the projections of one key head and one value head, and a quarter of the
      // queries.
      const std::int64_t head = s.model.head_dim * s.model.hidden;
      std::int64_t keys = 0, queries = 0;
      for (const Unit& unit : role.units) {
        for (const UnitParameter& part : unit.parameters) {
          if (!program.parameters[part.parameter].name.ends_with("attn.wqkv")) continue;
          (part.sections.first == 0 ? queries : keys) += held_elements(program, unit, part);
          CHECK((part.sections == SectionRange{0, 1} || part.sections == SectionRange{1, 3}));
        }
      }
      CHECK(keys == s.model.layers * 2 * head);
      CHECK(queries == s.model.layers * s.model.heads / 4 * head);
      // Replicas of other data and ranks with the same heads are one group.
      int sums = 0;
      for (const Op& op : role.ops) {
        if (op.kind != OpKind::AllReduce || op.phase == Phase::O) continue;
        const Group& group = program.group(op.group());
        if (group.name != "dp_replicate+kv_replicate") continue;
        CHECK(group_size(program.mesh, group) == 2 * 4 / kv_heads);
        ++sums;
      }
      CHECK(sums > 0);
    }
  }
}
