// Tests what adapters and frozen parameters cost: memory and communication against closed forms.
#include <algorithm>
#include <map>

#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;
using test::lowered;

namespace {

constexpr int kRank = 2;

Scenario adapted(Architecture architecture, const Layout& layout) {
  Scenario s = test::tiny_scenario(architecture, layout);
  s.model.lora.rank = kRank;
  return s;
}

/// Rank times inputs and outputs of every adapted layer (Hu et al. 2021, section 4.2).
double adapter_elements(const ModelSpec& m, bool attention = true, bool network = true) {
  const auto qkv = static_cast<double>((m.heads + 2 * m.kv_heads) * m.head_dim);
  const auto heads = static_cast<double>(m.heads * m.head_dim), c = static_cast<double>(m.hidden);
  const auto f = static_cast<double>(m.ffn_hidden);
  const double up = m.architecture == Architecture::Gpt2 ? f : 2 * f;
  return kRank * static_cast<double>(m.layers) *
         ((attention ? c + qkv + heads + c : 0) + (network ? c + up + f + c : 0));
}

/// The bytes of a kind of buffers that live for the whole step, and of gradients.
double bytes_of(const Program& program, BufferKind kind) {
  double bytes = 0;
  for (const Buffer& buffer : program.roles[0].buffers) {
    const bool counts = kind == BufferKind::Grad ? !buffer.is_view() : buffer.persistent();
    if (buffer.kind == kind && counts) bytes += static_cast<double>(buffer.bytes.v);
  }
  return bytes;
}

/// What collectives of a kind carry on a stream, in bytes.
double carried(const Program& program, OpKind kind, Stream stream) {
  double bytes = 0;
  for (const Op& op : program.roles[0].ops) {
    if (op.kind != kind || op.stream != stream || op.phase == Phase::O) continue;
    bytes += static_cast<double>(payload_bytes(program, program.roles[0], op).v);
  }
  return bytes;
}

double frozen_elements(const Program& program) {
  double elements = 0;
  for (const Unit& unit : program.roles[0].units) {
    if (unit.frozen) elements += static_cast<double>(unit.elements);
  }
  return elements;
}

}  // namespace

TEST_CASE("with adapters, only these have gradients, moments and masters", "[core][lower]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    Scenario s = adapted(architecture, {});
    s.training.mixed_precision_param = PartDType::BF16;
    const double all = adapter_elements(s.model), base = frozen_elements(lowered(s));
    const Program program = lowered(s);
    CHECK(bytes_of(program, BufferKind::Grad) == 4 * all);
    CHECK(bytes_of(program, BufferKind::Optimizer) == 8 * all);
    CHECK(bytes_of(program, BufferKind::Master) == 4 * all);
    CHECK(bytes_of(program, BufferKind::Param) == 2 * (all + base));
    Scenario full = s;
    full.model.lora = {};
    CHECK(bytes_of(lowered(full), BufferKind::Param) == 2 * base);
    s.model.lora.target_modules = {"linear_qkv", "linear_proj"};
    CHECK(bytes_of(lowered(s), BufferKind::Grad) == 4 * adapter_elements(s.model, true, false));
  }
}

TEST_CASE("what adapters read after dropout is kept in the place of their inputs, if these are",
          "[core][lower]") {
  for (const bool sequence : {false, true}) {
    INFO("sequence parallel: " << sequence);
    Scenario s = test::tiny_scenario(Architecture::Llama, {}, 4);  // tensors of whole 256 bytes
    s.model.lora.rank = kRank;
    s.strategy.tensor_parallel_degree = 2;
    s.strategy.enable_sequence_parallel = sequence;
    const auto kept = [](const Scenario& scenario) {
      std::int64_t bytes = 0;
      const Program program = lowered(scenario);
      for (const Buffer& buffer : program.roles[0].buffers) {
        if (program.names[buffer.name] == "saved") bytes += buffer.bytes.v;
      }
      return bytes;
    };
    const std::int64_t without = kept(s);
    s.model.lora.dropout = 0.25;
    const ModelSpec& m = s.model;
    const std::int64_t rows = s.microbatch_size() * s.training.seq_len;
    // Attention needs its result for its own gradient, too. Rows that are gathered again are
    // dropped again.
    CHECK(kept(s) - without == m.layers * rows * m.heads * m.head_dim / 2 * 4);
  }
}

TEST_CASE("replicas sum the gradients of adapters alone", "[core][lower]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const Scenario s = adapted(architecture, {3});
    const Program program = lowered(s);
    CHECK(carried(program, OpKind::AllReduce, Stream::Reduce) == 4 * adapter_elements(s.model));
  }
}

TEST_CASE("shards of adapters are scattered, and those of the base gathered alone",
          "[core][lower]") {
  Scenario s = adapted(Architecture::Llama, {1, 2});
  for (const int stage : {1, 2, 3}) {
    s.strategy.zero_stage = stage;
    const Program program = lowered(s);
    const double all = adapter_elements(s.model);
    CHECK(carried(program, OpKind::ReduceScatter, Stream::Reduce) == 4 * all);
    // Blocks are gathered forward and backward, but for the last, between whose passes no other
    // is used. With stages 1 and 2 parameters are whole, and only what is updated is gathered.
    double gathered = 0;
    for (const Unit& unit : program.roles[0].units) {
      CHECK((unit.frozen || unit.shard_group.valid()));
      const bool twice = unit.name.starts_with("blocks.") && !unit.name.starts_with("blocks.3");
      if (stage == 3) gathered += 4 * (twice ? 2.0 : 1.0) * static_cast<double>(unit.elements);
    }
    CHECK(carried(program, OpKind::AllGather, Stream::Gather) == gathered);
    double updated = 0;
    for (const Op& op : program.roles[0].ops) {
      if (op.kind != OpKind::AllGather || op.phase != Phase::O || op.stream != Stream::Gather)
        continue;
      updated += static_cast<double>(payload_bytes(program, program.roles[0], op).v);
    }
    CHECK(updated == (stage < 3 ? 4 * all : 0));
  }
}

TEST_CASE("adapters of divided layers communicate nothing but sums of what is whole, once a step",
          "[core][lower]") {
  for (const bool sequence : {false, true}) {
    INFO("sequence parallelism " << sequence);
    Scenario s = adapted(Architecture::Llama, {.accumulation = 3});
    s.strategy.tensor_parallel_degree = 2;
    s.strategy.enable_sequence_parallel = sequence;
    Scenario full = s;
    full.model.lora = {};
    const Program with = lowered(s), without = lowered(full);
    for (const OpKind kind : {OpKind::AllReduce, OpKind::AllGather, OpKind::ReduceScatter}) {
      INFO(to_string(kind));
      CHECK(carried(with, kind, Stream::Layer) <= carried(without, kind, Stream::Layer));
    }
    if (!sequence) {
      CHECK(carried(with, OpKind::AllReduce, Stream::Layer) ==
            carried(without, OpKind::AllReduce, Stream::Layer));
    }
    // A of the layers whose outputs are divided, B of those whose inputs are.
    const double whole = kRank * 4.0 * static_cast<double>(s.model.layers * s.model.hidden);
    CHECK(carried(with, OpKind::AllReduce, Stream::Reduce) == 4 * whole);
  }
}

TEST_CASE("the model's flops leave out the gradients of frozen weights", "[core][lower]") {
  const Scenario s = adapted(Architecture::Llama, {});
  Scenario full = s;
  full.model.lora = {};
  const ModelSpec& m = s.model;
  const auto tokens = static_cast<double>(s.tokens_per_step());
  const double matrices =  // of blocks and output layer: the embedding is no product
      static_cast<double>(m.layers) *
          static_cast<double>(m.hidden * (2 * m.heads + 2 * m.kv_heads) * m.head_dim +
                              3 * m.hidden * m.ffn_hidden) +
      static_cast<double>(m.vocab * m.hidden);
  const double adapters = adapter_elements(m);
  const double scaling = static_cast<double>(m.layers) * 4 * kRank;  // one flop of each z
  const double expected =
      lowered(full).model_flops_per_step.v + tokens * (6 * adapters + 3 * scaling - 2 * matrices);
  CHECK(lowered(s).model_flops_per_step.v == Approx(expected).epsilon(1e-12));
  for (const int tensor : {2, 4}) {
    Scenario divided = s;
    divided.strategy.tensor_parallel_degree = tensor;
    CHECK(lowered(divided).model_flops_per_step.v == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("frozen parameters have neither gradients nor states, and nothing is saved for them",
          "[core][lower]") {
  Scenario s = test::tiny_scenario(Architecture::Gpt2, {2});
  const Program all = lowered(s);
  s.model.frozen = {"blocks.*.mlp.*"};
  const Program program = lowered(s);
  const ModelSpec& m = s.model;
  const auto frozen =
      static_cast<double>(m.layers * (2 * m.hidden * m.ffn_hidden + m.ffn_hidden + m.hidden));
  CHECK(frozen_elements(program) == frozen);
  for (const auto& [kind, bytes] :
       {std::pair(BufferKind::Grad, 4.0), std::pair(BufferKind::Optimizer, 8.0)}) {
    CHECK(bytes_of(all, kind) - bytes_of(program, kind) == bytes * frozen);
  }
  CHECK(carried(all, OpKind::AllReduce, Stream::Reduce) -
            carried(program, OpKind::AllReduce, Stream::Reduce) ==
        4 * frozen);
  const auto saved = [](const Program& p) {
    for (const Buffer& b : p.roles[0].buffers) {
      if (b.layer == 1 && b.name >= 0 && p.names[b.name] == "saved") return b.bytes.v;
    }
    return std::int64_t{0};
  };
  // The input of the network, and of its second layer, are read by their weights' gradients alone.
  const std::int64_t rows = s.training.seq_len * s.microbatch_size();
  CHECK(saved(all) - saved(program) == 4 * rows * (m.hidden + m.ffn_hidden));
}

TEST_CASE("patterns that freeze nothing, or everything, are refused", "[core][lower]") {
  Scenario s = test::tiny_scenario(Architecture::Gpt2, {});
  s.model.frozen = {"embed.wte", "blocks.1.attn.wqk"};
  const auto unknown = lower(s);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().kind == ErrorKind::InvalidSpec);
  CHECK(unknown.error().message ==
        "model.frozen: the model has no parameter 'blocks.1.attn.wqk'; did you mean "
        "'blocks.1.attn.wqkv'?");
  s.model.frozen = {"*"};
  const auto nothing = lower(s);
  REQUIRE_FALSE(nothing);
  CHECK(nothing.error().message ==
        "model.frozen: all parameters are frozen, so there is nothing to train");
}

TEST_CASE("blocks that train other parameters are of kinds of their own", "[core][lower]") {
  Scenario s = test::tiny_scenario(Architecture::Llama, {});
  s.model.frozen = {"blocks.0.*", "blocks.2.attn.*"};
  const Program program = lowered(s);
  const auto has = [&](const char* name) {
    return std::any_of(program.functions.begin(), program.functions.end(),
                       [&](const Function& f) { return f.name == name; });
  };
  CHECK(has("block.B"));    // of the first block, and it computes no gradient of weights
  CHECK(has("block_2.B"));  // of the second and the last
  CHECK(has("block_3.B"));
  CHECK_FALSE(has("block_4.B"));
}
