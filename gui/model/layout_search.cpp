#include "gui/model/layout_search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "core/base/thread_team.hpp"
#include "core/format/format.hpp"
#include "core/plan/explain.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"

namespace lockstep::gui {
namespace {

constexpr int kNewsMs = 150;

/// The number of threads of a search. One core is left for the window.
int search_threads() { return std::max(1, num_cores() - 1); }

/// Whether two scenarios differ in their layouts only.
bool same_task(const Scenario& a, Scenario b) {
  if (a.global_batch_size() != b.global_batch_size()) return false;
  b.name = a.name;
  b.directory = a.directory;
  b.expect = a.expect;
  b.strategy = a.strategy;
  b.activation_checkpoint = a.activation_checkpoint;
  b.training.local_batch_size = a.training.local_batch_size;
  b.training.global_batch_size = a.training.global_batch_size;
  return a == b;
}

JudgedLayout judged(const EstimatedLayout& e) {
  const Scenario& s = e.scenario;
  return {layout_name(s),
          family_of(e.point),
          s,
          e.estimate.step_time,
          e.estimate.needed,
          static_cast<double>(s.tokens_per_step()) / e.estimate.step_time.v,
          std::nullopt,
          e,
          e.point};
}

JudgedLayout judged(const FoundLayout& f) {
  return {layout_name(f.scenario),
          family_of(f.point),
          f.scenario,
          f.figures.step_time,
          f.figures.memory.needed,
          f.figures.throughput,
          f.figures,
          std::nullopt,
          f.point};
}

/// Adds layouts. One that was simulated takes the place of its estimate, also where the search
/// chose other settings for it.
void add(std::vector<JudgedLayoutPtr>& layouts, std::vector<JudgedLayout> news) {
  for (JudgedLayout& layout : news) {
    const auto known = std::find_if(layouts.begin(), layouts.end(), [&](const JudgedLayoutPtr& l) {
      return l->point == layout.point;
    });
    if (known == layouts.end()) {
      layouts.push_back(std::make_shared<const JudgedLayout>(std::move(layout)));
      continue;
    }
    if (!layout.estimated) layout.estimated = (*known)->estimated;
    *known = std::make_shared<const JudgedLayout>(std::move(layout));
  }
  std::stable_sort(layouts.begin(), layouts.end(),
                   [](const JudgedLayoutPtr& a, const JudgedLayoutPtr& b) {
                     const bool first = a->simulated.has_value(), second = b->simulated.has_value();
                     return first != second ? first : a->step_time < b->step_time;
                   });
}

}  // namespace

/// What the threads of a search have found since the GUI thread last took it.
struct LayoutSearch::News {
  std::mutex mutex;
  LayoutsFound found;  // without layouts
  std::vector<JudgedLayout> layouts;
};

LayoutSearch::LayoutSearch(std::function<void()> changed)
    : changed_(std::move(changed)), searching_(timer_) {
  timer_.setInterval(kNewsMs);
  QObject::connect(&timer_, &QTimer::timeout, &timer_, [this] {
    take_news();
    changed_();
  });
}

void LayoutSearch::start(const Document& document, const std::string& file) {
  found_ = {};
  news_ = std::make_shared<News>();
  searching_.submit(
      [this, document, file, news = news_](const Cancelled& cancelled) -> Latest::Apply {
        return [this, found = searched(document, file, *news, cancelled)] {
          timer_.stop();
          found_ = found;
          changed_();
        };
      });
  timer_.start();
  changed_();
}

LayoutsFound LayoutSearch::searched(const Document& document, const std::string& file, News& news,
                                    const Cancelled& cancelled) {
  LayoutsFound found;
  LoadedScenario loaded = parse_scenario(document.text, file, document.overrides);
  if (!loaded.ok()) {
    found.errors = std::move(loaded.errors);
    return found;
  }
  const Scenario& scenario = loaded.points.front().scenario;
  found.task = search_task(scenario);
  found.trained_on = trained_on(scenario);
  {
    const std::lock_guard lock(news.mutex);
    news.found = found;
  }
  SpaceOptions options;
  options.threads = search_threads();
  options.stop = [&] { return cancelled.load(); };
  options.progress = [&](const SpaceNews& more) {
    std::vector<JudgedLayout> layouts;
    for (const EstimatedLayout& e : more.estimated) layouts.push_back(judged(e));
    for (const FoundLayout& f : more.found) layouts.push_back(judged(f));
    const std::lock_guard lock(news.mutex);
    news.found.counts = more.counts;
    std::move(layouts.begin(), layouts.end(), std::back_inserter(news.layouts));
  };
  Result<SpaceResult> result = search_space(scenario, simulated_layout, simulated_probe, options);
  if (!result) {
    found.errors = {result.error()};
    return found;
  }
  found.counts = result->counts;
  found.lost = std::move(result->lost);
  found.capacity = result->capacity;
  std::vector<JudgedLayout> layouts;
  for (const EstimatedLayout& e : result->estimated) layouts.push_back(judged(e));
  for (const FoundLayout& f : result->found) layouts.push_back(judged(f));
  add(found.layouts, std::move(layouts));
  return found;
}

void LayoutSearch::stop() {
  if (!active()) return;
  searching_.cancel();
  timer_.stop();
  take_news();
  found_.stopped = true;
  changed_();
}

void LayoutSearch::take_news() {
  std::vector<JudgedLayoutPtr> layouts = std::move(found_.layouts);
  std::vector<JudgedLayout> more;
  {
    const std::lock_guard lock(news_->mutex);
    more = std::move(news_->layouts);
    news_->layouts.clear();
    found_ = news_->found;
  }
  add(layouts, std::move(more));
  found_.layouts = std::move(layouts);
}

// ---------------------------------------------------------------- the table

std::vector<LayoutRow> layout_rows(const LayoutsFound& found, const RunPtr& open) {
  std::vector<LayoutRow> rows;
  std::set<std::string> families;
  for (const JudgedLayoutPtr& layout : found.layouts) {
    LayoutRow row;
    row.layout = layout;
    row.rank = static_cast<int>(rows.size()) + 1;
    row.best_of_family = families.insert(layout->family).second;
    const JudgedLayout& best = *found.layouts.front();
    if (row.rank > 1 && best.estimated && layout->estimated) {
      row.because = why_slower(*best.estimated, *layout->estimated);
    }
    rows.push_back(std::move(row));
  }
  std::vector<LayoutRow*> by_time;
  for (LayoutRow& row : rows) by_time.push_back(&row);
  std::stable_sort(by_time.begin(), by_time.end(), [](const LayoutRow* a, const LayoutRow* b) {
    return a->layout->step_time < b->layout->step_time;
  });
  Bytes least{std::numeric_limits<std::int64_t>::max()};
  for (LayoutRow* row : by_time) {
    row->front = row->layout->needed < least;
    least = std::min(least, row->layout->needed);
  }
  if (rows.empty() || !open || !open->scenario || !open->report ||
      !same_task(rows.front().layout->scenario, *open->scenario)) {
    return rows;
  }
  // Two layouts of one name differ in options that one of them does not use; their figures tell
  // whether they are the same. An estimate becomes what its simulation says.
  const LayoutFigures figures = layout_figures(*open->report);
  const std::string name = layout_name(*open->scenario);
  for (LayoutRow& row : rows) {
    const std::optional<LayoutFigures>& other = row.layout->simulated;
    if (row.layout->name != name) continue;
    if (other ? other->step_time != figures.step_time || other->peak_memory != figures.peak_memory
              : row.layout->scenario.strategy != open->scenario->strategy) {
      continue;
    }
    row.open = true;
    return rows;
  }
  JudgedLayout own{name,
                   "the open scenario",
                   *open->scenario,
                   figures.step_time,
                   fullest_rank(*open->report),
                   figures.throughput,
                   figures,
                   std::nullopt,
                   {}};
  const auto slower = std::find_if(rows.begin(), rows.end(), [&](const LayoutRow& row) {
    return figures.step_time < row.layout->step_time;
  });
  LayoutRow row;
  row.layout = std::make_shared<const JudgedLayout>(std::move(own));
  row.open = true;
  rows.insert(slower, std::move(row));
  return rows;
}

TableContent layout_content(std::vector<LayoutRow> rows, const std::string& trained_on) {
  const auto all = std::make_shared<const std::vector<LayoutRow>>(std::move(rows));
  const auto row = [all](std::size_t i) -> const LayoutRow& { return (*all)[i]; };
  const auto figure = [all](std::string title, auto value, auto text) {
    const auto of = [all, value](std::size_t i) { return value(*(*all)[i].layout); };
    return TableColumn{std::move(title), [of, text](std::size_t i) { return text(of(i)); },
                       [of](std::size_t i) { return static_cast<double>(of(i)); }};
  };
  const auto known = [](double fraction) { return fraction < 0 ? "" : percent_text(fraction); };
  using L = JudgedLayout;
  TableContent content;
  content.rows = all->size();
  content.columns = {
      {"Rank",
       [row](std::size_t i) {
         if (row(i).rank == 0) return std::string("open");
         return (row(i).open ? "open: " : "") + std::to_string(row(i).rank);
       },
       [](std::size_t i) { return static_cast<double>(i); }},
      {"Layout", [row](std::size_t i) { return row(i).layout->name; }, {}, false},
      figure(
          trained_on + "/s", [](const L& l) { return l.throughput; }, count_text),
      figure(
          "MFU", [](const L& l) { return l.simulated ? l.simulated->mfu : -1; }, known),
      figure(
          "Step time", [](const L& l) { return l.step_time.v; },
          [](double seconds) { return time_text({seconds}); }),
      figure(
          "Memory", [](const L& l) { return l.needed.v; },
          [](std::int64_t bytes) { return bytes_text(Bytes{bytes}); }),
      {"Known by",
       [row](std::size_t i) -> std::string {
         return row(i).layout->simulated ? "simulation" : "estimate";
       },
       {},
       false},
      {"Slower because", [row](std::size_t i) { return row(i).because; }, {}, false},
  };
  return content;
}

}  // namespace lockstep::gui
