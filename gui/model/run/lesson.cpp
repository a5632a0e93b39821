#include "gui/model/run/lesson.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/format/format.hpp"

namespace lockstep::gui {
namespace {

constexpr double kWorthSaying = 0.005;  // of the step
constexpr double kMuch = 0.1;

}  // namespace

std::string closing_words(const StepAnalysis& step) {
  const Bubbles& bubbles = step.bubbles;
  std::string words = "The step took " + time_text(to_seconds(step.graph.makespan())) + ". ";
  const double whole = static_cast<double>(bubbles.makespan.count()) *
                       static_cast<double>(std::max<std::size_t>(bubbles.by_rank.size(), 1));
  if (!(whole > 0)) return words;
  std::vector<std::pair<double, BubbleCause>> shares;
  for (const BubbleCause cause : TimeByCause::ids()) {
    const double share = static_cast<double>(bubbles.total[cause].count()) / whole;
    if (share >= kWorthSaying) shares.emplace_back(share, cause);
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  words += "Ranks computed nothing for " + percent_text(bubbles.fraction()) + " of it";
  for (std::size_t i = 0; i < shares.size(); ++i) {
    words += (i == 0 ? ": " : ", ") + std::string(to_string(shares[i].second)) + " " +
             percent_text(shares[i].first);
  }
  words += ".";
  double filling = 0;
  for (const auto& [share, cause] : shares) {
    if (cause == BubbleCause::WarmUp || cause == BubbleCause::CoolDown) filling += share;
  }
  if (filling >= kMuch) {
    words +=
        " Warm-up and cool-down are the pipeline filling and draining: with more microbatches they "
        "are a smaller part. Try the slider in What if.";
  }
  return words;
}

}  // namespace lockstep::gui
