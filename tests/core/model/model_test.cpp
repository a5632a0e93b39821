#include "core/model/model.hpp"

#include <algorithm>
#include <set>

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

ModelSpec gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelSpec spec;
  spec.architecture = Architecture::Gpt2;
  spec.layers = layers;
  spec.hidden = hidden;
  spec.heads = spec.kv_heads = heads;
  spec.head_dim = hidden / heads;
  spec.ffn_hidden = 4 * hidden;
  spec.vocab = 50257;
  spec.max_seq_len = 1024;
  spec.tied_embeddings = true;
  return spec;
}

ModelSpec llama2_7b() {
  ModelSpec spec;
  spec.architecture = Architecture::Llama;
  spec.layers = 32;
  spec.hidden = 4096;
  spec.heads = spec.kv_heads = 32;
  spec.head_dim = 128;
  spec.ffn_hidden = 11008;
  spec.vocab = 32000;
  return spec;
}

LayerShape shape(std::int64_t batch, std::int64_t seq) {
  LayerShape s;
  s.batch = batch;
  s.seq = seq;
  return s;
}

/// The only function of a part that does not communicate.
Function only(const std::vector<LayerStep>& steps) {
  if (steps.empty()) return {};
  REQUIRE(steps.size() == 1);
  return std::get<Function>(steps.front());
}

const Formal* find(const Function& function, const std::string& name) {
  for (const Formal& formal : function.formals) {
    if (formal.name == name) return &formal;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("GPT-2 124M has 124,439,808 parameters", "[core][model]") {
  CHECK(build_transformer(gpt2(12, 768, 12), shape(1, 1)).parameter_count() == 124'439'808);
}

TEST_CASE("GPT-2 1.5B has 1,557,611,200 parameters", "[core][model]") {
  CHECK(build_transformer(gpt2(48, 1600, 25), shape(1, 1)).parameter_count() == 1'557'611'200);
}

TEST_CASE("Llama-2 7B has 6,738,415,616 parameters", "[core][model]") {
  CHECK(build_transformer(llama2_7b(), shape(1, 1)).parameter_count() == 6'738'415'616);
}

TEST_CASE("forward flops are 2 per matrix weight and token plus causal attention",
          "[core][model]") {
  // Per token: 2 × (weights of the linear layers and the output layer), and per layer and head
  // 4·D flops for each of the (T+1)/2 scores that a causal row has on average. Norms, GELU and the
  // loss add less than a percent on top.
  const std::int64_t t = 64;
  const Model model = build_transformer(gpt2(12, 768, 12), shape(4, t));
  const double weights = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  const double attention = 12.0 * 4 * 768 * (t + 1) / 2;
  const double expected = 4 * t * (2 * weights + attention);
  CHECK(model.forward_flops().v > expected);
  CHECK(model.forward_flops().v < 1.01 * expected);
}

TEST_CASE("forward flops without every block are those of all blocks", "[core][model]") {
  ModelSpec experts = llama2_7b();
  experts.experts = 8;
  experts.expert_period = 3;
  for (const ModelSpec& spec : {gpt2(12, 768, 12), llama2_7b(), experts}) {
    for (const char* option : {"op", "2", "3"}) {
      LayerShape s = shape(16, 2048);
      s.checkpoint = {ActivationCheckpoint::Selective, option, {}};
      INFO(spec.layers << " blocks, recomputation " << option);
      CHECK(forward_flops(spec, s).v == build_layers(spec, s).forward_flops().v);
    }
  }
}

TEST_CASE("B runs the kernels of I and of W, each once", "[core][model]") {
  for (const ModelSpec& spec : {gpt2(2, 64, 4), llama2_7b()}) {
    const Model model = build_transformer(spec, shape(2, 8));
    for (const LayerKind& kind : model.kinds) {
      const Function both = only(kind.functions.backward({}));
      const Function input = only(kind.functions.backward(Part::InputGrad, {}));
      const Function weight = only(kind.functions.backward(Part::WeightGrad, {}));
      CHECK(both.kernels.size() == input.kernels.size() + weight.kernels.size());
      CHECK(work(both).flops.v == work(input).flops.v + work(weight).flops.v);
    }
  }
}

TEST_CASE("what a block saves is what backward reads of it", "[core][model]") {
  // GPT-2, in units of rows × hidden: two norm outputs, qkv (3), attention, first residual, and
  // the MLP before and after GELU (4 + 4), beside the small statistics.
  const std::int64_t rows = 2 * 256;
  const std::int64_t c = 256;
  const Model model = build_transformer(gpt2(2, c, 4), shape(2, 256));
  const Function forward = only(model.kinds[1].functions.forward());
  const std::int64_t statistics = 2 * 2 * rows + rows * 4;  // mean and rstd twice, lse
  CHECK(find(forward, "saved")->bytes.v == 4 * (15 * rows * c + statistics));
  CHECK(find(only(model.kinds[1].functions.backward({})), "saved")->bytes ==
        find(forward, "saved")->bytes);
}

TEST_CASE("a split backward hands the output gradients of the linear layers from I to W",
          "[core][model]") {
  const Model model = build_transformer(gpt2(2, 256, 4), shape(2, 256));
  const FunctionBuilder& block = model.kinds[1].functions;
  const Function input = only(block.backward(Part::InputGrad, {}));
  const Function weight = only(block.backward(Part::WeightGrad, {}));
  REQUIRE(find(input, "stash") != nullptr);
  REQUIRE(find(weight, "stash") != nullptr);
  CHECK(find(input, "stash")->access == Access::Write);
  CHECK(find(weight, "stash")->access == Access::Read);
  CHECK(find(weight, "dx") == nullptr);
  CHECK(find(input, "gw") == nullptr);
  CHECK(find(only(block.backward({})), "stash") == nullptr);
}

TEST_CASE("an accumulating backward reads the gradient it adds to", "[core][model]") {
  const Model model = build_transformer(gpt2(2, 64, 4), shape(1, 8));
  const FunctionBuilder& block = model.kinds[1].functions;
  CHECK(find(only(block.backward({})), "gw")->access == Access::Write);
  CHECK(find(only(block.backward({"gw"})), "gw")->access == Access::ReadWrite);
  CHECK(only(block.backward({"gw"})).name == "block.B+gw");
}

TEST_CASE("a fresh backward writes every element of its gradient, padding included",
          "[core][model]") {
  LayerShape s = shape(1, 8);
  s.shard_count = 7;  // divides nothing here
  for (const ModelSpec& spec : {gpt2(2, 60, 5), llama2_7b()}) {
    const Model model = build_transformer(spec, s);
    for (const LayerKind& kind : model.kinds) {
      const Function backward = only(kind.functions.backward({}));
      for (std::size_t f = 0; f < backward.formals.size(); ++f) {
        if (backward.formals[f].name.rfind("gw", 0) != 0) continue;
        std::set<std::pair<std::int64_t, std::int64_t>> written;
        for (const Kernel& kernel : backward.kernels) {
          for (std::size_t o = 0; o < kernel.out.size(); ++o) {
            if (kernel.out[o].formal != static_cast<std::int16_t>(f)) continue;
            written.emplace(kernel.out[o].offset,
                            kernel.out[o].offset + 4 * output_elements(kernel, o));
          }
        }
        std::int64_t covered = 0;
        for (const auto& [begin, end] : written) {
          CHECK(begin == covered);
          covered = end;
        }
        CHECK(covered == backward.formals[f].bytes.v);
        CHECK(covered % 7 == 0);
      }
    }
  }
}

TEST_CASE("a synthetic model has one kind of stage per set of times", "[core][model]") {
  CostsSpec costs;
  costs.forward = {10};
  costs.backward_input = {12};
  costs.backward_weight = {8};
  CHECK(build_synthetic(costs, 4).kinds.size() == 3);  // first, middle, last
  costs.forward = {10, 10, 11, 10};
  CHECK(build_synthetic(costs, 4).kinds.size() == 4);
  CHECK(build_synthetic(costs, 4).layers[2].balance == 31);
}

TEST_CASE("a loss in chunks has room for the logits of one and costs as much", "[core][model]") {
  const ModelSpec spec = llama2_7b();
  const auto head = [&](int chunks) {
    LayerShape s = shape(2, 64);
    s.loss_chunks = chunks;
    s.logit_bytes = 4;
    return build_transformer(spec, s);
  };
  const auto formal_of = [](const Function& function, const std::string& name) {
    const auto found = std::find_if(function.formals.begin(), function.formals.end(),
                                    [&](const Formal& f) { return f.name == name; });
    return found == function.formals.end() ? 0 : found->bytes.v;
  };
  const Model whole = head(1), parts = head(8);
  const std::int64_t rows = 2 * 64, hidden = spec.hidden, vocab = spec.vocab;
  const auto functions = [](const Model& m) -> const FunctionBuilder& {
    return m.kinds.back().functions;
  };
  // At once: the norm's result, a sum of squares for each row, logits in float32, and 4 bytes
  // beside each. In chunks only the first two are kept; the gradient of the norm's result and an
  // eighth of the others are where B works.
  const std::int64_t kept = rows * (hidden + 1) * 4;
  CHECK(formal_of(only(functions(whole).forward()), "saved") == kept + rows * vocab * 8);
  CHECK(formal_of(only(functions(parts).forward()), "saved") == kept);
  CHECK(formal_of(only(functions(parts).backward({})), "ws") ==
        rows * hidden * 4 + rows / 8 * vocab * 8);
  CHECK(parts.forward_flops().v == whole.forward_flops().v);
  const auto all = [&](const Model& m) {
    return work(functions(m).forward()).flops.v + work(functions(m).backward({})).flops.v;
  };
  CHECK(all(parts) == Approx(all(whole)));
}
