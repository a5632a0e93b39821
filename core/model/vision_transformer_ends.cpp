// The two ends of a vision transformer: the patches of an image as tokens (Dosovitskiy et al. 2020,
// An Image is Worth 16x16 Words), and the classifier with the loss. It sees the mean of all tokens,
// so that there is none beside the patches (Beyer et al. 2022, Better plain ViT baselines for
// ImageNet-1k, which the paper's class token does not beat). Ranks of "tp" compute both ends whole.
#include <cmath>

#include "core/model/transformer_layers.hpp"

namespace lockstep {

/// The initial values of torchvision's ViT where it has normal ones: patches by the number of their
/// inputs, positions 0.02. Its classifier begins with zeros; here it has the weights of the blocks,
/// so that the first step moves all of them.
void declare_patches(LayerDeclaration& layer, const ModelSpec& spec) {
  const std::int64_t side = spec.patch_size, c = spec.hidden;
  layer.add("wpatch", {c, side, side, 3}, InitKind::Normal,
            1 / std::sqrt(static_cast<double>(side * side * 3)));
  layer.add("bpatch", {c}, InitKind::Zeros);
  layer.add("wpe", {spec.patches(), c}, InitKind::Normal, 0.02);
}

/// y = patches · w + bias + positions. Bias and positions are parameters alone, and are added to
/// each other once for all images.
LayerKind patches_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                       const std::vector<LayerUnit>& units) {
  FunctionBuilder f("embed", shape.dtype, shape.gradient_dtype);
  const std::int64_t n = shape.batch, seq = shape.seq, c = spec.hidden, side = spec.image_size;
  const std::vector<std::int64_t> convolution = {
      n, side, side, 3, c, spec.patch_size, spec.patch_size};
  const LayerTensors p(f, model, "embed", units);
  const TensorId images = f.formal("images", n * spec.image_elements());
  const TensorId y = f.formal("y", n * seq * c);
  const TensorId dy = f.formal("dy", n * seq * c);
  const TensorId features = f.tensor(n * seq * c);
  const TensorId added = f.tensor(seq * c);
  f.emit(Part::Forward, KernelKind::Conv2dForward,
         {convolution, {}, {images, p.w("wpatch")}, {features}});
  f.emit(Part::Forward, KernelKind::Add, {{seq, c}, {}, {p.w("wpe"), {}, p.w("bpatch")}, {added}});
  f.emit(Part::Forward, KernelKind::Add, {{n, seq * c}, {}, {features, {}, added}, {y}});
  f.emit(Part::WeightGrad, KernelKind::Conv2dBackwardWeight,
         {convolution, {}, {dy, images}, {p.g("wpatch")}});
  f.emit(Part::WeightGrad, KernelKind::ColumnSum, {{n * seq, c}, {}, {dy}, {p.g("bpatch")}});
  f.emit(Part::WeightGrad, KernelKind::ColumnSum, {{n, seq * c}, {}, {dy}, {p.g("wpe")}});
  p.pad(f);
  if (spec.freezes()) f.drop_unneeded();
  return {std::move(f), false, true};
}

void declare_classifier(LayerDeclaration& layer, const ModelSpec& spec) {
  declare_norm(layer, spec, "norm");
  layer.add("fc.weight", {spec.classes, spec.hidden}, InitKind::Normal, 0.02);
  layer.add("fc.bias", {spec.classes}, InitKind::Zeros);
}

LayerKind classifier_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                          const std::vector<LayerUnit>& units) {
  FunctionBuilder f("head", shape.dtype, shape.gradient_dtype);
  const std::int64_t n = shape.batch, rows = shape.rows(), c = spec.hidden;
  const std::int64_t classes = spec.classes;
  const std::vector<std::int64_t> pool = {n, shape.seq, c};
  const LayerTensors p(f, model, "head", units);
  p.pad(f);
  const LinearTensors fc = p.linear("fc.weight", "fc.bias");
  const TensorId x = f.formal("x", rows * c);
  const TensorId targets = f.formal("targets", n, DType::I32);
  const TensorId loss = f.formal("loss", 1, sum_type(shape.dtype));
  const TensorId h = f.tensor(rows * c);
  Norm norm(f, spec, shape.dtype, rows, p, "norm", x, h);
  const TensorId pooled = f.tensor(n * c);
  f.emit(Part::Forward, KernelKind::AveragePoolForward, {pool, {}, {h}, {pooled}});
  const TensorId logits = f.tensor(n * classes);  // its gradient overwrites it
  f.linear_forward(n, c, classes, pooled, fc.w, fc.b, {}, logits);
  f.keep(n * classes * shape.logit_bytes, logits);
  f.emit(Part::Forward, KernelKind::CrossEntropy,
         {{n, classes},
          {shape.loss_scale},
          with_loss_scale(f, shape, {logits, targets}),
          {logits, loss}});
  const TensorId dpooled = f.tensor(n * c);
  f.linear_backward(n, c, classes, logits, pooled, fc.w, dpooled, fc.gw, fc.gb);
  const TensorId dh = f.tensor(rows * c);
  f.emit(Part::InputGrad, KernelKind::AveragePoolBackward, {pool, {}, {dpooled}, {dh}});
  norm.backward(dh, {}, f.formal("dx", rows * c));
  if (spec.freezes()) f.drop_unneeded();
  return {std::move(f), true, false};
}

}  // namespace lockstep
