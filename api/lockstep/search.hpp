// Search: the fastest layouts that a scenario's cluster allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "lockstep/scenario.hpp"

namespace lockstep::api {
inline namespace v1 {

struct SearchOptions {
  std::vector<std::string> only;  // degrees that layouts must have: "tp=8"
  double seconds = 60;            // try no further layouts after so long
  int threads = 0;                // 0: one for each core
  int finalists = 0;              // layouts to simulate in full; 0: as many as are needed
};

struct Layout {
  std::string name;  // "tp 8 · pp 4 1F1B · dp 2 ZeRO-1 · 16 × 1"
  Scenario scenario;
  double step_time_s = 0;
  double tokens_per_s = 0;  // images for a vision model
  double mfu = 0;
  double bubble_fraction = 0;
  std::int64_t needed_memory_bytes = 0;
};

/// Layouts that fit and were simulated in full, the fastest first (docs/search.md).
LOCKSTEP_EXPORT Result<std::vector<Layout>> search(const Scenario& scenario,
                                                   const SearchOptions& options = {});
/// The same as JSON, with more figures, the best of each family, and why others lost.
LOCKSTEP_EXPORT Result<std::string> search_json(const Scenario& scenario,
                                                const SearchOptions& options = {});

}  // namespace v1
}  // namespace lockstep::api
