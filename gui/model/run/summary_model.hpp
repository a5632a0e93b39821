// SummaryModel: the numbers by which a run is judged, what each rank's time is spent on, and which
// ranks others wait for.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/model/run/run_view.hpp"
#include "gui/model/run/selection.hpp"
#include "gui/model/run/table_model.hpp"

namespace lockstep::gui {

/// One number with its name.
struct Card {
  std::string title, value;  // "MFU", "41.2 %"; "–" if the number is not known
  std::string note;          // what the number counts, or why it is not known
  bool known = true;
};

/// The disjoint parts of a rank's step, as in RankCauses.
inline constexpr int kNumTimeParts = 5;
inline constexpr std::array<std::string_view, kNumTimeParts> kTimePartNames = {
    "Computation", "Overlapping", "Communication", "Waiting", "Other"};
using TimeParts = std::array<Seconds, kNumTimeParts>;
TimeParts parts_of(const RankCauses& rank);
TimeParts mean_parts(const Report& report);  // over the ranks
Seconds sum(const TimeParts& parts);         // the length of the step

/// Ranks whose steps consist of the same parts.
struct PartsRow {
  std::vector<Rank> ranks;  // ascending
  TimeParts parts{};
};

struct SummaryModel {
  RunPtr run;
  Report report;
  std::vector<Card> cards;
  std::vector<PartsRow> rows;  // sorted by their first ranks
  /// By rank: the span for which others wait longest, if they wait for any.
  std::vector<std::optional<SpanId>> worst_arrival;
  Seconds longest() const;  // the largest of the rows' sums
};
using SummaryPtr = std::shared_ptr<const SummaryModel>;

/// The run's report; for a trace from elsewhere, one of what spans alone can tell.
Report report_of(const RunView& run);
/// The cards of a report; `scenario` is null if it is not known.
std::vector<Card> cards_of(const Report& report, const Scenario* scenario);
/// Takes n log n for n spans, so it must not run on the GUI thread.
SummaryPtr make_summary(const RunPtr& run);

/// "rank 3", or "ranks 0–3, 8" if that is short, or "0, 4, … (16 ranks)".
std::string label_of(const std::vector<Rank>& ranks);
/// The same, with the numbers that the ranks of `report` have in the job from which they come.
std::string label_of(const Report& report, std::vector<Rank> ranks);

/// "rank 3 comes last to 12 collectives of a step, and others wait 4 ms for it".
std::string straggler_text(const SummaryModel& model);

/// "Forward passes read old weights. Updates that they miss: 2 on rank 0, …"; empty if none do.
std::string staleness_text(const SummaryModel& model);

/// A table with a row for each rank: to how many collectives it comes last, how long others wait
/// for it, how long it waits, how many updates its forward passes miss (if those of any rank do),
/// and its parts. The number of a row is its rank. The content keeps the model alive.
TableContent rank_content(const SummaryPtr& model);
/// What the row of a rank points to: the rank's worst arrival, or else the rank.
Selection place_of(const SummaryModel& model, Rank rank);

}  // namespace lockstep::gui
