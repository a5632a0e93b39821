#include "gui/model/layout_search.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "backends/simulated_step.hpp"
#include "core/format/format.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep::gui {
namespace {

constexpr int kNewsMs = 150;

/// The number of threads of a search. One core is left for the window.
int search_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
}

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

}  // namespace

/// What the threads of a search have found since the GUI thread last took it.
struct LayoutSearch::News {
  std::mutex mutex;
  LayoutsFound found;
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
  SearchOptions options;
  options.threads = search_threads();
  options.stop = [&] { return cancelled.load(); };
  options.progress = [&](const SearchProgress& progress) {
    const std::lock_guard lock(news.mutex);
    news.found.families = progress.families;
    news.found.done = progress.done;
    news.found.asked = progress.asked;
    news.found.too_large = progress.too_large;
    for (const FoundLayout& layout : *progress.found) {
      news.found.layouts.push_back(std::make_shared<const FoundLayout>(layout));
    }
  };
  Result<SearchResult> result = search(scenario, simulated_layout, options);
  if (!result) {
    found.errors = {result.error()};
    return found;
  }
  found.families = result->families;
  found.done = result->families - result->not_tried;
  found.asked = result->asked;
  found.too_large = result->too_large;
  for (FoundLayout& layout : result->found) {
    found.layouts.push_back(std::make_shared<const FoundLayout>(std::move(layout)));
  }
  return found;
}

void LayoutSearch::stop() {
  if (!active()) return;
  searching_.cancel();
  timer_.stop();
  take_news();
  changed_();
}

void LayoutSearch::take_news() {
  std::vector<FoundLayoutPtr> layouts = std::move(found_.layouts);
  {
    const std::lock_guard lock(news_->mutex);
    layouts.insert(layouts.end(), news_->found.layouts.begin(), news_->found.layouts.end());
    news_->found.layouts.clear();
    found_ = news_->found;
  }
  std::stable_sort(layouts.begin(), layouts.end(), [](const auto& a, const auto& b) {
    return a->figures.throughput > b->figures.throughput;
  });
  found_.layouts = std::move(layouts);
}

// ---------------------------------------------------------------- the table

std::vector<LayoutRow> layout_rows(const LayoutsFound& found, const RunPtr& open) {
  std::vector<LayoutRow> rows;
  for (const FoundLayoutPtr& layout : found.layouts) {
    const int rank = static_cast<int>(rows.size()) + 1;
    rows.push_back({layout, layout_name(layout->scenario), rank});
  }
  if (rows.empty() || !open || !open->scenario || !open->report ||
      !same_task(rows.front().layout->scenario, *open->scenario)) {
    return rows;
  }
  // Two layouts of one name differ in options that one of them does not use; their figures tell
  // whether they are the same.
  LayoutRow own{std::make_shared<const FoundLayout>(
                    FoundLayout{*open->scenario, layout_figures(*open->report)}),
                layout_name(*open->scenario), 0, true};
  const LayoutFigures& figures = own.layout->figures;
  for (LayoutRow& row : rows) {
    const LayoutFigures& other = row.layout->figures;
    if (row.name != own.name || other.step_time != figures.step_time ||
        other.peak_memory != figures.peak_memory) {
      continue;
    }
    row.open = true;
    return rows;
  }
  const auto slower = std::find_if(rows.begin(), rows.end(), [&](const LayoutRow& row) {
    return row.layout->figures.throughput < figures.throughput;
  });
  rows.insert(slower, std::move(own));
  return rows;
}

TableContent layout_content(std::vector<LayoutRow> rows, const std::string& trained_on) {
  const auto all = std::make_shared<const std::vector<LayoutRow>>(std::move(rows));
  const auto row = [all](std::size_t i) -> const LayoutRow& { return (*all)[i]; };
  const auto figure = [all](std::string title, auto value, auto text) {
    const auto of = [all, value](std::size_t i) { return value((*all)[i].layout->figures); };
    return TableColumn{std::move(title), [of, text](std::size_t i) { return text(of(i)); },
                       [of](std::size_t i) { return static_cast<double>(of(i)); }};
  };
  const auto time = [](double seconds) { return time_text({seconds}); };
  using F = LayoutFigures;
  TableContent content;
  content.rows = all->size();
  content.columns = {
      {"Rank",
       [row](std::size_t i) {
         if (row(i).rank == 0) return std::string("open");
         return (row(i).open ? "open: " : "") + std::to_string(row(i).rank);
       },
       [](std::size_t i) { return static_cast<double>(i); }},
      {"Layout", [row](std::size_t i) { return row(i).name; }, {}, false},
      figure(
          trained_on + "/s", [](const F& f) { return f.throughput; }, count_text),
      figure(
          "MFU", [](const F& f) { return f.mfu; }, percent_text),
      figure(
          "Step time", [](const F& f) { return f.step_time.v; }, time),
      figure(
          "Bubble", [](const F& f) { return f.bubble_fraction; }, percent_text),
      figure(
          "Exposed comm", [](const F& f) { return f.exposed_comm.v / f.step_time.v; },
          percent_text),
      figure(
          "Peak memory", [](const F& f) { return f.peak_memory.v; },
          [](std::int64_t bytes) { return bytes_text(Bytes{bytes}); }),
  };
  return content;
}

}  // namespace lockstep::gui
