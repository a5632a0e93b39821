// Time shares: a time that several searches share fairly.
#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep {

/// Seconds for tasks that follow each other. Each may take an equal part of what is left when it
/// begins, so that what one leaves over goes to those after it. Moments are seconds since the first
/// began.
class TimeShares {
 public:
  TimeShares(double seconds, std::size_t tasks) : end_(seconds), tasks_(tasks) {}
  void begin_task(double now) {
    until_ = now + (end_ - now) / static_cast<double>(std::max<std::size_t>(tasks_, 1));
    if (tasks_ > 0) --tasks_;
  }
  bool is_over(double now) const { return now > until_; }

 private:
  double end_;
  std::size_t tasks_;  // that have not begun
  double until_ = 0;   // of the task that began last
};

}  // namespace lockstep
