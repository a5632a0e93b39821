// Tests a profile of eight ranks as users have them: with several streams, kernels that overlap,
// and clocks that differ (tests/data/make-kineto-fsdp8).
#include <algorithm>
#include <map>
#include <numeric>

#include "core/analysis/stragglers.hpp"
#include "core/trace/gzip_file.hpp"
#include "gui/draw/timeline_drawing.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

const std::string kFolder = LOCKSTEP_SOURCE_DIR "/tests/data/kineto-fsdp8";
constexpr int kRanks = 8;
constexpr Rank kSlow = 5;

RunPtr opened() {
  static const RunPtr run = [] {
    const Cancelled never{false};
    return load(kFolder, never).run;
  }();
  REQUIRE(run);
  return run;
}

std::size_t events_in_files() {
  std::size_t events = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    GzipReader file(kFolder + "/rank" + std::to_string(rank) + ".json.gz");
    const std::string text(file.begin(), file.end());
    for (std::size_t at = 0; (at = text.find(R"("ph": "X")", at)) != std::string::npos; ++at) {
      ++events;
    }
  }
  return events;
}

TEST_CASE("every event of eight ranks is on a lane, and every lane is drawn whole", "[gui][draw]") {
  const RunPtr run = opened();
  const std::size_t events = events_in_files();
  REQUIRE(events > 1000);
  CHECK(run->world_size() == kRanks);
  CHECK(run->lanes.spans() == events);
  LayoutChoice choice = initial_choice(*run);
  for (const bool folded : {true, false}) {
    choice = folded_ranks(*run, choice, folded);
    const TimelineLayout layout = lay_out(*run, choice, {20, 22, 14});
    TimelineFrame frame;
    frame.size = {1300, layout.height + frame.ruler};
    frame.axis = {run->lanes.begin(), run->lanes.end() + SimTime{1}, 1300 - frame.gutter};
    const DisplayList list = draw_timeline(*run, layout, frame, TextSize{7, 16, {}});
    const std::size_t drawn =
        std::accumulate(list.fills.begin(), list.fills.end(), std::size_t{0},
                        [](std::size_t sum, const Fill& f) { return sum + f.stands_for; });
    std::size_t in_rows = 0;
    for (const Row& row : layout.rows) in_rows += row.lane ? row.lane->count() : 0;
    CHECK(drawn == in_rows);
    CHECK((folded ? layout.rows.size() == kRanks : in_rows == events));
  }
}

TEST_CASE("kernels that overlap lie beside each other and are counted", "[gui][draw]") {
  const RunPtr run = opened();
  std::size_t beside = 0;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const Lane* main = run->lanes.main_of_rank(rank);
    REQUIRE(main != nullptr);
    CHECK(run->trace.streams[main->stream] == "stream 7");
    for (const Lane& lane : run->lanes.of_rank(rank)) {
      if (run->trace.streams[lane.stream] != "stream 7 (2)") continue;
      beside += lane.count();
    }
  }
  CHECK(beside == 8 * 2 * 8);  // ranks, steps, and once forward and once backward in four blocks
  CHECK(std::any_of(run->notes.begin(), run->notes.end(), [](const std::string& note) {
    return note.starts_with("128 events overlapped");
  }));
}

TEST_CASE("clocks that are milliseconds off meet at the ends of collectives", "[gui][draw]") {
  const RunPtr run = opened();
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<SimTime>> ends;
  for (const Span& span : run->trace.spans) {
    const TraceOp& op = run->lanes.op(span);
    const Look look = run->lanes.look(span);
    if (look != Look::AllGather && look != Look::ReduceScatter) continue;
    ends[{op.channel, op.seq}].push_back(span.end);
  }
  REQUIRE(ends.size() == 22);  // (7 all-gathers and 4 reduce-scatters) in two steps
  for (const auto& [collective, times] : ends) {
    CHECK(times.size() == kRanks);
    const auto [first, last] = std::minmax_element(times.begin(), times.end());
    CHECK(to_seconds(*last - *first).v < 1e-6);
  }
}

TEST_CASE("the slow rank of eight is named, and the others' waiting is its doing", "[gui][draw]") {
  const RunPtr run = opened();
  const StepAnalysis& step = run->steps.front();
  const Stragglers stragglers = find_stragglers(step.graph);
  const auto& slow = stragglers.ranks[kSlow];
  CHECK(slow.caused > stragglers.waited * 9 / 10);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    if (rank != kSlow) CHECK(stragglers.ranks[rank].waited > slow.waited);
  }
}

}  // namespace
}  // namespace lockstep::gui
