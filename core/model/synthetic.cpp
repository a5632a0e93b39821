// The synthetic model: for each virtual stage a layer that takes given times and moves no bytes.
#include "core/base/index_vector.hpp"
#include "core/model/model.hpp"

namespace lockstep {

Model build_synthetic(const CostsSpec& costs, int num_stages) {
  const auto value = [](const std::vector<double>& list, int stage) {
    return list.size() == 1 ? list[0] : list[to_size(stage)];
  };
  Model model;
  std::map<std::array<double, 5>, int> kinds;  // (times, has_input, has_output) -> kind
  const bool uniform = costs.forward.size() == 1 && costs.backward_input.size() == 1 &&
                       costs.backward_weight.size() == 1;
  for (int s = 0; s < num_stages; ++s) {
    const double forward = value(costs.forward, s);
    const double input = value(costs.backward_input, s);
    const double weight = value(costs.backward_weight, s);
    const bool has_input = s > 0;
    const bool has_output = s + 1 < num_stages;
    const std::string name = "stage." + std::to_string(s);
    const auto [entry, fresh] =
        kinds.try_emplace({forward, input, weight, double(has_input), double(has_output)},
                          static_cast<int>(model.kinds.size()));
    if (fresh) {
      const std::string kind_name = !uniform      ? name
                                    : !has_input  ? "first"
                                    : !has_output ? "last"
                                                  : "stage";
      FunctionBuilder f(kind_name, DType::U8, DType::U8);
      const TensorId x = has_input ? f.formal("x", 0) : TensorId{};
      const TensorId y = has_output ? f.formal("y", 0) : TensorId{};
      const TensorId dy = has_output ? f.formal("dy", 0) : TensorId{};
      const TensorId dx = has_input ? f.formal("dx", 0) : TensorId{};
      const TensorId saved = f.tensor(0);
      const TensorId stash = f.tensor(0);
      f.emit(Part::Forward, KernelKind::Delay, {{}, {forward}, {x}, {y, saved}});
      f.emit(Part::InputGrad, KernelKind::Delay, {{}, {input}, {dy, saved}, {dx, stash}});
      f.emit(Part::WeightGrad, KernelKind::Delay, {{}, {weight}, {saved, stash}, {}});
      model.kinds.push_back({std::move(f), has_input, has_output});
    }
    Layer layer;
    layer.name = name;
    layer.kind = layer.keeping_kind = entry->second;
    layer.balance = forward + input + weight;
    model.layers.push_back(std::move(layer));
  }
  return model;
}

}  // namespace lockstep
