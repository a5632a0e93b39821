// Conventions: what a published row says of its software and its figures, and where it says
// nothing, what is usual for the software that it names (core/spec/usual_framework.hpp).
#pragma once

#include <optional>
#include <string>

#include "core/spec/usual_framework.hpp"
#include "core/validation/training_row.hpp"

namespace lockstep {

struct RowConventions {
  UsualFramework software;  // with what the row says in place of what is usual
  FlopConvention flops = FlopConvention::Model;
  MeasuredMemory memory = MeasuredMemory::Allocated;
};

/// The columns decide; the column `framework` names the software, and where it is empty, what the
/// columns fsdp_or_zero, notes and source mention. Memory is a process's where the notes say so
/// ("whole process", "nvidia-smi", "of the card"). TFLOP/s are Narayanan's where Megatron-LM until
/// 2023 or DeepSpeed printed them, and count causal attention once where Megatron Bridge did.
RowConventions conventions_of(const TrainingRow& row);

/// The stage of ZeRO that fsdp_or_zero names; nullopt if it names none.
std::optional<int> zero_stage_of(const TrainingRow& row);
/// How many ranks share states with that stage, of `replicas`: "fsdp128", "hybrid shard, within 4",
/// or, of a hybrid shard without a number, those of an NVLink domain of `node` GPUs. "FSDP1" and
/// "FSDP2" are names of PyTorch's interfaces.
long shard_of(const TrainingRow& row, long replicas, long node);

/// Whether the row's gradients are summed in 16 bits.
bool sums_in_16_bits(const TrainingRow& row);

/// The width of the feed-forward part: as given, or 4 × hidden, or, of a Llama, what its parameters
/// leave for three matrices, in steps of 256; 8/3 × hidden, as Llama has it, where they are not
/// given. Requires hidden.
long ffn_hidden_of(const TrainingRow& row);

/// The operations of a step on all GPUs as the source counts them; nullopt if a size is missing.
std::optional<double> counted_flops(const TrainingRow& row, FlopConvention convention);

/// The step time, as printed, or computed from tokens/s, or from TFLOP/s by the row's convention.
/// nullopt if the row has none of these, or not what the conversion needs.
std::optional<double> measured_step_time(const TrainingRow& row);

/// The row's vocabulary. For a GPT without one it is the 50,257 words of GPT-2, or BLOOM's 250,680
/// if the notes say "vocab 250k class". It is padded as in Megatron-LM, to a multiple of 128 × the
/// tensor parallel degree, where it is not given, and where the row ran on Megatron-LM or what grew
/// from it.
long vocabulary(const TrainingRow& row);

}  // namespace lockstep
