#include "core/model/model.hpp"

namespace lockstep {

Flops Model::forward_flops() const {
  Flops total;
  for (const Layer& layer : layers) total += layer.forward_flops;
  return total;
}

std::int64_t Model::parameter_count() const {
  std::int64_t total = 0;
  for (const UnitLayout& unit : units) {
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      total += held_elements(unit.parameters[i], 1, unit.sections[i]);
    }
  }
  return total;
}

std::int64_t Model::active_parameter_count(const ModelSpec& spec) const {
  std::int64_t total = parameter_count();
  for (const UnitLayout& unit : units) {
    if (!unit.name.ends_with(".experts")) continue;
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
  return spec.is_vision() ? build_resnet(spec, shape) : build_transformer(spec, shape);
}

}  // namespace lockstep
