#include "core/lower/draft/draft.hpp"

#include "core/lower/draft/data_axes.hpp"

namespace lockstep {

FunctionId Draft::function(const Function& function, FunctionOrigin origin) {
  const FunctionId id = this->function(function);
  if (origins_.size() <= to_size(id)) origins_.resize(to_size(id) + 1);
  origins_[id] = origin;
  return id;
}

FunctionOrigin Draft::origin(FunctionId function) const {
  return to_size(function) < origins_.size() ? origins_[function] : FunctionOrigin{};
}

namespace {

std::vector<LayerStep> steps_of(const FunctionBuilder& f, Phase phase,
                                const std::vector<std::string>& accumulate) {
  switch (phase) {
    case Phase::F:
      return f.forward();
    case Phase::R:
      return f.recomputation();
    case Phase::I:
      return f.backward(Part::InputGrad, {});
    case Phase::W:
      return f.backward(Part::WeightGrad, accumulate);
    default:
      return f.backward(accumulate);
  }
}

}  // namespace

std::vector<LayerStep> Draft::steps(int kind, Phase phase,
                                    const std::vector<std::string>& accumulate) {
  std::vector<LayerStep> steps = steps_of(model.kinds[kind].functions, phase, accumulate);
  if (scenario.cluster.device.tf32_rate.v <= 0) return steps;
  const TrainingSpec& training = scenario.training;
  for (LayerStep& step : steps) {
    auto* const function = std::get_if<Function>(&step);
    if (function == nullptr) continue;
    for (Kernel& kernel : function->kernels) {
      const Tf32 setting = info(kernel.kind).tf32;
      const Float32Products wanted =
          setting == Tf32::Convolutions ? training.float32_convolution : training.float32_matmul;
      kernel.tf32 =
          kernel.dtype == DType::F32 && setting != Tf32::Never && wanted == Float32Products::Tf32;
    }
  }
  return steps;
}

GroupId Draft::axis_group(const std::string& axis) {
  return axis == "dp" ? data_group(*this) : group(axis, axis_dims(axis));
}

std::vector<std::string_view> Draft::axis_dims(std::string_view axis) const {
  using Dims = std::vector<std::string_view>;
  const StrategySpec& strategy = scenario.strategy;
  Dims dims;
  const auto add = [&](const Dims& more) { dims.insert(dims.end(), more.begin(), more.end()); };
  const Dims tensor(kTensorDims.begin(), kTensorDims.end());
  if (axis == "tp") {
    add(tensor);
  } else if (axis == "kv") {
    add({"tp", "etp"});
  } else if (axis == "cp") {
    add({"cp", "cp_heads"});
  } else if (axis == "cp_keys") {
    add({"cp"});
  } else if (axis == "vocabulary") {
    add({"pp"});
    add(tensor);
  } else if (axis == "etp") {
    add({"etp", "kv_replicate"});
  } else if (divides_experts(axis)) {
    add({"ep"});
    if (strategy.experts_over_cp()) add({"cp", "cp_heads"});
    if (strategy.experts_over_tp() == strategy.tensor_parallel_degree) {
      add(tensor);
    } else if (strategy.experts_over_tp() > 1) {
      add({"tp"});
    }
    if (axis == "ep_tp") add(tensor);
    if (axis == "ep_etp") add({"etp", "kv_replicate"});
  } else {
    add({axis});
  }
  std::erase_if(dims, [&](std::string_view dim) { return program.mesh.size_of(dim) == 1; });
  return dims;
}

DType Draft::dtype_of(BufferKind kind) const {
  const TrainingSpec& training = scenario.training;
  switch (kind) {
    case BufferKind::Master:
      return training.dtype;
    case BufferKind::Optimizer:
      return scenario.optimizer.state_type(training.dtype);
    case BufferKind::Grad:
      return training.reduce_dtype();
    case BufferKind::Metric:
      return sum_type(training.dtype);
    case BufferKind::Input:
      return DType::I32;
    default:
      return training.param_dtype();
  }
}

}  // namespace lockstep
