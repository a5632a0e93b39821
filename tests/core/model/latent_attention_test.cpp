// Latent attention in blocks, and blocks without experts before those with them.
#include <cmath>
#include <set>
#include <string>

#include "core/model/model.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// The sizes of DeepSeek-V2-Lite (config.json of deepseek-ai/DeepSeek-V2-Lite).
ModelSpec deepseek_v2_lite() {
  ModelSpec spec;
  spec.architecture = Architecture::Llama;
  spec.layers = 27;
  spec.hidden = 2048;
  spec.heads = spec.kv_heads = 16;
  spec.latent = {512, 0, 128, 64, 128};
  spec.head_dim = 192;
  spec.ffn_hidden = 1408;
  spec.vocab = 102400;
  spec.experts = 64;
  spec.experts_per_token = 6;
  spec.dense_layers = 1;
  spec.dense_ffn_hidden = 10944;
  spec.shared_expert_hidden = 2 * 1408;
  return spec;
}

LayerShape shape(std::int64_t batch, std::int64_t seq, int tensor_parallel = 1) {
  LayerShape s;
  s.batch = batch;
  s.seq = seq;
  s.tensor_parallel = tensor_parallel;
  s.sequence_parallel = tensor_parallel > 1;
  return s;
}

const LayerKind& block(const Model& model, const std::string& name) {
  for (const Layer& layer : model.layers) {
    if (layer.name == name) return model.kinds[layer.kind];
  }
  FAIL("no layer " << name);
  return model.kinds[0];
}

/// The communications of the steps, each as "kind axis elements".
std::multiset<std::string> communications(const std::vector<LayerStep>& steps) {
  std::multiset<std::string> found;
  for (const LayerStep& step : steps) {
    if (const auto* c = std::get_if<Communication>(&step)) {
      const std::int64_t elements = std::max(c->in.bytes.v, c->out.bytes.v) / 4;
      found.insert(std::string(to_string(c->kind)) + " " + c->axis + " " +
                   std::to_string(elements));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("DeepSeek-V2-Lite has 15,706,484,224 parameters, of which a token meets 2.7 B",
          "[core][model]") {
  const ModelSpec spec = deepseek_v2_lite();
  const Model model = build_transformer(spec, shape(1, 1));
  CHECK(model.parameter_count() == 15'706'484'224);
  // 64 experts of 3 × 2048 × 1408 in each of 26 blocks, of which 58 are not chosen.
  CHECK(model.active_parameter_count(spec) == 15'706'484'224 - 26LL * 58 * 3 * 2048 * 1408);
}

TEST_CASE("latent attention's flops are those of its projections and of unpadded scores",
          "[core][model]") {
  ModelSpec spec = deepseek_v2_lite();
  spec.experts = spec.dense_layers = spec.dense_ffn_hidden = spec.shared_expert_hidden = 0;
  spec.layers = 1;
  for (const std::int64_t queries : {0, 768}) {
    spec.latent.q_lora_rank = queries;
    const std::int64_t t = 4096;
    const Model model = build_transformer(spec, shape(1, t));
    const double q = queries > 0 ? 2048. * 768 + 768. * 16 * 192 : 2048. * 16 * 192;
    const double keys = 2048. * (512 + 64) + 512. * 16 * (128 + 128);
    const double matrices = q + keys + 16 * 128 * 2048. + 3 * 2048. * 1408;
    // Of (T + 1) / 2 scores a row and head: 192 multiply-adds, then 128 with values.
    const double scores = 16. * 2 * (192 + 128) * (t + 1) / 2;
    const double expected = static_cast<double>(t) * (2 * matrices + scores);
    const double flops = model.layers[1].forward_flops.v;
    CHECK(flops > expected);  // norms, rotations and the activation are beside it
    CHECK(flops < 1.01 * expected);
  }
}

TEST_CASE("ranks of tensor parallelism communicate latents, not what is made of them",
          "[core][model]") {
  ModelSpec spec = deepseek_v2_lite();
  spec.layers = 1;
  spec.experts = spec.dense_layers = spec.dense_ffn_hidden = spec.shared_expert_hidden = 0;
  spec.latent.q_lora_rank = 768;
  const std::int64_t rows = 256;
  const Model model = build_transformer(spec, shape(1, rows, 4));
  const auto of = [&](const char* kind, std::int64_t width) {
    return std::string(kind) + " tp " + std::to_string(rows * width);
  };
  const LayerKind& functions = block(model, "blocks.0");
  // Queries, keys with values and the rotated key; then the hidden state for the network.
  CHECK(communications(functions.functions.forward()) ==
        std::multiset<std::string>{of("all_gather", 768), of("all_gather", 512),
                                   of("all_gather", 64), of("reduce_scatter", 2048),
                                   of("all_gather", 2048), of("reduce_scatter", 2048)});
  const auto backward = communications(functions.functions.backward({}));
  for (const std::int64_t width : {768, 512, 64}) {
    INFO(width);
    CHECK(backward.count(of("reduce_scatter", width)) == 1);
  }
  CHECK(backward.count(of("reduce_scatter", 2048)) == 1);  // of the network alone
}

TEST_CASE("the first blocks are dense, with a width of their own", "[core][model]") {
  ModelSpec spec = deepseek_v2_lite();
  spec.layers = 6;
  spec.dense_layers = 2;
  const Model model = build_transformer(spec, shape(1, 64));
  for (int i = 0; i < 6; ++i) {
    CHECK(spec.has_experts(i) == (i >= 2));
    CHECK((model.layers[i + 1].kind == model.layers[1].kind) == (i < 2));
  }
  const UnitLayout& first = model.units[model.layers[1].units.front().unit];
  std::int64_t network = 0;
  for (const Parameter& parameter : first.parameters) {
    if (parameter.name == "blocks.0.mlp.w13") network = parameter.shape[0];
  }
  CHECK(network == 2 * 10944);
  CHECK(forward_flops(spec, shape(1, 64)).v == model.forward_flops().v);
  spec.expert_period = 2;
  for (int i = 0; i < 6; ++i) CHECK(spec.has_experts(i) == (i == 3 || i == 5));
}
