// Rows of published runs for tests, which name only the cells that a test is about.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/validation/training_row.hpp"
#include "tests/catch.hpp"

namespace lockstep::test {

using Cells = std::vector<std::pair<std::string, std::string>>;

/// A GPT of 24 layers on eight A100s, data parallel 8, with `changes` to its cells.
inline TrainingRow training_row(const Cells& changes = {}) {
  Cells cells = {{"id", "own-001"},
                 {"source", "a test"},
                 {"model", "GPT 1B"},
                 {"params_b", "1.3"},
                 {"hidden", "2048"},
                 {"layers", "24"},
                 {"heads", "16"},
                 {"kv_heads", ""},
                 {"ffn_hidden", ""},
                 {"vocab", "51200"},
                 {"seq", "2048"},
                 {"hw", "A100-SXM4-80GB"},
                 {"gpus", "8"},
                 {"gpus_per_node", "8"},
                 {"interconnect", ""},
                 {"tp", "1"},
                 {"pp", "1"},
                 {"vpp", ""},
                 {"dp", "8"},
                 {"fsdp_or_zero", ""},
                 {"sp", ""},
                 {"recompute", ""},
                 {"micro_batch", "2"},
                 {"global_batch_seqs", "64"},
                 {"precision", "bf16"},
                 {"iter_time_s", "1.5"},
                 {"tflops_per_gpu", ""},
                 {"tokens_per_s_per_gpu", ""},
                 {"mem_gb", ""},
                 {"framework", ""},
                 {"overlap", ""},
                 {"gradient_dtype", ""},
                 {"optimizer_bytes", ""},
                 {"flop_convention", ""},
                 {"memory_measure", ""},
                 {"architecture", ""},
                 {"head_dim", ""},
                 {"experts", ""},
                 {"experts_per_token", ""},
                 {"expert_ffn", ""},
                 {"lora_rank", ""},
                 {"notes", ""}};
  for (const auto& [column, value] : changes) {
    for (auto& cell : cells) {
      if (cell.first == column) cell.second = value;
    }
  }
  std::string heading, line;
  for (const auto& [column, value] : cells) {
    heading += (heading.empty() ? "" : ",") + column;
    line += (line.empty() ? "\"" : ",\"") + value + "\"";
  }
  const Result<CsvTable> table = parse_csv(heading + "\n" + line + "\n", "test.csv");
  REQUIRE(table.ok());
  TrainingRows rows = read_training_rows(*table);
  REQUIRE(rows.errors.empty());
  REQUIRE(rows.rows.size() == 1);
  return rows.rows.front();
}

}  // namespace lockstep::test
