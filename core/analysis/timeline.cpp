#include "core/analysis/timeline.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/phase.hpp"
#include "core/trace/op_class.hpp"

namespace lockstep {
namespace {

/// Consecutive compute ops of one phase, stage and microbatch, drawn as one.
struct Block {
  char letter;
  std::int32_t stage, microbatch;
  SimTime begin, end;
};

char letter_of(std::uint8_t phase) {
  switch (static_cast<Phase>(phase)) {
    case Phase::F:
      return 'F';
    case Phase::B:
      return 'B';
    case Phase::I:
      return 'I';
    case Phase::W:
      return 'W';
    case Phase::R:
      return 'R';
    case Phase::O:
      return 'O';
    case Phase::None:
      return '+';
  }
  return '?';
}

/// The stream that has most of a rank's compute time; in our own programs, Stream::Compute.
int compute_stream(const Trace& trace, std::vector<Span>::const_iterator begin,
                   std::vector<Span>::const_iterator end) {
  const TraceRole& role = trace.roles[trace.role_of_rank[begin->rank]];
  std::vector<SimTime> time(trace.streams.size(), SimTime{});
  for (auto s = begin; s != end; ++s) {
    const TraceOp& op = role.ops[s->op];
    if (op_class(trace.names[op.kind]) == OpClass::Compute) time[op.stream] += s->end - s->begin;
  }
  return static_cast<int>(std::max_element(time.begin(), time.end()) - time.begin());
}

/// The blocks of a rank. An idle time of at least `gap` between two of them keeps them apart.
std::vector<Block> blocks_of(const Trace& trace, std::vector<Span>::const_iterator begin,
                             std::vector<Span>::const_iterator end, SimTime gap) {
  const TraceRole& role = trace.roles[trace.role_of_rank[begin->rank]];
  const int stream = compute_stream(trace, begin, end);
  std::vector<Block> blocks;
  for (auto s = begin; s != end; ++s) {
    const TraceOp& op = role.ops[s->op];
    if (op.stream != stream || s->end <= s->active) continue;
    const char letter = letter_of(op.phase);
    if (!blocks.empty()) {
      Block& last = blocks.back();
      if (last.letter == letter && last.stage == op.stage && last.microbatch == op.microbatch &&
          s->active - last.end < gap) {
        last.end = s->end;
        continue;
      }
    }
    blocks.push_back({letter, op.stage, op.microbatch, s->active, s->end});
  }
  return blocks;
}

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

std::string draw_rank(const std::vector<Block>& blocks, const Scale& scale) {
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
  for (const Block& b : blocks) {
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

std::string time_text(SimTime t) {
  const double s = to_seconds(t).v;
  const struct {
    double scale;
    const char* unit;
  } units[] = {{1, "s"}, {1e3, "ms"}, {1e6, "us"}};
  const auto& u = units[s >= 1 ? 0 : s >= 1e-3 ? 1 : 2];
  char text[40];
  std::snprintf(text, sizeof text, "%.4g %s", s * u.scale, u.unit);
  return text;
}

}  // namespace

std::string draw_timeline(const Trace& trace, const TimelineOptions& options) {
  if (trace.spans.empty()) return "";
  const auto end = std::find_if(trace.spans.begin(), trace.spans.end(),
                                [&](const Span& s) { return s.step != trace.spans.front().step; });
  SimTime first = trace.spans.front().begin, last = trace.spans.front().end;
  std::size_t label_width = 0;
  for (auto s = trace.spans.begin(); s != end; ++s) {
    first = std::min(first, s->begin);
    last = std::max(last, s->end);
    label_width = std::max(label_width, trace.rank_labels[s->rank].size());
  }
  const std::int64_t columns =
      std::max<std::int64_t>(options.width - static_cast<std::int64_t>(label_width) - 2, 10);
  const Scale scale{first, std::max(last - first, SimTime{1}), columns};
  std::string text;
  int drawn = 0, left_out = 0;
  for (auto s = trace.spans.begin(); s != end;) {
    const auto rank_end = std::find_if(s, end, [&](const Span& o) { return o.rank != s->rank; });
    if (drawn < options.max_ranks) {
      std::string label = trace.rank_labels[s->rank];
      label.resize(label_width, ' ');
      text += label + "  " +
              draw_rank(blocks_of(trace, s, rank_end, scale.length / columns + SimTime{1}), scale) +
              "\n";
      ++drawn;
    } else {
      ++left_out;
    }
    s = rank_end;
  }
  const std::string begin_text = "0", end_text = time_text(last - first);
  text += std::string(label_width + 2, ' ') + begin_text;
  const std::int64_t fill =
      columns - static_cast<std::int64_t>(begin_text.size() + end_text.size());
  text += std::string(to_size(std::max<std::int64_t>(fill, 1)), ' ') + end_text + "\n";
  if (left_out > 0) text += std::to_string(left_out) + " more ranks are not drawn\n";
  std::size_t copies = 0;
  for (std::size_t r = 0; r < trace.same_as.size(); ++r) {
    copies += trace.same_as[r] != static_cast<Rank>(r) ? 1 : 0;
  }
  if (copies > 0) {
    text += std::to_string(copies) + " more rank" + (copies == 1 ? " does" : "s do") +
            " exactly what one of these does\n";
  }
  return text;
}

}  // namespace lockstep
