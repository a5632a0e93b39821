#include "core/model/products.hpp"

#include <algorithm>

#include "core/base/float8.hpp"
#include "core/model/model.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr std::int64_t kRows = 512, kHidden = 256, kFeatures = 768, kBlock = 64;

ModelSpec llama() {
  ModelSpec spec;
  spec.architecture = Architecture::Llama;
  spec.layers = 4;
  spec.hidden = kHidden;
  spec.heads = spec.kv_heads = 4;
  spec.head_dim = 64;
  spec.ffn_hidden = kFeatures;
  spec.vocab = 500;
  return spec;
}

LayerShape shape(const Float8Factors& float8) {
  LayerShape s;
  s.batch = 2;
  s.seq = kRows / 2;
  s.dtype = DType::BF16;
  s.float8 = float8;
  return s;
}

const FunctionBuilder& block_of(const Model& model) {
  return model.kinds[model.layers[1].kind].functions;
}

std::vector<Kernel> kernels_of(const std::vector<LayerStep>& steps) {
  std::vector<Kernel> kernels;
  for (const LayerStep& step : steps) {
    const auto* function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    kernels.insert(kernels.end(), function->kernels.begin(), function->kernels.end());
  }
  return kernels;
}

std::int64_t count(const std::vector<Kernel>& kernels, KernelKind kind) {
  return std::count_if(kernels.begin(), kernels.end(),
                       [&](const Kernel& k) { return k.kind == kind; });
}

std::int64_t saved_bytes(const std::vector<LayerStep>& steps) {
  for (const Formal& formal : std::get<Function>(steps.front()).formals) {
    if (formal.name == "saved") return formal.bytes.v;
  }
  return 0;
}

std::vector<Communication> communications(const std::vector<LayerStep>& steps) {
  std::vector<Communication> found;
  for (const LayerStep& step : steps) {
    if (const auto* c = std::get_if<Communication>(&step)) found.push_back(*c);
  }
  return found;
}

const Float8Factors kBlocks{kE4M3, kE5M2, kBlock, true};
const Float8Factors kTensors{kE4M3, kE5M2, 0, false};

}  // namespace

TEST_CASE("a block has four linear layers of three products each, with two factors of 8 bits",
          "[core][model]") {
  const Model model = build_transformer(llama(), shape(kBlocks));
  const auto forward = kernels_of(block_of(model).forward());
  const auto backward = kernels_of(block_of(model).backward({}));
  CHECK(count(forward, KernelKind::ScaledGemm) == 4);
  CHECK(count(backward, KernelKind::ScaledGemm) == 8);
  CHECK(count(forward, KernelKind::Gemm) + count(backward, KernelKind::Gemm) == 0);
  // Forward: inputs by rows and columns, weights by rows. Backward: gradients by rows and columns,
  // weights by columns.
  CHECK(count(forward, KernelKind::Quantize) == 4 * 3);
  CHECK(count(backward, KernelKind::Quantize) == 4 * 3);
  for (const Kernel& k : backward) {
    if (k.kind != KernelKind::ScaledGemm) continue;
    CHECK(k.scalars[0] == kE5M2);  // a gradient comes first
    CHECK(k.scalars[1] == kE4M3);
  }
  const Model plain = build_transformer(llama(), shape({}));
  CHECK(model.forward_flops() == plain.forward_flops());
  for (const Layer& layer : model.layers) {  // embedding and output layer stay as they are
    if (layer.is_block()) continue;
    const FunctionBuilder& f = model.kinds[layer.kind].functions;
    CHECK(count(kernels_of(f.forward()), KernelKind::Quantize) == 0);
    CHECK(count(kernels_of(f.backward({})), KernelKind::Quantize) == 0);
  }
}

TEST_CASE("inputs of products are kept in one byte an element, and the result of attention in both",
          "[core][model]") {
  // In bfloat16 a block saves the inputs of its products in 2 bytes: both norms' results,
  // attention's and the activation's. In 8 bits each has a byte, and a scale of 4 bytes for every
  // 64 of a column; the backward pass of attention reads its result, which stays beside that.
  const std::int64_t elements = kRows * (2 * kHidden + kFeatures), attention = kRows * kHidden;
  const std::int64_t scales = 4 * (elements + attention) / kBlock;
  const Model plain = build_transformer(llama(), shape({}));
  const Model narrow = build_transformer(llama(), shape(kBlocks));
  CHECK(saved_bytes(block_of(narrow).forward()) ==
        saved_bytes(block_of(plain).forward()) - elements + attention + scales);
}

TEST_CASE("first and last blocks may multiply in the parameters' type", "[core][model]") {
  LayerShape s = shape(kBlocks);
  s.wide_first = 1;
  s.wide_last = 2;
  const Model model = build_transformer(llama(), s);
  std::vector<std::int64_t> narrow;
  for (const Layer& layer : model.layers) {
    if (!layer.is_block()) continue;
    narrow.push_back(
        count(kernels_of(model.kinds[layer.kind].functions.forward()), KernelKind::ScaledGemm));
  }
  CHECK(narrow == std::vector<std::int64_t>{0, 4, 0, 0});
}

TEST_CASE("ranks that divide a tensor gather its one scale, and those of blocks gather none",
          "[core][model]") {
  LayerShape s = shape(kTensors);
  s.tensor_parallel = 4;
  const auto scales_in = [](const std::vector<LayerStep>& steps) {
    std::vector<std::string> names;
    for (const Communication& c : communications(steps)) {
      if (c.kind != OpKind::AllGather) continue;
      CHECK(c.axis == "tp");
      CHECK(c.in.bytes.v == 4);
      CHECK(c.out.bytes.v == 16);
      names.push_back(c.in.name);
    }
    return names;
  };
  const Model tensors = build_transformer(llama(), s);
  // Inputs of the first layer of a pair are whole, those of the second divided; weights of both are
  // divided, and keep their scale for the backward pass.
  CHECK(scales_in(block_of(tensors).forward()) ==
        std::vector<std::string>{"qkv.w.scale", "out.x.scale", "out.w.scale", "up.w.scale",
                                 "down.x.scale", "down.w.scale"});
  CHECK(scales_in(block_of(tensors).backward({})) ==
        std::vector<std::string>{"up.dy.scale", "qkv.dy.scale"});
  s.float8 = kBlocks;
  const Model blocks = build_transformer(llama(), s);
  CHECK(scales_in(block_of(blocks).forward()).empty());
  CHECK(scales_in(block_of(blocks).backward({})).empty());
}
