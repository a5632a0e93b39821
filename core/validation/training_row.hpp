// TrainingRow: a published training run, as validation/training.csv has it. A field is empty if the
// source does not say it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/validation/csv.hpp"

namespace lockstep {

struct TrainingRow {
  int line = 0;  // in the file
  std::string id;
  std::string source;
  std::string model;               // its name, from which is_llama() tells the architecture
  std::optional<double> params_b;  // 10^9 parameters
  std::optional<long> hidden, layers, heads, kv_heads, ffn_hidden, vocab;
  std::optional<long> seq;  // tokens of a sequence
  std::string hw;           // card
  std::optional<long> gpus, gpus_per_node;
  std::string interconnect;
  std::optional<long> tp, pp, vpp, dp;
  std::string fsdp_or_zero, sp, recompute;
  std::optional<long> micro_batch;        // sequences
  std::optional<long> global_batch_seqs;  // sequences of an optimizer step
  std::string precision;
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
/// Whether the model has Llama's architecture, by its name.
bool is_llama(const TrainingRow& row);

struct TrainingRows {
  std::vector<TrainingRow> rows;
  std::vector<Error> errors;  // all faults, in file order
};
TrainingRows read_training_rows(const CsvTable& table);

}  // namespace lockstep
