// Process runs: runs of the program in processes of their own: what they train and what they write.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/scenario_texts.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::test {

inline std::string scenario(const TemporaryFolder& folder, const std::string& parallelism) {
  const std::string path = folder / "scenario.toml";
  write_bytes(path, kTinyModel + R"([training]
local_batch_size = 4
seq_len = 8
steps = 6
[checkpoint]
interval = 3
[parallelism]
)" + parallelism);
  return path;
}

/// The step, loss and norm of every line of metrics.jsonl, as they are written there.
inline std::string metrics(const std::string& run) {
  std::istringstream lines(read_bytes(run + "/metrics.jsonl"));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line);
    text +=
        entry["step"].dump() + " " + entry["loss"].dump() + " " + entry["grad_norm"].dump() + "\n";
  }
  return text;
}

}  // namespace lockstep::test
