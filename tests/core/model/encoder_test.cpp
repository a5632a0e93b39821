// Encoders: what BERT has beside a decoder, in numbers that are published or follow from sizes.
#include <map>
#include <utility>
#include <vector>

#include "core/model/model.hpp"
#include "core/scenario/presets.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

LayerShape sequences(std::int64_t batch, std::int64_t seq) {
  LayerShape shape;
  shape.batch = batch;
  shape.seq = seq;
  return shape;
}

ModelSpec preset(const char* name) { return *find_model_preset(name); }

std::int64_t parameters_of(const ModelSpec& spec) {
  return build_layers(spec, sequences(1, 128)).parameter_count();
}

/// The tables and the norm of the embeddings, blocks, and the head for masked tokens, whose output
/// layer is the table of tokens.
std::int64_t bert_parameters(std::int64_t layers, std::int64_t c, std::int64_t vocab,
                             std::int64_t positions, std::int64_t types) {
  const std::int64_t block = 4 * (c * c + c) + 2 * 4 * c * c + 4 * c + c + 4 * c;
  return (vocab + positions + types) * c + 2 * c + layers * block + (c * c + c) + 2 * c + vocab;
}

std::map<KernelKind, int> count_kernels(const std::vector<LayerStep>& steps) {
  std::map<KernelKind, int> count;
  for (const LayerStep& step : steps) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    for (const Kernel& kernel : function->kernels) ++count[kernel.kind];
  }
  return count;
}

double attention_flops(const Model& model) {
  double flops = 0;
  for (const LayerStep& step : model.kinds[model.layers[1].kind].functions.forward()) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    for (const Kernel& kernel : function->kernels) {
      if (kernel.kind == KernelKind::AttentionForward) flops += work(kernel).flops.v;
    }
  }
  return flops;
}

}  // namespace

TEST_CASE("BERT and RoBERTa have the parameters of transformers' classes for masked tokens",
          "[core][model][encoder]") {
  // BertForMaskedLM of bert-base-uncased and bert-large-uncased. With the pooler and the head for
  // the next sentence, C^2 + C and 2 C + 2, BertForPreTraining has 110,106,428 and 336,226,108;
  // BertModel, without heads, 109,482,240 and 335,141,888.
  CHECK(parameters_of(preset("bert-base")) == 109'514'298);
  CHECK(parameters_of(preset("bert-large")) == 335'174'458);
  for (const auto& [name, pretraining] : {std::pair("bert-base", std::int64_t{110'106'428}),
                                          std::pair("bert-large", std::int64_t{336'226'108})}) {
    const ModelSpec spec = preset(name);
    const std::int64_t c = spec.hidden;
    CHECK(parameters_of(spec) + c * c + c + 2 * c + 2 == pretraining);
    CHECK(parameters_of(spec) == bert_parameters(spec.layers, c, 30522, 512, 2));
  }
  // RobertaForMaskedLM, less the two rows of positions that no token has.
  CHECK(parameters_of(preset("roberta-base")) == 124'697'433 - 2 * 768);
  CHECK(parameters_of(preset("roberta-large")) == 355'412'057 - 2 * 1024);
}

TEST_CASE("attention of an encoder has all scores, that of a decoder half of them and the diagonal",
          "[core][model][encoder]") {
  ModelSpec spec = preset("bert-base");
  constexpr double kScores = 3.0 * 12 * 512 * 512;  // of 3 sequences and 12 heads of 64
  CHECK(attention_flops(build_layers(spec, sequences(3, 512))) == 4 * 64 * kScores);
  spec.causal = true;
  CHECK(attention_flops(build_layers(spec, sequences(3, 512))) ==
        4 * 64 * 3.0 * 12 * 512 * 513 / 2);
}

TEST_CASE("a block with norms behind its sums has as many norms, and two sums of gradients",
          "[core][model][encoder]") {
  ModelSpec spec = preset("bert-tiny");
  const auto kernels = [&](bool post_norm, bool backward) {
    spec.norm_place = post_norm ? NormPlace::BehindSum : NormPlace::Before;
    const Model model = build_layers(spec, sequences(2, 16));
    const FunctionBuilder& block = model.kinds[model.layers[1].kind].functions;
    return count_kernels(backward ? block.backward({}) : block.forward());
  };
  CHECK(kernels(true, false) == kernels(false, false));
  auto before = kernels(false, true), behind = kernels(true, true);
  CHECK(before[KernelKind::Add] == 0);
  CHECK(behind[KernelKind::Add] == 2);
  behind[KernelKind::Add] = 0;
  CHECK(before == behind);
}

TEST_CASE("the loss is the mean over the tokens that have a target", "[core][model][encoder]") {
  LayerShape shape = sequences(2, 16);
  shape.loss_scale = 1.0 / 32;
  shape.target_share = 0.25;
  const Model model = build_layers(preset("bert-tiny"), shape);
  for (const LayerStep& step : model.kinds[model.layers.back().kind].functions.forward()) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    for (const Kernel& kernel : function->kernels) {
      if (kernel.kind == KernelKind::CrossEntropy) CHECK(kernel.scalars[0] == 1.0 / 8);
    }
  }
}
