#include <map>
#include <numeric>
#include <set>

#include "core/model/model.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

ModelSpec resnet(std::vector<int> blocks, bool bottleneck) {
  ModelSpec spec;
  spec.architecture = Architecture::Resnet;
  spec.layers = std::accumulate(blocks.begin(), blocks.end(), 0);
  spec.blocks = std::move(blocks);
  spec.bottleneck = bottleneck;
  return spec;
}

LayerShape images(std::int64_t batch) {
  LayerShape shape;
  shape.batch = batch;
  return shape;
}

/// Kernels of all layers of a part, by kind: their number and their flops.
struct Kinds {
  std::map<KernelKind, int> count;
  std::map<KernelKind, double> flops;
};
void add(Kinds& kinds, const std::vector<LayerStep>& steps) {
  for (const LayerStep& step : steps) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    for (const Kernel& kernel : function->kernels) {
      ++kinds.count[kernel.kind];
      kinds.flops[kernel.kind] += work(kernel).flops.v;
    }
  }
}
Kinds forward_kernels(const Model& model) {
  Kinds kinds;
  for (const Layer& layer : model.layers) {
    add(kinds, model.kinds[layer.kind].functions.forward());
  }
  return kinds;
}

/// Multiply-adds of convolutions and the fully connected layer: what is published.
double multiply_adds(const Model& model) {
  Kinds kinds = forward_kernels(model);
  return (kinds.flops[KernelKind::Conv2dForward] + kinds.flops[KernelKind::Gemm]) / 2;
}

}  // namespace

TEST_CASE("residual networks have torchvision's parameters", "[core][model]") {
  const auto parameters = [](std::vector<int> blocks, bool bottleneck) {
    return build_resnet(resnet(std::move(blocks), bottleneck), images(1)).parameter_count();
  };
  CHECK(parameters({2, 2, 2, 2}, false) == 11'689'512);
  CHECK(parameters({3, 4, 6, 3}, false) == 21'797'672);
  CHECK(parameters({3, 4, 6, 3}, true) == 25'557'032);
  CHECK(parameters({3, 4, 23, 3}, true) == 44'549'160);
}

TEST_CASE("residual networks have the published multiply-adds at 224", "[core][model]") {
  // ResNet-50 v1.5: 4.09 G. Stem 112² · 64 · 49 · 3, and so on; every term is an integer.
  CHECK(multiply_adds(build_resnet(resnet({3, 4, 6, 3}, true), images(1))) == 4'089'184'256.0);
  CHECK(multiply_adds(build_resnet(resnet({2, 2, 2, 2}, false), images(1))) == 1'814'073'344.0);
  CHECK(multiply_adds(build_resnet(resnet({2, 2, 2, 2}, false), images(8))) == 8 * 1'814'073'344.0);
}

TEST_CASE("layers have the sizes of the paper's table 1 between them", "[core][model]") {
  const Model model = build_resnet(resnet({3, 4, 6, 3}, true), images(2));
  REQUIRE(model.layers.size() == 18);
  const auto output = [&](std::size_t layer) { return model.layers[layer].output_bytes; };
  const auto plane = [](std::int64_t size, std::int64_t channels) {
    return 2 * size * size * channels * 4;
  };
  CHECK(output(0) == plane(56, 64));  // after pooling
  CHECK(output(1) == plane(56, 256));
  CHECK(output(3) == plane(56, 256));
  CHECK(output(4) == plane(28, 512));
  CHECK(output(8) == plane(14, 1024));
  CHECK(output(16) == plane(7, 2048));
  CHECK(output(17) == 0);
  // Blocks of one shape share their functions: stem, two kinds per stage, head.
  CHECK(model.kinds.size() == 10);
  CHECK(model.layers[2].kind == model.layers[3].kind);
  CHECK(model.layers[1].kind != model.layers[2].kind);  // with a projection
}

TEST_CASE("every batch norm keeps running statistics that no optimizer sees", "[core][model]") {
  const Model model = build_resnet(resnet({3, 4, 6, 3}, true), images(1));
  std::int64_t channels = 0, kept = 0;
  std::set<std::string> names;
  for (const UnitLayout& unit : model.units) {
    for (const Parameter& p : unit.parameters) {
      CHECK(names.insert(p.name).second);
      if (p.init == InitKind::Ones) channels += p.elements();
    }
  }
  for (const UnitLayout& unit : model.statistics) {
    kept += unit.elements;
    for (const Parameter& p : unit.parameters) CHECK(names.insert(p.name).second);
  }
  CHECK(channels == 26'560);  // of all 53 batch norms
  CHECK(kept == 2 * channels);
  CHECK(forward_kernels(model).count[KernelKind::BatchNormRunning] == 53);
}

TEST_CASE("tensor parallelism sums once forward and once backward in every block",
          "[core][model]") {
  // Bottlenecks: of 17 K² of multiply-adds per position, the pair of 4 and 9 is divided.
  for (const int ranks : {2, 8}) {
    LayerShape shape = images(2);
    shape.tensor_parallel = ranks;
    const Model model = build_resnet(resnet({3, 4, 6, 3}, true), shape);
    const Model whole = build_resnet(resnet({3, 4, 6, 3}, true), images(2));
    CHECK(model.parameter_count() == whole.parameter_count());
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      const Layer& layer = model.layers[l];
      const LayerKind& kind = model.kinds[layer.kind];
      const bool block = layer.name.starts_with("blocks.");
      const auto sums = [](const std::vector<LayerStep>& steps) {
        return std::count_if(steps.begin(), steps.end(), [](const LayerStep& step) {
          const auto* c = std::get_if<Communication>(&step);
          return c != nullptr && c->kind == OpKind::AllReduce && c->axis == "tp";
        });
      };
      CHECK(sums(kind.functions.forward()) == (block ? 1 : 0));
      CHECK(sums(kind.functions.backward({})) == (block ? 1 : 0));
    }
    // blocks.1: stage 1, width 64 and 256 channels in and out, images of 56: no projection.
    const double positions = 2.0 * 56 * 56, k2 = 64 * 64;
    const double convolutions = 2 * positions * k2 * (13.0 / ranks + 4);
    CHECK(model.layers[2].forward_flops.v >= convolutions);
    CHECK(model.layers[2].forward_flops.v < 1.1 * convolutions);
  }
}

TEST_CASE("synchronized batch norm gathers once forward and reduces once backward",
          "[core][model]") {
  const ModelSpec spec = resnet({1, 1}, false);
  LayerShape shape = images(2);
  const auto collectives = [&](OpKind kind, bool forward) {
    const Model model = build_resnet(spec, shape);
    int count = 0;
    for (const Layer& layer : model.layers) {
      const FunctionBuilder& f = model.kinds[layer.kind].functions;
      for (const LayerStep& step : forward ? f.forward() : f.backward({})) {
        const auto* c = std::get_if<Communication>(&step);
        count += c != nullptr && c->kind == kind && c->axis == "dp";
      }
    }
    return count;
  };
  CHECK(collectives(OpKind::AllGather, true) == 0);
  shape.norm_ranks = 4;
  // Stem, two convolutions in each of two blocks, one projection.
  CHECK(collectives(OpKind::AllGather, true) == 6);
  CHECK(collectives(OpKind::AllReduce, false) == 6);
}

TEST_CASE("the backward pass has both gradients of every convolution but the first's input",
          "[core][model]") {
  const Model model = build_resnet(resnet({1, 1}, true), images(2));
  Kinds kinds;
  for (const Layer& layer : model.layers) {
    add(kinds, model.kinds[layer.kind].functions.backward({}));
  }
  const int convolutions = 1 + 4 + 4;
  CHECK(kinds.count[KernelKind::Conv2dBackwardWeight] == convolutions);
  CHECK(kinds.count[KernelKind::Conv2dBackwardInput] == convolutions - 1);
  CHECK(kinds.count[KernelKind::BatchNormBackwardWeight] == convolutions);
}
