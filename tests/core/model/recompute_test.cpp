// Tests recomputation: which kernels R repeats, and what F keeps.
#include <algorithm>

#include "core/model/model.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

ModelSpec spec(Architecture architecture) {
  ModelSpec m;
  m.architecture = architecture;
  m.layers = 5;
  m.hidden = 32;
  m.heads = m.kv_heads = 4;
  m.head_dim = 8;
  m.ffn_hidden = 128;
  m.vocab = 61;
  m.max_seq_len = 16;
  return m;
}

Model model(Architecture architecture, ActivationCheckpoint mode, const std::string& option = "2",
            bool to_end = false) {
  LayerShape shape;
  shape.recomputes_all = to_end;
  shape.batch = 2;
  shape.seq = 8;
  shape.checkpoint = {mode, option, {}};
  return build_transformer(spec(architecture), shape);
}

const LayerKind& kind_of(const Model& m, const std::string& layer) {
  const auto found = std::find_if(m.layers.begin(), m.layers.end(),
                                  [&](const Layer& l) { return l.name == layer; });
  REQUIRE(found != m.layers.end());
  return m.kinds[found->kind];
}

std::vector<std::string> kernels(const std::vector<LayerStep>& steps) {
  std::vector<std::string> names;
  for (const LayerStep& step : steps) {
    for (const Kernel& kernel : std::get<Function>(step).kernels) {
      names.emplace_back(info(kernel.kind).name);
    }
  }
  return names;
}

std::int64_t formal_bytes(const std::vector<LayerStep>& steps, const std::string& name) {
  for (const LayerStep& step : steps) {
    for (const Formal& formal : std::get<Function>(step).formals) {
      if (formal.name == name) return formal.bytes.v;
    }
  }
  return 0;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a block that keeps everything repeats nothing", "[core][model]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const Model m = model(architecture, ActivationCheckpoint::None);
    for (const LayerKind& kind : m.kinds) CHECK(kind.functions.recomputation().empty());
  }
}

TEST_CASE("full recomputation repeats all of forward but its last product", "[core][model]") {
  const Model gpt2 = model(Architecture::Gpt2, ActivationCheckpoint::Full);
  const FunctionBuilder& block = kind_of(gpt2, "blocks.0").functions;
  CHECK(kernels(block.recomputation()) == Names{"layer_norm_forward", "gemm", "attention_forward",
                                                "gemm", "layer_norm_forward", "gemm",
                                                "gelu_forward"});
  CHECK(formal_bytes(block.forward(), "saved") == 0);
  // What F would have kept comes from R.
  const Model plain = model(Architecture::Gpt2, ActivationCheckpoint::None);
  CHECK(formal_bytes(block.recomputation(), "recomputed") ==
        formal_bytes(kind_of(plain, "blocks.0").functions.forward(), "saved"));
  const Model llama = model(Architecture::Llama, ActivationCheckpoint::Full);
  CHECK(kernels(kind_of(llama, "blocks.0").functions.recomputation()) ==
        Names{"rms_norm_forward", "gemm", "rope", "attention_forward", "gemm", "rms_norm_forward",
              "gemm", "swiglu_forward"});
  CHECK(kind_of(llama, "head").functions.recomputation().empty());
}

TEST_CASE("a block that is recomputed to its end repeats every kernel of forward",
          "[core][model]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const Model m = model(architecture, ActivationCheckpoint::Full, "2", true);
    const FunctionBuilder& block = kind_of(m, "blocks.0").functions;
    CHECK(kernels(block.recomputation()) == kernels(block.forward()));
    // Its result is nobody's: it lies in scratch memory.
    CHECK(formal_bytes(block.recomputation(), "y") == 0);
    const Model early = model(architecture, ActivationCheckpoint::Full);
    CHECK(formal_bytes(block.recomputation(), "recomputed") ==
          formal_bytes(kind_of(early, "blocks.0").functions.recomputation(), "recomputed"));
  }
  const Model selective =
      model(Architecture::Gpt2, ActivationCheckpoint::Selective, "attention", true);
  CHECK(kernels(kind_of(selective, "blocks.0").functions.recomputation()) ==
        Names{"attention_forward"});
}

TEST_CASE("selective recomputation repeats what its option names and no product", "[core][model]") {
  const auto repeated = [](const std::string& option) {
    const Model m = model(Architecture::Gpt2, ActivationCheckpoint::Selective, option);
    return kernels(kind_of(m, "blocks.0").functions.recomputation());
  };
  CHECK(repeated("attention") == Names{"attention_forward"});
  CHECK(repeated("activation") == Names{"gelu_forward"});
  CHECK(repeated("norm") == Names{"layer_norm_forward", "layer_norm_forward"});
  CHECK(repeated("op") == Names{"layer_norm_forward", "layer_norm_forward", "gelu_forward"});
}

TEST_CASE("policies that are named together repeat what each of them does", "[core][model]") {
  const auto repeated = [](const std::string& option) {
    const Model m = model(Architecture::Gpt2, ActivationCheckpoint::Selective, option);
    return kernels(kind_of(m, "blocks.0").functions.recomputation());
  };
  CHECK(repeated("norm,activation") == repeated("op"));
  CHECK(repeated("core_attn") == repeated("attention"));
  CHECK(repeated("layernorm,core_attn") ==
        Names{"layer_norm_forward", "attention_forward", "layer_norm_forward"});
  CHECK(repeated("mlp") == Names{"gemm", "gelu_forward"});  // from the norm, which is kept
  CHECK(repeated("moe,moe_act,shared_experts").empty());    // it has no experts
}

TEST_CASE("a module that software calls again runs to its end, other results do not",
          "[core][model]") {
  const auto repeated = [](const std::string& option) {
    const Model m = model(Architecture::Gpt2, ActivationCheckpoint::Selective, option, true);
    return kernels(kind_of(m, "blocks.0").functions.recomputation());
  };
  CHECK(repeated("mlp") == Names{"gemm", "gelu_forward", "gemm"});
  CHECK(repeated("layernorm") == Names{"layer_norm_forward", "layer_norm_forward"});
}

TEST_CASE("torchtitan keeps attention and every second product of a dense block", "[core][model]") {
  // It multiplies for q, k, v, the output, w1, w3 and w2; the second, fourth and sixth are computed
  // again. What is one product here goes by its first.
  const Model m = model(Architecture::Llama, ActivationCheckpoint::Selective, "torchtitan");
  const FunctionBuilder& block = kind_of(m, "blocks.0").functions;
  CHECK(kernels(block.recomputation()) ==
        Names{"rms_norm_forward", "gemm", "rms_norm_forward", "swiglu_forward"});
  // Of 16 rows in float32: queries, keys and values, the result of attention and a number for each
  // of 4 heads, and gate and up. x is the block's own.
  const std::int64_t kept = 3 * 32 + 32 + 4 + 2 * 128;
  CHECK(formal_bytes(block.forward(), "saved") == 16 * 4 * kept);
}

TEST_CASE("the bytes that a block with experts keeps follow from its policy", "[core][model]") {
  ModelSpec m = spec(Architecture::Llama);
  m.experts = 4;
  m.experts_per_token = 2;
  m.capacity_factor = 0;
  m.heads = 8;
  m.kv_heads = 2;
  LayerShape shape;
  shape.batch = 2;
  shape.seq = 32;
  const auto saved = [&](const std::string& option) {
    LayerShape s = shape;
    if (!option.empty()) s.checkpoint = {ActivationCheckpoint::Selective, option, {}};
    const Model built = build_transformer(m, s);
    return formal_bytes(kind_of(built, "blocks.0").functions.forward(), "saved");
  };
  // Rows of 4 bytes an element; every row goes to 2 experts. What tells where is kept or not with
  // the experts: probabilities, gates, slots and sources of a row, and counts of 4 experts.
  const std::int64_t row = 64 * 4, qkv = (64 + 2 * 16) * row, attended = (64 + 8) * row,
                     norm = 33 * row, x1 = 32 * row;
  const std::int64_t routed = (4 + 2 + 2 + 2) * row + 256;  // counts are aligned to 256 bytes
  const std::int64_t experts = 2 * (32 + 256 + 128 + 32) * row + routed;
  const std::int64_t all = 2 * norm + qkv + attended + x1 + experts;
  CHECK(saved("") == all);
  CHECK(saved("layernorm") == all - 2 * norm);
  CHECK(saved("core_attn") == all - attended);
  CHECK(saved("moe_act") == all - 2 * 128 * row);
  CHECK(saved("moe") == all - experts);
  CHECK(saved("mlp") == all);
  CHECK(saved("torchtitan") == qkv + attended);
}

TEST_CASE("every k-th block is recomputed, counted from one", "[core][model]") {
  const Model m = model(Architecture::Llama, ActivationCheckpoint::Selective, "2");
  for (int i = 0; i < 5; ++i) {
    const auto steps = kind_of(m, "blocks." + std::to_string(i)).functions.recomputation();
    CHECK(steps.empty() == (i % 2 == 0));
  }
}

TEST_CASE("split backward gets recomputed tensors in I and in W", "[core][model]") {
  const Model m = model(Architecture::Llama, ActivationCheckpoint::Full);
  const FunctionBuilder& block = kind_of(m, "blocks.0").functions;
  const std::int64_t bytes = formal_bytes(block.recomputation(), "recomputed");
  CHECK(bytes > 0);
  CHECK(formal_bytes(block.backward(Part::InputGrad, {}), "recomputed") == bytes);
  CHECK(formal_bytes(block.backward(Part::WeightGrad, {}), "recomputed") == bytes);
  CHECK(formal_bytes(block.backward({}), "recomputed") == bytes);
}
