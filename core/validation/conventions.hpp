// Conventions: what the rows of a source do not say because its software always does it, and what
// its TFLOP/s count. Each source has a line, with its reason (docs/validation.md); no line has a
// number that was fitted.
#pragma once

#include <optional>
#include <string_view>

#include "core/validation/training_row.hpp"

namespace lockstep {

/// What a source divides by the step time to print TFLOP/s (validation/README.md).
enum class FlopConvention {
  Model,        // 6 N + 12 L h s per token for N weights of products: full attention, no recompute
  CausalModel,  // 6 N + 6 L h s: attention is counted for the tokens that a token sees
  Narayanan,    // 96 B s l h² (1 + s / 6h + V / 16 l h): a fourth pass (arXiv 2104.04473)
  ParametersOnly,  // 8 × parameters per token; 6 × if nothing is recomputed
};

/// What data-parallel communication runs beside the backward or forward pass, instead of after it.
enum class DataParallelOverlap { None, Gradients, GradientsAndParameters };

/// In which type gradients are summed.
enum class GradientType { Float32, AsParameters, AsFloat16 };  // AsFloat16: 16 bits in fp16 runs

/// What a source's figures of memory count: the most that PyTorch had allocated, in GiB or in GB of
/// 10⁹ bytes, or all that the process held (nvidia-smi), in GiB.
enum class MeasuredMemory { Allocated, AllocatedDecimal, Process };

struct SourceConvention {
  std::string_view prefix;  // with which TrainingRow::group() begins
  FlopConvention flops = FlopConvention::Model;
  DataParallelOverlap overlap = DataParallelOverlap::Gradients;
  bool distributed_optimizer = false;  // ZeRO-1 if fsdp_or_zero is empty
  bool sequence_parallel = false;      // with tensor parallelism, if sp is empty
  GradientType gradients = GradientType::Float32;
  std::string_view framework = "fsdp-eager";  // preset (frameworks/*.toml)
  MeasuredMemory memory = MeasuredMemory::Allocated;
};

/// The line with the longest prefix with which the row's group begins; PyTorch's conventions if
/// there is none.
const SourceConvention& convention_of(const TrainingRow& row);

/// Whether the row's gradients are summed in 16 bits.
bool sums_in_16_bits(const TrainingRow& row);

/// The operations of a step on all GPUs as the source counts them; nullopt if a size is missing.
std::optional<double> counted_flops(const TrainingRow& row, FlopConvention convention);

/// The step time, as printed, or computed from tokens/s, or from TFLOP/s by the source's
/// convention. nullopt if the row has none of these, or not what the conversion needs.
std::optional<double> measured_step_time(const TrainingRow& row);

/// The row's vocabulary. For a GPT without one it is the 50,257 words of GPT-2, or BLOOM's 250,680
/// if the notes say "vocab 250k class". It is padded as in Megatron-LM, to a multiple of 128 × the
/// tensor parallel degree, where it is not given, and where the row ran on Megatron-LM or what grew
/// from it.
long vocabulary(const TrainingRow& row);

}  // namespace lockstep
