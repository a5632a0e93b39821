// Questions: what the commands recommend, compare, collective, validate, import, export and
// list answer, as the JSON that they print with --json.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "lockstep/run.hpp"
#include "lockstep/scenario.hpp"

namespace lockstep::api {
inline namespace v1 {

struct RecommendOptions {
  std::string model;             // a preset, or a Hugging Face folder or config.json
  std::string cluster = "h100";  // a preset, or a profile's file
  int nodes = 1;
  int batch = 0;         // sequences of a step; 0: 16,384 tokens for every GPU
  int seq_len = 0;       // 0: the model's, at most 8,192
  bool offload = false;  // also layouts with states in host memory
  int lora = 0;          // rank of adapters that are trained alone; 0: none
  double seconds = 60;   // try no further layouts after so long
  int threads = 0;       // 0: one for each core
};
/// The fastest layout of a model on a cluster, beside it what the rules of thumb say, and what
/// would fit where nothing does.
LOCKSTEP_EXPORT Result<std::string> recommend_json(const RecommendOptions& options);

/// Both reports, and what they differ in.
LOCKSTEP_EXPORT std::string compare_json(const Run& a, const Run& b);

struct CollectiveOptions {
  std::string kind = "all_reduce", bytes = "256MiB";
  std::string cluster = "h100";  // a preset, or a profile's file
  int nodes = 1, ranks = 0;      // ranks 0: all ranks of the nodes
  bool sweep = false;            // sizes from 8 bytes to 8 GiB instead of `bytes`
};
/// Time and bandwidths of a collective, a list with an object for each size.
LOCKSTEP_EXPORT Result<std::string> collective_json(const CollectiveOptions& options);

struct ValidateOptions {
  std::string source, row;       // a pattern of sources, and an id; empty: all
  std::vector<std::string> set;  // overrides of every scenario
  int threads = 0;               // 0: one for each core
  bool rows = false;             // list every row, too
  std::function<void(std::size_t done, std::size_t all)> progress;  // by one thread at a time
};
/// Measured runs or collectives of a CSV file beside what is simulated of them.
LOCKSTEP_EXPORT Result<std::string> validate_json(const std::string& file,
                                                  const ValidateOptions& options = {});

struct ImportOptions {
  std::string model;             // a preset or a config.json; empty: the file's
  std::string cluster = "h100";  // a preset, or a profile's file
  int nodes = 0, seq_len = 0;    // 0: what the file says
};
/// A plan of "torchtitan", "megatron" or "deepspeed" as a scenario, which is valid, with an
/// account.
LOCKSTEP_EXPORT Result<std::string> import_json(const std::string& trainer, const std::string& file,
                                                const ImportOptions& options = {});
/// The other way round.
LOCKSTEP_EXPORT Result<std::string> export_json(const std::string& trainer,
                                                const Scenario& scenario);

/// The presets of models, and of clusters.
LOCKSTEP_EXPORT std::string models_json();
LOCKSTEP_EXPORT std::string clusters_json();

}  // namespace v1
}  // namespace lockstep::api
