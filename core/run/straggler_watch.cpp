#include "core/run/straggler_watch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/index_vector.hpp"

namespace lockstep {

Seconds time_waiting(std::span<const OpTime> times) {
  // A sweep over the beginnings and ends of waiting and of working.
  struct Change {
    SimTime at;
    int waits, works;
  };
  std::vector<Change> changes;
  changes.reserve(4 * times.size());
  for (const OpTime& time : times) {
    if (time.begin < time.active) {
      changes.push_back({time.begin, 1, 0});
      changes.push_back({time.active, -1, 0});
    }
    if (time.active < time.end) {
      changes.push_back({time.active, 0, 1});
      changes.push_back({time.end, 0, -1});
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.at < b.at; });
  SimTime total{}, since{};
  int waits = 0, works = 0;
  for (const Change& change : changes) {
    if (waits > 0 && works == 0) total += change.at - since;
    waits += change.waits;
    works += change.works;
    since = change.at;
  }
  return to_seconds(total);
}

std::string StragglerWatch::add(Seconds step, const std::vector<Seconds>& waiting) {
  const auto ranks = static_cast<double>(waiting.size());
  waiting_.resize(waiting.size());
  waits_.mean = {};
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    waits_.mean.v += waiting[i].v / ranks;
    waiting_[i].v += waiting[i].v;
  }
  time_.v += step.v;
  if (waiting.size() < 2 || ++steps_ < kWindow) return "";
  const auto least = std::min_element(waiting_.begin(), waiting_.end());
  std::vector<Seconds> others(waiting_.begin(), least);
  others.insert(others.end(), least + 1, waiting_.end());
  const auto middle = others.begin() + std::ssize(others) / 2;
  std::nth_element(others.begin(), middle, others.end());
  const double late = (middle->v - least->v) / time_.v;
  const auto percent = [&](double time) {
    return std::to_string(std::lround(100 * time / time_.v)) + " %";
  };
  const auto rank = static_cast<Rank>(least - waiting_.begin());
  const std::optional<Rank> found = late > kLate ? std::optional(rank) : std::nullopt;
  std::string text;
  if (found != std::exchange(waits_.straggler, found)) {
    text = found ? "rank " + std::to_string(rank) + " is a straggler: in the last " +
                       std::to_string(kWindow) + " steps it waited " + percent(least->v) +
                       " of the time for others, they " + percent(middle->v)
                 : "no rank is a straggler any more";
  }
  steps_ = 0;
  time_ = {};
  waiting_.assign(waiting.size(), {});
  return text;
}

}  // namespace lockstep
