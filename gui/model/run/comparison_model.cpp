#include "gui/model/run/comparison_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"

namespace lockstep::gui {
namespace {

constexpr const char* kWaits = ", waiting for peers";

/// Finds where things first occur in a run, by their names.
class Finder {
 public:
  explicit Finder(const RunView& run) : run_(run) {
    const Trace& trace = run.trace;
    First kinds(trace.names.size()), names(trace.names.size()), streams(trace.streams.size());
    for (SpanId i = 0; i < trace.spans.size(); ++i) {
      const TraceOp& op = run.lanes.op(trace.spans[i]);
      kinds.see(trace.spans, i, to_size(op.kind));
      names.see(trace.spans, i, to_size(op.name));
      streams.see(trace.spans, i, op.stream);
    }
    kinds_ = kinds.by_name(trace.names);
    names_ = names.by_name(trace.names);
    streams_ = streams.by_name(trace.streams);
    longest_.resize(trace.same_as.size());
    for (const StepAnalysis& step : run.steps) {
      for (const Bubble& bubble : step.bubbles.list) {
        const Bubble*& longest =
            longest_[bubble.rank][bubble.cause == BubbleCause::Communication ? 1 : 0];
        if (!longest || bubble.length() > longest->length()) longest = &bubble;
      }
    }
  }

  std::optional<Place> kind(const std::string& name) const { return place(kinds_, name); }
  std::optional<Place> operation(const std::string& name) const { return place(names_, name); }
  std::optional<Place> stream(const std::string& name) const { return place(streams_, name); }

  /// The first compute span of a rank.
  std::optional<Place> computes(Rank rank) const {
    for (const StepAnalysis& step : run_.steps) {
      const StepGraph::Range range = step.graph.of_rank(run_.trace.same_as[rank]);
      for (SpanIndex i = range.first; i < range.last; ++i) {
        if (step.graph.span_class(i) == SpanClass::Compute) return Place{{step.id(i), {}, {}}, {}};
      }
    }
    return std::nullopt;
  }
  /// The longest bubble of a rank, among those that communication causes or among the others.
  std::optional<Place> stands_still(Rank rank, bool communicates) const {
    const Bubble* longest = longest_[run_.trace.same_as[rank]][communicates ? 1 : 0];
    if (!longest) return std::nullopt;
    return Place{{{}, TimeRange{longest->begin, longest->end}, {rank}}, {}};
  }
  /// The longest bubble of a cause.
  std::optional<Place> bubble(BubbleCause cause) const {
    const Bubble* longest = nullptr;
    for (const StepAnalysis& step : run_.steps) {
      for (const Bubble& bubble : step.bubbles.list) {
        if (bubble.cause != cause) continue;
        if (!longest || bubble.length() > longest->length()) longest = &bubble;
      }
    }
    if (!longest) return std::nullopt;
    return Place{{{}, TimeRange{longest->begin, longest->end}, {longest->rank}}, {}};
  }
  /// The first moment at which most bytes of a kind are in use.
  std::optional<Place> memory(const std::string& kind) const {
    const Trace& trace = run_.trace;
    const auto found = std::find(trace.memory_kinds.begin(), trace.memory_kinds.end(), kind);
    if (found == trace.memory_kinds.end()) return std::nullopt;
    const std::size_t k = to_size(found - trace.memory_kinds.begin());
    const MemorySample* most = nullptr;
    const auto bytes = [k](const MemorySample& s) {
      return k < s.bytes_by_kind.size() ? s.bytes_by_kind[k] : 0;
    };
    for (const MemorySample& sample : run_.memory()) {
      if (!most || bytes(sample) > bytes(*most)) most = &sample;
    }
    if (!most || bytes(*most) == 0) return std::nullopt;
    return Place{{{}, {}, {most->rank}}, most->time};
  }
  std::optional<Place> step(std::int32_t number) const {
    for (const StepAnalysis& step : run_.steps) {
      if (step.graph[0].step != number) continue;
      return Place{{{}, TimeRange{step.graph.begin(), step.graph.end()}, {}}, {}};
    }
    return std::nullopt;
  }

 private:
  using Places = std::map<std::string, SpanId>;

  /// For each name, the first span, and the first span that waits.
  class First {
   public:
    explicit First(std::size_t names) : first_(2 * names) {}
    void see(const Spans& spans, SpanId i, std::size_t name) {
      const auto earlier = [&](std::optional<SpanId>& known) {
        if (!known || spans[i].begin < spans[*known].begin) known = i;
      };
      earlier(first_[2 * name]);
      if (spans[i].active > spans[i].begin) earlier(first_[2 * name + 1]);
    }
    Places by_name(const std::vector<std::string>& names) const {
      Places places;
      for (std::size_t i = 0; i < first_.size(); ++i) {
        if (first_[i]) places[names[i / 2] + (i % 2 == 1 ? kWaits : "")] = *first_[i];
      }
      return places;
    }

   private:
    std::vector<std::optional<SpanId>> first_;
  };

  static std::optional<Place> place(const Places& places, const std::string& name) {
    const auto found = places.find(name);
    if (found == places.end()) return std::nullopt;
    return Place{{found->second, {}, {}}, {}};
  }

  const RunView& run_;
  Places kinds_, names_, streams_;
  /// By rank with spans of its own: the longest bubble that communication does not cause, and that
  /// it does. Of a thousand ranks, to look through all bubbles for each would take minutes.
  IndexVector<Rank, std::array<const Bubble*, 2>> longest_;
};

/// Makes two rows of each difference: one for the time that runs, and, if anything waits for peers,
/// one for that.
template <class Difference, class Find>
std::vector<DifferenceRow> time_rows(const std::vector<Difference>& differences,
                                     std::string Difference::*name, const Finder& a,
                                     const Finder& b, Find find) {
  std::vector<DifferenceRow> rows;
  for (const Difference& d : differences) {
    const std::string& text = d.*name;
    rows.push_back(
        {text, d.a.time.v, d.b.time.v, d.a.count, d.b.count, (a.*find)(text), (b.*find)(text)});
    if (d.a.waiting.v == 0 && d.b.waiting.v == 0) continue;
    rows.push_back({text + kWaits, d.a.waiting.v, d.b.waiting.v, -1, -1, (a.*find)(text + kWaits),
                    (b.*find)(text + kWaits)});
  }
  return rows;
}

std::vector<DifferenceRow> cause_rows(const Comparison& c, const Finder& a, const Finder& b) {
  std::vector<DifferenceRow> rows;
  for (const StepCause part : StepCauses::ids()) {
    const Seconds x = c.parts_a[part], y = c.parts_b[part];
    if (x.v == 0 && y.v == 0) continue;
    DifferenceRow row{std::string(to_string(part)), x.v, y.v, -1, -1, {}, {}};
    if (const auto cause = cause_of(part)) {
      row.place_a = a.bubble(*cause);
      row.place_b = b.bubble(*cause);
    } else if (part == StepCause::Recompute) {
      row.place_a = a.kind("recompute");
      row.place_b = b.kind("recompute");
    } else {
      row.place_a = a.computes(0);
      row.place_b = b.computes(0);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<DifferenceRow> rank_rows(const Comparison& c, const Finder& a, const Finder& b) {
  std::vector<DifferenceRow> rows;
  for (const RankDifference& d : c.ranks) {
    const std::string rank = "rank " + std::to_string(d.number);
    rows.push_back({rank + " computes", d.compute_a.v, d.compute_b.v, -1, -1, a.computes(d.rank),
                    b.computes(d.rank)});
    rows.push_back({rank + ", exposed communication", d.exposed_a.v, d.exposed_b.v, -1, -1,
                    a.stands_still(d.rank, true), b.stands_still(d.rank, true)});
    rows.push_back({rank + " is idle", d.idle_a.v, d.idle_b.v, -1, -1,
                    a.stands_still(d.rank, false), b.stands_still(d.rank, false)});
  }
  return rows;
}

std::string verdict_of(const Comparison& c, bool known_programs) {
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : "; ") + words; };
  if (known_programs) {
    add(c.same_program ? "the same program" : "different programs");
    if (c.same_program) {
      add(c.same_order ? "the same order of operations" : "another order of operations");
      add(c.same_memory ? "equal peak memory" : "other peak memory");
    }
  }
  if (c.ranks.empty()) add("not equally many ranks");
  if (c.losses.steps > 0) {
    char words[96];
    if (c.losses.largest == 0) {
      std::snprintf(words, sizeof words, "equal losses over %d steps", c.losses.steps);
    } else {
      std::snprintf(words, sizeof words, "losses differ by up to %.2g over %d steps",
                    c.losses.largest, c.losses.steps);
    }
    add(words);
  }
  return text;
}

}  // namespace

std::pair<RunPtr, RunPtr> runs_to_compare(const std::vector<RunPtr>& runs, const RunPtr& shown,
                                          RunPtr a, RunPtr b) {
  const auto same_program = [](const RunPtr& x, const RunPtr& y) {
    return !x->trace.program_hash.empty() && x->trace.program_hash == y->trace.program_hash;
  };
  const auto partner = [&](const RunPtr& one) -> RunPtr {
    for (const RunPtr& run : runs) {
      if (run != one && same_program(run, one)) return run;
    }
    if (shown && shown != one) return shown;
    for (const RunPtr& run : runs) {
      if (run != one) return run;
    }
    return nullptr;
  };
  if (!a && !b) {
    for (const RunPtr& simulated : runs) {
      for (const RunPtr& real : runs) {
        if (simulated->simulated() && !real->simulated() && same_program(simulated, real)) {
          return {simulated, real};
        }
      }
    }
    for (const RunPtr& simulated : runs) {
      for (const RunPtr& trace : runs) {
        if (simulated->simulated() && trace->from_elsewhere() && trace != simulated) {
          return {simulated, trace};
        }
      }
    }
    if (!runs.empty()) a = runs.front();
  }
  if (a && !b) b = partner(a);
  if (b && !a) a = partner(b);
  return {std::move(a), std::move(b)};
}

ComparisonPtr make_comparison(const RunPtr& a, const RunPtr& b) {
  auto model = std::make_shared<ComparisonModel>();
  model->a = a;
  model->b = b;
  const Report report_a = report_of(*a), report_b = report_of(*b);
  model->step_a = report_a.step_time;
  model->step_b = report_b.step_time;
  const Comparison c = compare(report_a, a->trace, report_b, b->trace);
  model->parts_a = c.parts_a;
  model->parts_b = c.parts_b;
  model->conclusion = c.conclusion;
  model->verdict = verdict_of(c, !report_a.program_hash.empty() || !report_b.program_hash.empty());

  const Finder in_a(*a), in_b(*b);
  const bool kernels = a->from_elsewhere() && b->from_elsewhere();
  DifferenceTable causes{"Causes", "Cause", false, cause_rows(c, in_a, in_b)};
  DifferenceTable operations{kernels ? "Kernels" : "Operations", kernels ? "Kernel" : "Operation",
                             false,
                             time_rows(c.ops, &OpDifference::name, in_a, in_b, &Finder::operation)};
  DifferenceTable kinds{"Kinds", "Kind", false,
                        time_rows(c.kinds, &KindDifference::kind, in_a, in_b, &Finder::kind)};
  DifferenceTable streams{
      "Streams", "Stream", false,
      time_rows(c.streams, &StreamDifference::name, in_a, in_b, &Finder::stream)};
  DifferenceTable ranks{"Ranks", "Rank", false, rank_rows(c, in_a, in_b)};
  DifferenceTable memory{"Memory", "Most bytes of", true, {}};
  for (const MemoryDifference& d : compare_memory(a->trace, a->memory(), b->trace, b->memory())) {
    memory.rows.push_back({d.kind, static_cast<double>(d.a.v), static_cast<double>(d.b.v), -1, -1,
                           in_a.memory(d.kind), in_b.memory(d.kind)});
  }
  for (DifferenceTable* table : {&operations, &kinds, &streams, &ranks, &memory}) {
    std::stable_sort(table->rows.begin(), table->rows.end(),
                     [](const DifferenceRow& x, const DifferenceRow& y) {
                       return std::abs(x.a - x.b) > std::abs(y.a - y.b);
                     });
  }
  DifferenceTable steps{"Steps", "Step", false, {}};
  for (const StepDifference& d : c.steps) {
    std::string name = std::to_string(d.step_a);
    if (d.step_b != d.step_a) name += " and " + std::to_string(d.step_b);
    steps.rows.push_back({name, d.a.v, d.b.v, -1, -1, in_a.step(d.step_a), in_b.step(d.step_b)});
  }
  if (kernels) std::swap(operations, kinds);  // kernels say more than kinds
  model->tables = {std::move(causes), std::move(kinds),  std::move(operations), std::move(streams),
                   std::move(ranks),  std::move(memory), std::move(steps)};
  return model;
}

TableContent difference_content(const ComparisonPtr& model, std::size_t table) {
  const DifferenceTable& shown = model->tables[table];
  const auto row = [model, table](std::size_t i) -> const DifferenceRow& {
    return model->tables[table].rows[i];
  };
  const bool bytes = shown.bytes;
  const auto text = [bytes](double value) {
    if (!bytes) return time_text({value});
    return bytes_text({static_cast<std::int64_t>(value)});
  };
  TableContent content;
  content.rows = shown.rows.size();
  content.columns = {
      {shown.column, [row](std::size_t i) { return row(i).name; }, {}, false},
      {"A", [row, text](std::size_t i) { return text(row(i).a); },
       [row](std::size_t i) { return row(i).a; }},
      {"B", [row, text](std::size_t i) { return text(row(i).b); },
       [row](std::size_t i) { return row(i).b; }},
      // The column is sorted by size, whatever the sign.
      {"Difference",
       [row, text](std::size_t i) {
         const double d = row(i).b - row(i).a;
         return d == 0 ? std::string("0") : (d > 0 ? "+" : "-") + text(std::abs(d));
       },
       [row](std::size_t i) { return std::abs(row(i).b - row(i).a); }},
      {"Change",
       [row](std::size_t i) {
         const DifferenceRow& r = row(i);
         return change_of({{r.a}, {}, r.count_a < 0 ? 1 : r.count_a},
                          {{r.b}, {}, r.count_b < 0 ? 1 : r.count_b});
       },
       [row](std::size_t i) {
         return row(i).a > 0 ? std::abs(row(i).b / row(i).a - 1) : row(i).b > 0 ? 1e300 : 0;
       }},
  };
  const bool counted = std::any_of(shown.rows.begin(), shown.rows.end(),
                                   [](const DifferenceRow& r) { return r.count_a >= 0; });
  if (!counted) return content;
  const auto count = [row](const char* title, std::int64_t DifferenceRow::*member) {
    return TableColumn{
        title,
        [row, member](std::size_t i) {
          const std::int64_t n = row(i).*member;
          return n < 0 ? std::string() : std::to_string(n);
        },
        [row, member](std::size_t i) { return static_cast<double>(row(i).*member); }};
  };
  content.columns.push_back(count("Count A", &DifferenceRow::count_a));
  content.columns.push_back(count("Count B", &DifferenceRow::count_b));
  return content;
}

}  // namespace lockstep::gui
