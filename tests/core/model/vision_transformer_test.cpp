#include <array>
#include <map>
#include <utility>
#include <vector>

#include "core/model/model.hpp"
#include "core/scenario/presets.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

LayerShape images(std::int64_t batch) {
  LayerShape shape;
  shape.batch = batch;
  return shape;
}

ModelSpec preset(const char* name) { return *find_model_preset(name); }

std::vector<Kernel> kernels_of(const std::vector<LayerStep>& steps) {
  std::vector<Kernel> kernels;
  for (const LayerStep& step : steps) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    kernels.insert(kernels.end(), function->kernels.begin(), function->kernels.end());
  }
  return kernels;
}

/// Multiply-adds of the forward pass: what is published.
double multiply_adds(const Model& model) {
  double flops = 0;
  for (const Layer& layer : model.layers) {
    for (const Kernel& kernel : kernels_of(model.kinds[layer.kind].functions.forward())) {
      const bool counts = kernel.kind == KernelKind::Conv2dForward ||
                          kernel.kind == KernelKind::Gemm ||
                          kernel.kind == KernelKind::AttentionForward;
      if (counts) flops += work(kernel).flops.v;
    }
  }
  return flops / 2;
}

}  // namespace

TEST_CASE("vision transformers have torchvision's parameters but for the class token",
          "[core][model]") {
  // torchvision's vit_b_16, vit_l_16 and vit_h_14 at 224: the class token and its position are two
  // vectors of `hidden` elements.
  for (const auto& [name, theirs] : {std::pair("vit-b-16", std::int64_t{86'567'656}),
                                     std::pair("vit-l-16", std::int64_t{304'326'632}),
                                     std::pair("vit-h-14", std::int64_t{632'045'800})}) {
    INFO(name);
    const ModelSpec spec = preset(name);
    CHECK(build_transformer(spec, images(1)).parameter_count() == theirs - 2 * spec.hidden);
    // However images are batched, and in whichever way they are recomputed.
    LayerShape other = images(3);
    other.checkpoint.mode = ActivationCheckpoint::Full;
    CHECK(build_transformer(spec, other).parameter_count() == theirs - 2 * spec.hidden);
  }
}

TEST_CASE("a vision transformer's multiply-adds are those of its products and of all scores",
          "[core][model]") {
  // ViT-B/16 at 224: 196 patches of 16 · 16 · 3 values, 12 blocks of width 768, all 196 · 196
  // scores of 12 heads, 1000 classes. With its class token torchvision states 17.56 G.
  const double tokens = 196, c = 768;
  const double block = tokens * (3 * c * c + c * c + 8 * c * c) + 2 * tokens * tokens * c;
  const double expected = tokens * 16 * 16 * 3 * c + 12 * block + 1000 * c;
  const ModelSpec spec = preset("vit-b-16");
  CHECK(multiply_adds(build_transformer(spec, images(1))) == expected);
  CHECK(multiply_adds(build_transformer(spec, images(5))) == 5 * expected);
  CHECK(expected / 17.56e9 == Approx(1).epsilon(0.01));
  // What reports count, which has norms and pooling as well, and is found without all blocks.
  const Flops all = build_transformer(spec, images(5)).forward_flops();
  CHECK(all.v > 10 * expected);
  CHECK(all.v < 10.2 * expected);
  CHECK(forward_flops(spec, images(5)) == all);
}

TEST_CASE("patches attend to all patches, and all their sizes follow from the image",
          "[core][model]") {
  ModelSpec spec = preset("vit-tiny");
  spec.image_size = 24;  // 6 × 6 patches of 4 × 4
  CHECK(spec.patches() == 36);
  for (const std::int64_t seq : {1, 7}) {  // which means nothing
    LayerShape shape = images(2);
    shape.seq = seq;
    const Model model = build_transformer(spec, shape);
    CHECK(model.layers.size() == 6);
    for (int l = 0; l < 5; ++l) CHECK(model.layers[l].output_bytes == 2 * 36 * 64 * 4);
    std::map<KernelKind, int> count;
    for (const Kernel& kernel : kernels_of(model.kinds[model.layers[1].kind].functions.forward())) {
      ++count[kernel.kind];
      if (kernel.kind != KernelKind::AttentionForward) continue;
      CHECK(kernel.dims == std::array<std::int64_t, kMaxDims>{2, 36, 4, 4, 16, 0, 0, 1});
    }
    CHECK(count[KernelKind::AttentionForward] == 1);
    CHECK(count[KernelKind::GeluForward] == 1);
    CHECK(count[KernelKind::LayerNormForward] == 2);
    CHECK(count[KernelKind::Rope] == 0);
  }
}

TEST_CASE("nothing is computed for parameters of patches that are frozen", "[core][model]") {
  ModelSpec spec = preset("vit-tiny");
  const Model all = build_transformer(spec, images(1));
  spec.frozen = {"embed.*"};
  const Model model = build_transformer(spec, images(1));
  // 64 patches of 4 · 4 · 3 values.
  CHECK(model.layers[0].frozen_flops.v == 2. * 64 * 48 * 64);
  CHECK(model.training_flops().v == all.training_flops().v - 2. * 64 * 48 * 64);
  CHECK(model.parameter_count() - model.trained_count() == 48 * 64 + 64 + 64 * 64);
  CHECK(kernels_of(model.kinds[0].functions.backward({})).empty());
  CHECK(kernels_of(all.kinds[0].functions.backward({})).size() == 3);
}
