// MetricsTail: reads metrics.jsonl while another process writes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// One line of metrics.jsonl. Numbers that are not finite are NaN.
struct StepMetrics {
  int step = 0;  // from 1
  double loss = 0, grad_norm = 0, lr = 0;
  double seconds = 0;
  double tokens_per_s = 0;
};

class MetricsTail {
 public:
  explicit MetricsTail(std::string path) : path_(std::move(path)) {}
  /// The lines that were completed since the last call; none if the file does not exist yet. A file
  /// that became shorter, because the run was resumed, is read anew, and `restarted` is set.
  std::vector<StepMetrics> poll(bool& restarted);

 private:
  std::string path_;
  std::int64_t read_ = 0;  // bytes of the whole lines that were read
};

}  // namespace lockstep
