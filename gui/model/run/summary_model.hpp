// SummaryModel: the numbers a run is judged by, where each rank's time goes, who holds others up.
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
  std::string title, value;  // "MFU", "41.2 %"; a number that is not known is "–"
  std::string note;          // what it is of, or why it is not known
  bool known = true;
};

/// Disjoint parts of a rank's step, as RankCauses has them.
inline constexpr int kNumTimeParts = 5;
inline constexpr std::array<std::string_view, kNumTimeParts> kTimePartNames = {
    "Computation", "Overlapping", "Communication", "Waiting", "Other"};
using TimeParts = std::array<Seconds, kNumTimeParts>;
TimeParts parts_of(const RankCauses& rank);
TimeParts mean_parts(const Report& report);  // over the ranks
Seconds sum(const TimeParts& parts);         // the step

/// Ranks whose steps consist of the same parts.
struct PartsRow {
  std::vector<Rank> ranks;  // ascending
  TimeParts parts{};
};

struct SummaryModel {
  RunPtr run;
  Report report;
  std::vector<Card> cards;
  std::vector<PartsRow> rows;  // by first rank
  /// By rank: where others wait longest for it, if anywhere.
  std::vector<std::optional<SpanId>> worst_arrival;
  Seconds longest() const;  // of the rows' sums
};
using SummaryPtr = std::shared_ptr<const SummaryModel>;

/// The run's report; of a trace from elsewhere, what spans alone can tell.
Report report_of(const RunView& run);
/// Null scenario: not known.
std::vector<Card> cards_of(const Report& report, const Scenario* scenario);
/// n log n in the spans: not for the GUI thread.
SummaryPtr make_summary(const RunPtr& run);

/// "rank 3", "ranks 0–3, 8" as long as it is short, then "0, 4, … (16 ranks)".
std::string label_of(const std::vector<Rank>& ranks);
/// The same by the numbers that the ranks of `report` have in their job.
std::string label_of(const Report& report, std::vector<Rank> ranks);

/// "rank 3 comes last to 12 collectives of a step, and others wait 4 ms for it".
std::string straggler_text(const SummaryModel& model);

/// "Forward passes read old weights. Updates that they miss: 2 on rank 0, …"; empty: none.
std::string staleness_text(const SummaryModel& model);

/// A row per rank: to how many collectives it comes last, what others wait for it, what it waits,
/// updates that its forward passes miss (if any rank's do), and its parts. Row and rank are one
/// number. The model lives as long as the table.
TableContent rank_content(const SummaryPtr& model);
/// Where a rank's row points: its worst arrival, or the rank.
Selection place_of(const SummaryModel& model, Rank rank);

}  // namespace lockstep::gui
