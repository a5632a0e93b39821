#include "core/plan/memory_formulas.hpp"

namespace lockstep {

StateBytes model_states(double parameters, int stage, int ranks, const StateWidths& widths) {
  const double shard = parameters / ranks;
  return {widths.parameters * (stage >= 3 ? shard : parameters),
          widths.gradients * (stage >= 2 ? shard : parameters),
          widths.optimizer * (stage >= 1 ? shard : parameters)};
}

double activation_bytes_per_layer(const ActivationShape& shape, ActivationSavings savings) {
  const double sbh = shape.seq * shape.batch * shape.hidden;
  const double t = shape.tensor_parallel;
  const double scores = 5 * shape.heads * shape.seq / shape.hidden;
  switch (savings) {
    case ActivationSavings::None:
      return sbh * (10 + 24 / t + scores / t);
    case ActivationSavings::SequenceParallel:
      return sbh / t * (34 + scores);
    case ActivationSavings::Selective:
      return sbh * (10 + 24 / t);
    case ActivationSavings::SequenceSelective:
      return sbh / t * 34;
    case ActivationSavings::Full:
      return 2 * sbh;
  }
  return 0;
}

double first_stage_activation_bytes(const ActivationShape& shape, ActivationSavings savings,
                                    double layers, double pipeline_parallel, double chunks) {
  const double interleaving =
      chunks > 1 ? 1 + (pipeline_parallel - 1) / (pipeline_parallel * chunks) : 1;
  return activation_bytes_per_layer(shape, savings) * layers * interleaving;
}

double gpt_state_bytes(double hidden, double layers, double tensor_parallel,
                       double pipeline_parallel) {
  return 18 * 12 * hidden * hidden * layers / (tensor_parallel * pipeline_parallel);
}

double training_days(double flops, double flops_per_second) {
  return flops / flops_per_second / 86400;
}

}  // namespace lockstep
