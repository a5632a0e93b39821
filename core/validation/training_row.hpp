// TrainingRow: a published training run, as validation/training.csv has it. A field is empty if the
// source does not say it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/spec/usual_framework.hpp"
#include "core/validation/csv.hpp"

namespace lockstep {

/// What a source divides by the step time to print TFLOP/s (validation/README.md).
enum class FlopConvention {
  Model,        // 6 N + 12 L h s per token for N weights of products: full attention, no recompute
  CausalModel,  // 6 N + 6 L h s: attention is counted for the tokens that a token sees
  Narayanan,    // 96 B s l h² (1 + s / 6h + V / 16 l h): a fourth pass (arXiv 2104.04473)
  ParametersOnly,  // 8 × parameters per token; 6 × if nothing is recomputed
};

/// What a row's figure of memory counts: the most that PyTorch had allocated, in GiB or in GB of
/// 10⁹ bytes, or all that the process held (nvidia-smi), in GiB.
enum class MeasuredMemory { Allocated, AllocatedDecimal, Process };

struct TrainingRow {
  int line = 0;  // in the file
  std::string id;
  std::string source;
  std::string model;               // its name
  std::string architecture;        // "llama", "gpt" or "bert"; empty: as the name says
  std::optional<double> params_b;  // 10^9 parameters
  std::optional<long> hidden, layers, heads, kv_heads, ffn_hidden, vocab;
  std::optional<long> head_dim;  // elements of a head, where they are not hidden / heads
  std::optional<long> experts, experts_per_token, expert_ffn;
  std::optional<long> lora_rank;  // only adapters of this rank are trained
  std::optional<long> seq;        // tokens of a sequence
  std::string hw;                 // card
  std::optional<long> gpus, gpus_per_node;
  std::string interconnect;
  std::optional<long> tp, pp, vpp, dp;
  std::string fsdp_or_zero, sp, recompute;
  std::optional<long> micro_batch;        // sequences
  std::optional<long> global_batch_seqs;  // sequences of an optimizer step
  std::string precision;
  // What is stated of the software and the figures: conventions_of() reads it.
  std::string framework;
  std::optional<DataParallelOverlap> overlap;
  std::optional<GradientType> gradient_dtype;
  std::optional<FlopConvention> flop_convention;
  std::optional<MeasuredMemory> memory_measure;
  std::optional<double> optimizer_bytes;  // that the optimizer keeps of a parameter
  std::optional<double> iter_time_s, tflops_per_gpu, tokens_per_s_per_gpu;
  std::optional<double> mem_gb;  // GiB, of the fullest GPU
  std::string notes;

  /// The part of the id that rows of one table of a source share: "zb-t4" of "zb-t4-001".
  std::string group() const;
  /// The text that follows `key` ("schedule=", "cp=") in the notes, up to ';' or white space.
  std::string noted(std::string_view key) const;
  long noted_count(std::string_view key, long otherwise) const;
  bool ran_out_of_memory() const;  // whether the notes say OOM and there is no time
  bool max_allocated() const;      // whether the notes say that mem_gb is the allocator's maximum
};
/// Whether the model has Llama's architecture, or is an encoder, by its column or by its name.
bool is_llama(const TrainingRow& row);
bool is_encoder(const TrainingRow& row);
/// Whether only adapters are trained, whatever is said of their rank.
bool trains_adapters(const TrainingRow& row);

struct TrainingRows {
  std::vector<TrainingRow> rows;
  std::vector<Error> errors;  // all faults, in file order
};
TrainingRows read_training_rows(const CsvTable& table);

}  // namespace lockstep
