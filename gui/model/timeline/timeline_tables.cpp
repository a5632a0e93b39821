#include "gui/model/timeline/timeline_tables.hpp"

#include <algorithm>
#include <memory>

#include "core/analysis/name_statistics.hpp"
#include "core/analysis/selection.hpp"
#include "core/format/format.hpp"
#include "gui/model/run/describe.hpp"

namespace lockstep::gui {
namespace {

double ticks(SimTime t) { return static_cast<double>(t.count()); }

bool has_rank(const Selection& selection, Rank rank) {
  return selection.ranks.empty() ||
         std::binary_search(selection.ranks.begin(), selection.ranks.end(), rank);
}

TableColumn time_column(std::string title, const std::function<SimTime(std::size_t)>& time) {
  return {std::move(title), [time](std::size_t row) { return text_of(time(row)); },
          [time](std::size_t row) { return ticks(time(row)); }};
}

TableColumn number_column(std::string title,
                          const std::function<std::int64_t(std::size_t)>& number) {
  return {std::move(title),
          [number](std::size_t row) {
            const std::int64_t n = number(row);
            return n < 0 ? std::string() : std::to_string(n);
          },
          [number](std::size_t row) { return static_cast<double>(number(row)); }};
}

TableColumn text_column(std::string title, std::function<std::string(std::size_t)> text) {
  return {std::move(title), std::move(text), {}, false};
}

}  // namespace

TimelineTable span_table(const RunPtr& run, const Selection& selection) {
  // If everything is shown, the number of a row is that of its span, and nothing is stored.
  const auto rows = std::make_shared<std::vector<std::uint32_t>>();
  const bool all = !selection.range && selection.ranks.empty();
  const auto& spans = run->trace.spans;
  if (!all) {
    for (SpanId i = 0; i < spans.size(); ++i) {
      const bool inside = !selection.range || (spans[i].end > selection.range->begin &&
                                               spans[i].begin < selection.range->end);
      if (inside && has_rank(selection, spans[i].rank)) {
        rows->push_back(static_cast<std::uint32_t>(i));
      }
    }
  }
  const auto id = [rows, all](std::size_t row) { return all ? row : (*rows)[row]; };
  const auto span = [run, id](std::size_t row) { return run->trace.spans[id(row)]; };
  const auto op = [run, span](std::size_t row) { return run->lanes.op(span(row)); };
  const SimTime zero = run->lanes.begin();
  TimelineTable table;
  table.content.rows = all ? spans.size() : rows->size();
  table.content.columns = {
      number_column("Rank", [span](std::size_t row) { return span(row).rank; }),
      text_column("Stream",
                  [run, op](std::size_t row) { return run->trace.streams[op(row).stream]; }),
      text_column("Operation",
                  [run, op](std::size_t row) { return run->trace.names[op(row).name]; }),
      text_column("Kind",
                  [run, span](std::size_t row) {
                    return std::string(long_name(run->lanes.look(span(row))));
                  }),
      number_column("Stage", [op](std::size_t row) { return op(row).stage; }),
      number_column("Microbatch", [op](std::size_t row) { return op(row).microbatch; }),
      number_column("Layer", [op](std::size_t row) { return op(row).layer; }),
      time_column("Begin", [span, zero](std::size_t row) { return span(row).begin - zero; }),
      time_column("Waits", [span](std::size_t row) { return span(row).active - span(row).begin; }),
      time_column("Runs", [span](std::size_t row) { return span(row).end - span(row).active; }),
      {"Size",
       [op](std::size_t row) {
         return op(row).bytes > 0 ? bytes_text({op(row).bytes}) : std::string();
       },
       [op](std::size_t row) { return static_cast<double>(op(row).bytes); }},
  };
  if (!run->weights.empty()) {
    const auto weights = [run, span](std::size_t row) { return run->weights_of(span(row)); };
    table.content.columns.push_back(
        number_column("Version", [weights](std::size_t row) { return weights(row).updates; }));
    table.content.columns.push_back(number_column("Missed updates", [weights](std::size_t row) {
      return weights(row).updates < 0 ? -1 : weights(row).missed;
    }));
  }
  table.target = [id](std::size_t row) { return Selection{id(row), std::nullopt, {}}; };
  return table;
}

TimelineTable bubble_table(const RunPtr& run, const Selection& selection) {
  struct Place {
    std::uint32_t step, bubble;
  };
  const auto rows = std::make_shared<std::vector<Place>>();
  for (std::size_t s = 0; s < run->steps.size(); ++s) {
    const auto& list = run->steps[s].bubbles.list;
    for (std::size_t b = 0; b < list.size(); ++b) {
      const bool inside = !selection.range || (list[b].end > selection.range->begin &&
                                               list[b].begin < selection.range->end);
      if (inside && has_rank(selection, list[b].rank)) {
        rows->push_back({static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(b)});
      }
    }
  }
  const auto step = [run, rows](std::size_t row) -> const StepAnalysis& {
    return run->steps[(*rows)[row].step];
  };
  const auto bubble = [step, rows](std::size_t row) -> const Bubble& {
    return step(row).bubbles.list[(*rows)[row].bubble];
  };
  const SimTime zero = run->lanes.begin();
  TimelineTable table;
  table.content.rows = rows->size();
  table.content.columns = {
      number_column("Rank", [bubble](std::size_t row) { return bubble(row).rank; }),
      text_column("Cause",
                  [bubble](std::size_t row) { return std::string(to_string(bubble(row).cause)); }),
      time_column("Begin", [bubble, zero](std::size_t row) { return bubble(row).begin - zero; }),
      time_column("Lasts", [bubble](std::size_t row) { return bubble(row).length(); }),
      text_column("Why", [step, bubble](
                             std::size_t row) { return describe(step(row).graph, bubble(row)); }),
  };
  table.target = [bubble](std::size_t row) {
    const Bubble& b = bubble(row);
    return Selection{std::nullopt, TimeRange{b.begin, b.end}, {b.rank}};
  };
  return table;
}

TimelineTable path_table(const RunPtr& run) {
  struct Place {
    const StepAnalysis* step;
    const PathSegment* segment;
  };
  const auto rows = std::make_shared<std::vector<Place>>();
  for (const StepAnalysis& step : run->steps) {
    for (const PathSegment& segment : step.path) rows->push_back({&step, &segment});
  }
  const auto segment = [rows](std::size_t row) -> const PathSegment& {
    return *(*rows)[row].segment;
  };
  const auto span = [rows](std::size_t row) {
    return (*rows)[row].step->graph[(*rows)[row].segment->span];
  };
  const SimTime zero = run->lanes.begin();
  TimelineTable table;
  table.content.rows = rows->size();
  table.content.columns = {
      time_column("Begin", [segment, zero](std::size_t row) { return segment(row).begin - zero; }),
      time_column("Lasts", [segment](std::size_t row) { return segment(row).length(); }),
      number_column("Rank", [span](std::size_t row) { return span(row).rank; }),
      text_column("What",
                  [rows, segment](std::size_t row) {
                    const std::string what = describe((*rows)[row].step->graph, segment(row).span);
                    return segment(row).kind == PathSegment::Kind::Run ? what : "before " + what;
                  }),
  };
  table.target = [rows](std::size_t row) {
    const Place& place = (*rows)[row];
    return Selection{place.step->id(place.segment->span), std::nullopt, {}};
  };
  return table;
}

TimelineTable mark_table(const RunPtr& run, std::vector<Mark> marks) {
  const auto list = std::make_shared<const std::vector<Mark>>(std::move(marks));
  const SimTime zero = run->lanes.begin();
  TimelineTable table;
  table.content.rows = list->size();
  table.content.columns = {
      number_column("Mark", [](std::size_t row) { return static_cast<std::int64_t>(row) + 1; }),
      time_column("Begin",
                  [list, zero](std::size_t row) { return (*list)[row].range.begin - zero; }),
      time_column(
          "Lasts",
          [list](std::size_t row) { return (*list)[row].range.end - (*list)[row].range.begin; }),
      text_column("Ranks",
                  [list](std::size_t row) {
                    std::string text;
                    for (const Rank rank : (*list)[row].ranks) {
                      text += (text.empty() ? "" : ", ") + std::to_string(rank);
                    }
                    return text.empty() ? "all" : text;
                  }),
      text_column("What", [list](std::size_t row) { return (*list)[row].words; }),
  };
  table.target = [list](std::size_t row) {
    return Selection{std::nullopt, (*list)[row].range, (*list)[row].ranks};
  };
  return table;
}

TimelineTable statistics_table(const RunPtr& run, const Selection& selection) {
  struct Line {
    std::string name;
    SpanStatistics statistics;
    std::vector<Rank> ranks;
  };
  const auto lines = std::make_shared<std::vector<Line>>();
  const TimeRange range =
      selection.range.value_or(TimeRange{run->lanes.begin(), run->lanes.end() + SimTime{1}});
  for (const StepAnalysis& step : run->steps) {
    if (step.graph.end() < range.begin || step.graph.begin() >= range.end) continue;
    const std::span<const SimTime> self =
        run->self.empty()
            ? std::span<const SimTime>()
            : std::span(run->self).subspan(step.first_span, step.graph.spans().size());
    const lockstep::Selection found = select(
        step.graph, range.begin, range.end,
        [&](SpanIndex i) { return has_rank(selection, step.graph[i].rank); }, self);
    const std::string prefix =
        run->steps.size() > 1 ? "step " + std::to_string(step.graph[0].step) + ": " : "";
    lines->push_back({prefix + "all", found.all, selection.ranks});
    for (const auto& [kind, statistics] : found.by_kind) {
      lines->push_back({prefix + std::string(kind), statistics, selection.ranks});
    }
    for (const auto& [rank, statistics] : found.by_rank) {
      lines->push_back({prefix + run->trace.rank_labels[rank], statistics, {rank}});
    }
  }
  const auto column = [lines](const char* title, SimTime SpanStatistics::*member) {
    return time_column(
        title, [lines, member](std::size_t row) { return (*lines)[row].statistics.*member; });
  };
  TimelineTable table;
  table.content.rows = lines->size();
  table.content.columns = {
      text_column("Of", [lines](std::size_t row) { return (*lines)[row].name; }),
      number_column("Count", [lines](std::size_t row) { return (*lines)[row].statistics.count; }),
      column("Total", &SpanStatistics::total),
      column("Self", &SpanStatistics::self),
      column("Inside", &SpanStatistics::inside),
      time_column(
          "Average",
          [lines](std::size_t row) { return to_sim_time((*lines)[row].statistics.mean()); }),
      column("Least", &SpanStatistics::least),
      column("Median", &SpanStatistics::p50),
      column("90 %", &SpanStatistics::p90),
      column("99 %", &SpanStatistics::p99),
      column("Most", &SpanStatistics::most),
      column("Waiting", &SpanStatistics::waiting),
  };
  table.target = [lines, range](std::size_t row) {
    return Selection{std::nullopt, range, (*lines)[row].ranks};
  };
  return table;
}

TimelineTable name_table(const RunPtr& run, const Selection& selection) {
  const auto wanted = [&](std::size_t i) {
    const Span& s = run->trace.spans[i];
    const bool inside =
        !selection.range || (s.end > selection.range->begin && s.begin < selection.range->end);
    return inside && has_rank(selection, s.rank);
  };
  const auto lines = std::make_shared<const std::vector<NameStatistics>>(
      statistics_by_name(run->trace, run->self, wanted));
  const auto line = [lines](std::size_t row) -> const NameStatistics& { return (*lines)[row]; };
  const auto column = [line](const char* title, SimTime SpanStatistics::*member) {
    return time_column(title, [line, member](std::size_t row) { return line(row).times.*member; });
  };
  const auto what = [run, line](std::size_t row) {
    TraceOp op;
    op.name = line(row).name;
    op.kind = line(row).kind;
    return std::string(long_name(run->lanes.look_of(op)));
  };
  TimelineTable table;
  table.content.rows = lines->size();
  table.content.columns = {
      text_column("Name",
                  [run, line](std::size_t row) { return run->trace.names[line(row).name]; }),
      text_column("Kind", what),
      number_column("Count", [line](std::size_t row) { return line(row).times.count; }),
      column("Total", &SpanStatistics::total),
      column("Self", &SpanStatistics::self),
      {"Share", [line](std::size_t row) { return percent_text(line(row).share); },
       [line](std::size_t row) { return line(row).share; }},
      time_column("Average",
                  [line](std::size_t row) { return to_sim_time(line(row).times.mean()); }),
      column("Least", &SpanStatistics::least),
      column("Median", &SpanStatistics::p50),
      column("90 %", &SpanStatistics::p90),
      column("99 %", &SpanStatistics::p99),
      column("Most", &SpanStatistics::most),
  };
  const TimeRange range = selection.range.value_or(TimeRange{SimTime::min(), SimTime::max()});
  const std::vector<Rank> ranks = selection.ranks;
  table.target = [run, line, range, ranks](std::size_t row) {
    Selection longest;
    SimTime most{-1};
    for (SpanId i = 0; i < run->trace.spans.size(); ++i) {
      const Span& s = run->trace.spans[i];
      const TraceOp& op = run->lanes.op(s);
      if (op.name != line(row).name || op.kind != line(row).kind) continue;
      if (s.end <= range.begin || s.begin >= range.end || s.end - s.active <= most) continue;
      if (!ranks.empty() && !std::binary_search(ranks.begin(), ranks.end(), s.rank)) continue;
      most = s.end - s.active;
      longest.span = i;
    }
    return longest;
  };
  return table;
}

}  // namespace lockstep::gui
