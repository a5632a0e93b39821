#include "core/analysis/timeline.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/analysis/timeline_blocks.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// Maps times of the step to columns of the line.
struct Scale {
  SimTime begin, length;
  std::int64_t columns;
  SimTime edge(std::int64_t column) const {  // where the column begins
    return begin + SimTime{static_cast<std::int64_t>(static_cast<double>(length.count()) *
                                                     static_cast<double>(column) /
                                                     static_cast<double>(columns))};
  }
  std::int64_t nearest_edge(SimTime t) const {
    const double x = static_cast<double>((t - begin).count()) /
                     static_cast<double>(length.count()) * static_cast<double>(columns);
    return std::clamp<std::int64_t>(std::llround(x), 0, columns);
  }
};

std::string draw_rank(const std::vector<TimelineBlock>& blocks, const Scale& scale) {
  std::string line(to_size(scale.columns), '.');
  // First, each column shows what takes most of it, which may be idle time.
  auto first = blocks.begin();
  for (std::int64_t c = 0; c < scale.columns; ++c) {
    const SimTime from = scale.edge(c), to = scale.edge(c + 1);
    while (first != blocks.end() && first->end <= from) ++first;
    SimTime idle = to - from, best{};
    for (auto b = first; b != blocks.end() && b->begin < to; ++b) {
      const SimTime share = std::min(b->end, to) - std::max(b->begin, from);
      idle -= share;
      if (share > best) {
        best = share;
        line[to_size(c)] = b->letter;
      }
    }
    if (idle > best) line[to_size(c)] = '.';
  }
  // Then the blocks that are wide enough get their microbatch number.
  for (const TimelineBlock& b : blocks) {
    if (b.microbatch < 0) continue;
    const std::string label = b.letter + std::to_string(b.microbatch);
    const std::int64_t from = scale.nearest_edge(b.begin), to = scale.nearest_edge(b.end);
    if (to - from < static_cast<std::int64_t>(label.size())) continue;
    std::string text(to_size(to - from), '-');
    text.replace(0, label.size(), label);
    line.replace(to_size(from), text.size(), text);
  }
  return line;
}

}  // namespace

std::string draw_timeline(const Trace& trace, const TimelineOptions& options) {
  if (trace.spans.empty()) return "";
  const FirstStep step = first_step(trace);
  std::size_t label_width = 0;
  for (const Spans::Run& run : trace.spans.of_first_step()) {
    label_width = std::max(label_width, trace.rank_labels[run.rank].size());
  }
  const std::int64_t columns =
      std::max<std::int64_t>(options.width - static_cast<std::int64_t>(label_width) - 2, 10);
  const Scale scale{step.first, std::max(step.last - step.first, SimTime{1}), columns};
  std::string text;
  int drawn = 0, left_out = 0;
  for (const Spans::Run& run : trace.spans.of_first_step()) {
    if (drawn < options.max_ranks) {
      std::string label = trace.rank_labels[run.rank];
      label.resize(label_width, ' ');
      text += label + "  " +
              draw_rank(timeline_blocks(trace, run, scale.length / columns + SimTime{1}), scale) +
              "\n";
      ++drawn;
    } else {
      ++left_out;
    }
  }
  const std::string begin_text = "0", end_text = timeline_time(step.last - step.first);
  text += std::string(label_width + 2, ' ') + begin_text;
  const std::int64_t fill =
      columns - static_cast<std::int64_t>(begin_text.size() + end_text.size());
  text += std::string(to_size(std::max<std::int64_t>(fill, 1)), ' ') + end_text + "\n";
  if (left_out > 0) text += std::to_string(left_out) + " more ranks are not drawn\n";
  return text + twins_remark(trace);
}

}  // namespace lockstep
