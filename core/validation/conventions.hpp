// Conventions: what a source's rows leave unsaid because its software does it always, and what its
// TFLOP/s count. One line per source, each with its reason (docs/validation.md); no line holds a
// number that was fitted.
#pragma once

#include <optional>
#include <string_view>

#include "core/validation/training_row.hpp"

namespace lockstep {

/// What a source divides by the step time to print TFLOP/s (validation/README.md).
enum class FlopConvention {
  Model,        // 6 N + 12 L h s per token, N the weights of products: full attention, no recompute
  CausalModel,  // 6 N + 6 L h s: attention counted for the tokens that a token sees
  Narayanan,    // 96 B s l h² (1 + s / 6h + V / 16 l h): a fourth pass (arXiv 2104.04473)
  ParametersOnly,  // 8 × parameters per token, 6 where nothing is recomputed
};

/// What runs beside the backward or forward pass instead of after it.
enum class DataParallelOverlap { None, Gradients, GradientsAndParameters };

struct SourceConvention {
  std::string_view prefix;  // of TrainingRow::group()
  FlopConvention flops = FlopConvention::Model;
  DataParallelOverlap overlap = DataParallelOverlap::Gradients;
  bool distributed_optimizer = false;         // ZeRO-1 where fsdp_or_zero is empty
  bool sequence_parallel = false;             // with tensor parallelism, where sp is empty
  bool gradients_as_parameters = false;       // added up and reduced in 16 bits, not in float32
  std::string_view framework = "fsdp-eager";  // preset (frameworks/*.toml)
};

/// The line with the longest prefix that begins the row's group; PyTorch's ways without one.
const SourceConvention& convention_of(const TrainingRow& row);

/// Operations of a step on all GPUs as the source counts them; none where a size is missing.
std::optional<double> counted_flops(const TrainingRow& row, FlopConvention convention);

/// The step time: as printed; or from tokens/s; or from TFLOP/s by the source's convention. None
/// where the row has none of them, or not what the conversion needs.
std::optional<double> measured_step_time(const TrainingRow& row);

/// The row's vocabulary; where a GPT's is not given, GPT-2's 50,257 words; "vocab 250k class" of
/// the notes is BLOOM's 250,680. Padded as Megatron-LM does, to a multiple of 128 × tensor parallel
/// degree, where it is not given, and where the row ran on Megatron-LM or what grew from it.
long vocabulary(const TrainingRow& row);

}  // namespace lockstep
