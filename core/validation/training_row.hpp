// TrainingRow: one published training run, as validation/training.csv has it. An empty field is
// something that the source does not say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/validation/csv.hpp"

namespace lockstep {

struct TrainingRow {
  int line = 0;  // of the file
  std::string id;
  std::string source;
  std::string model;               // name, which tells Llama from GPT
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

  /// "zb-t4" of "zb-t4-001": what the rows of one table of a source share.
  std::string group() const;
  /// The text behind `key` in the notes ("schedule=", "cp="), up to ';' or white space.
  std::string noted(std::string_view key) const;
  long noted_count(std::string_view key, long otherwise) const;
  bool ran_out_of_memory() const;  // the notes say OOM, and there is no time
  bool max_allocated() const;      // the notes say that mem_gb is the allocator's maximum
};
/// Of Llama's architecture, by the model's name.
bool is_llama(const TrainingRow& row);

struct TrainingRows {
  std::vector<TrainingRow> rows;
  std::vector<Error> errors;  // all faults, in file order
};
TrainingRows read_training_rows(const CsvTable& table);

}  // namespace lockstep
