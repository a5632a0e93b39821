#include "core/model/model.hpp"

#include <algorithm>
#include <array>

namespace lockstep {

Flops Model::forward_flops() const {
  Flops total;
  for (const Layer& layer : layers) total += layer.forward_flops;
  return total;
}

Flops Model::training_flops() const {
  Flops total = 3 * forward_flops();
  for (const Layer& layer : layers) total.v -= layer.frozen_flops.v;
  return total;
}

namespace {

std::int64_t elements_of(const UnitLayout& unit) {
  std::int64_t total = 0;
  if (unit.moved_by == MovedBy::DelayedScale) return total;  // they are not the model's
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    total += held_elements(unit.parameters[i], 1, unit.sections[i]);
  }
  return total;
}

}  // namespace

std::int64_t Model::parameter_count() const {
  std::int64_t total = 0;
  for (const UnitLayout& unit : units) total += elements_of(unit);
  return total;
}

std::int64_t Model::trained_count() const {
  std::int64_t total = 0;
  for (const UnitLayout& unit : units) total += unit.frozen ? 0 : elements_of(unit);
  return total;
}

std::int64_t Model::active_parameter_count(const ModelSpec& spec) const {
  std::int64_t total = parameter_count();
  for (const UnitLayout& unit : units) {
    if (unit.name.find(".experts") == std::string::npos) continue;
    for (const Parameter& parameter : unit.parameters) {
      const std::int64_t of_one = parameter.elements() / spec.experts;
      total -= (spec.experts - spec.experts_per_token) * of_one;
    }
  }
  return total;
}

std::vector<TensorId> with_loss_scale(FunctionBuilder& f, const LayerShape& shape,
                                      std::vector<TensorId> inputs) {
  if (shape.scales_loss) inputs.push_back(f.formal("loss_scale", 1, DType::F32));
  return inputs;
}

Model build_layers(const ModelSpec& spec, const LayerShape& shape) {
  return spec.has_batch_norm() ? build_resnet(spec, shape) : build_transformer(spec, shape);
}

Flops forward_flops(const ModelSpec& spec, const LayerShape& shape) {
  if (spec.has_batch_norm()) return build_layers(spec, shape).forward_flops();
  // Blocks with and without experts and recomputation are of different kinds, of which one each is
  // made.
  std::array<std::int64_t, 4> first_of_kind;
  first_of_kind.fill(-1);
  std::vector<std::int64_t> like;  // by block: the first of its kind
  ModelSpec few = spec;
  few.layers = 0;
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const bool recomputes = shape.checkpoint.of_block(i).value_or(Recompute{}).any();
    std::int64_t& first = first_of_kind[2 * std::size_t{spec.has_experts(i)} + recomputes];
    if (first < 0) first = i;
    like.push_back(first);
    few.layers = std::max(few.layers, first + 1);
  }
  const Model made = build_layers(few, shape);
  const auto begin = std::find_if(made.layers.begin(), made.layers.end(),
                                  [](const Layer& layer) { return layer.is_block(); });
  const auto end = begin + few.layers;
  Flops total;  // in the order of the layers, so that it is rounded like theirs
  for (auto layer = made.layers.begin(); layer != begin; ++layer) total += layer->forward_flops;
  for (const std::int64_t block : like) total += begin[block].forward_flops;
  for (auto layer = end; layer != made.layers.end(); ++layer) total += layer->forward_flops;
  return total;
}

}  // namespace lockstep
