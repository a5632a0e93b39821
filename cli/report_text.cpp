#include "cli/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/causes_text.hpp"
#include "core/analysis/trace_report.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kWorstOffenders = 10;
constexpr std::size_t kWidestRanges = 24;  // characters

/// Lines that have a name, a value and a note.
class Summary {
 public:
  void add(std::string name, std::string value, std::string note = "") {
    table_.add({std::move(name), std::move(value), std::move(note)});
    empty_ = false;
  }
  bool empty() const { return empty_; }
  std::string text(const Screen& screen) const { return table_.text(screen); }

 private:
  TextTable table_{{"", "", ""}, 3};
  bool empty_ = true;
};

/// Several ranks with equal figures, as there are in most worlds: a row of a table.
struct RankRow {
  std::size_t first = 0;  // index of the first
  std::vector<Rank> numbers;
};

/// The ranks in groups of equal ones, `same(i, j)`, in the order of their first.
template <class Same, class Number>
std::vector<RankRow> groups_of(std::size_t ranks, Same same, Number number) {
  std::vector<RankRow> groups;
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [&](const RankRow& group) { return same(group.first, i); });
    if (found != groups.end()) {
      found->numbers.push_back(number(i));
    } else if (groups.size() < std::size_t{kMaxRankRows}) {
      groups.push_back({i, {number(i)}});
    } else {
      return {};  // there are too many rows to show
    }
  }
  for (RankRow& group : groups) std::sort(group.numbers.begin(), group.numbers.end());
  return groups;
}

/// The ranks with the least and the most of each of these columns.
template <class... Fields>
std::vector<RankRow> extremes_of(const Report& report, Fields... fields) {
  std::set<std::size_t> extremes;
  const auto keep = [&](auto field) {
    const auto less = [&](const RankReport& a, const RankReport& b) { return field(a) < field(b); };
    const auto [low, high] = std::minmax_element(report.ranks.begin(), report.ranks.end(), less);
    extremes.insert(static_cast<std::size_t>(low - report.ranks.begin()));
    extremes.insert(static_cast<std::size_t>(high - report.ranks.begin()));
  };
  (keep(fields), ...);
  std::vector<RankRow> rows;
  for (const std::size_t i : extremes) rows.push_back({i, {report.ranks[i].number}});
  return rows;
}

std::vector<RankRow> groups_of(const Report& report) {
  const auto same = [&](std::size_t i, std::size_t j) {
    RankReport other = report.ranks[i];
    other.rank = report.ranks[j].rank;
    other.number = report.ranks[j].number;
    return other == report.ranks[j];
  };
  return groups_of(report.ranks.size(), same,
                   [&](std::size_t i) { return report.ranks[i].number; });
}

/// "0-7 16-23".
std::string ranges_text(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    if (text.size() > kWidestRanges) return text + fmt::format(" ... ({} ranks)", ranks.size());
    text += (text.empty() ? "" : " ") + std::to_string(ranks[i]);
    if (j > i) text += "-" + std::to_string(ranks[j]);
    i = j + 1;
  }
  return text;
}

bool shares_rows(const std::vector<RankRow>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const RankRow& row) { return row.numbers.size() > 1; });
}

std::string rank_table(const Report& report, const Screen& screen) {
  std::vector<RankRow> rows = groups_of(report);
  const bool extremes = rows.empty() && !report.ranks.empty();
  if (extremes) {
    rows = extremes_of(
        report, [](const RankReport& r) { return r.compute.v; },
        [](const RankReport& r) { return r.exposed_comm.v; },
        [](const RankReport& r) { return r.peak_memory.v; });
  }
  const bool whole = !report.model.empty();  // otherwise the report was made from a trace alone
  std::vector<Heading> columns{shares_rows(rows) ? "ranks" : "rank", "compute", "exposed comm",
                               "idle"};
  if (whole) columns.insert(columns.end(), {{"sent", 1}, "peak memory", {"in flight", 2}});
  const bool stale = std::any_of(report.ranks.begin(), report.ranks.end(),
                                 [](const RankReport& r) { return r.weight_staleness > 0; });
  if (stale) columns.emplace_back("updates missed");
  TextTable table(std::move(columns), 0);
  for (const RankRow& row : rows) {
    const RankReport& r = report.ranks[row.first];
    std::vector<std::string> cells{ranges_text(row.numbers), time_text(r.compute),
                                   time_text(r.exposed_comm), time_text(r.idle)};
    if (whole) {
      cells.insert(cells.end(), {bytes_text(r.comm_bytes_sent), bytes_text(r.peak_memory),
                                 std::to_string(r.peak_microbatches_in_flight)});
    }
    if (stale) cells.push_back(std::to_string(r.weight_staleness));
    table.add(std::move(cells));
  }
  return table.text(screen) +
         (extremes ? wrapped(fmt::format("({} ranks; shown: the least and the most of compute, "
                                         "exposed comm and memory)\n",
                                         report.ranks.size()),
                             screen)
                   : "");
}

std::string kind_table(const Report& report, const Screen& screen) {
  TextTable table({"op kind", "count", "time", "waiting", {"mean", 1}});
  std::vector<std::pair<std::string, KindTime>> kinds(report.kinds.begin(), report.kinds.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
  for (const auto& [name, kind] : kinds) {
    table.add({name, count_text(static_cast<double>(kind.count)), time_text(kind.time),
               time_text(kind.waiting),
               time_text((1.0 / static_cast<double>(std::max<std::int64_t>(kind.count, 1))) *
                         kind.time)});
  }
  return table.text(screen);
}

const RankReport* fullest(const Report& report) {
  const auto rank = std::max_element(
      report.ranks.begin(), report.ranks.end(),
      [](const RankReport& a, const RankReport& b) { return a.peak_memory < b.peak_memory; });
  return rank == report.ranks.end() ? nullptr : &*rank;
}

/// "rank 3: param 2 MB, grad 2 MB".
std::string memory_by_kind(const RankReport& rank) {
  std::vector<std::pair<std::string, std::int64_t>> kinds(rank.peak_memory_by_kind.begin(),
                                                          rank.peak_memory_by_kind.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = fmt::format("rank {}", rank.number);
  const char* separator = ": ";
  for (const auto& [kind, bytes] : kinds) {
    text += separator + kind + " " + bytes_text(Bytes{bytes});
    separator = ", ";
  }
  return text;
}

/// A time in days, or in years if the days would be very many.
std::string training_time_text(Seconds time) {
  constexpr double kDay = 86400, kYear = 365.25 * kDay;
  if (time.v >= 2 * kYear) return fmt::format("{:.1f} years", time.v / kYear);
  if (time.v >= 2 * kDay) return fmt::format("{:.1f} days", time.v / kDay);
  return time_text(time);
}

struct Rate {
  double per_s = 0;
  std::string unit;
};
Rate rate_of(const Report& r) {
  if (r.images_per_s > 0) return {r.images_per_s, "images/s"};
  return {r.tokens_per_s, "tokens/s"};
}

/// The figures of a report; `scenario` is null for a trace alone.
std::string figures_text(Summary summary, const Report& r, const Scenario* scenario,
                         const Screen& screen) {
  if (r.step_time.v > 0) {  // a trace of memory has no step
    std::string remark =
        rate_of(r).per_s > 0 ? count_text(rate_of(r).per_s) + " " + rate_of(r).unit : "";
    if (r.certainty) {
      const LikelyFactors& likely = r.certainty->step_time;
      remark += (remark.empty() ? "" : "; ") + likely_text(r.step_time, likely.least, likely.most);
    }
    summary.add("step time", time_text(r.step_time), remark);
  }
  if (r.apart_step_time.v > 0 && r.sync_step_time.v > 0) {
    summary.add(
        "synchronization", time_text(r.sync_step_time),
        "steps that bring the replicas together; the others take " + time_text(r.apart_step_time));
  }
  if (r.model_flops_per_step.v > 0) {
    summary.add("MFU", percent_text(r.mfu), flops_text(r.model_flops_per_step) + " per step");
    if (r.hardware_flops_per_step > r.model_flops_per_step) {
      summary.add("HFU", percent_text(r.hfu),
                  flops_text(r.hardware_flops_per_step) + " with what is recomputed");
    }
  }
  if (r.dollars_per_billion_tokens > 0) {
    summary.add("cost", fmt::format("{:.4g} $", r.dollars_per_billion_tokens), "per 10⁹ tokens");
  }
  if (scenario != nullptr && r.time_to_train.v > 0) {
    summary.add(
        "time to train", training_time_text(r.time_to_train),
        count_text(scenario->training.total_tokens) + (r.images_per_s > 0 ? " images" : " tokens"));
  }
  const bool device = tells_device_work(r);
  if (device) {
    summary.add("bubble", percent_text(r.bubble_fraction) + " of the step",
                percent_text(r.bubble_over_ideal) + " idle time / busiest rank's compute");
  } else if (r.step_time.v > 0) {
    summary.add("bubble", "-", "no device computes or transfers in this trace");
  }
  if (const Seconds data = r.causes.bubbles[BubbleCause::Data]; data.v > 1e-3 * r.step_time.v) {
    summary.add("data loader", time_text(data) + " of the step",
                "in which a rank computes nothing, but waits for samples");
  }
  const double share = r.step_time.v > 0 ? r.exposed_comm.v / r.step_time.v : 0;
  if (device) {
    summary.add("exposed comm", time_text(r.exposed_comm),
                percent_text(share) + " of the step, mean over ranks");
  }
  if (r.slowed_compute.v > 0) {
    summary.add("slowed compute", time_text(r.slowed_compute),
                percent_text(r.slowed_compute.v / r.step_time.v) +
                    " of the step: kernels beside communication, mean over ranks");
  }
  if (const RankReport* rank = fullest(r);
      rank != nullptr && (scenario != nullptr || rank->peak_memory.v > 0)) {
    std::string likely;
    if (r.certainty) {
      const LikelyFactors& factors = r.certainty->memory;
      likely = likely_text(rank->peak_memory, factors.least, factors.most) + "; ";
    }
    summary.add("peak memory", bytes_text(rank->peak_memory), likely + memory_by_kind(*rank));
    if (rank->host_memory.v > 0) {
      summary.add("host memory", bytes_text(rank->host_memory), "what is offloaded");
    }
    if (rank->drive.v > 0) {
      summary.add("drive", bytes_text(rank->drive), "of the rank, between its uses");
    }
  }
  if (!r.losses.empty()) {
    const std::string remark = losses_remark(r.losses);
    summary.add("loss", fmt::format("{:.4f} -> {:.4f}", r.losses.front(), r.losses.back()),
                fmt::format("{} steps{}{}", r.losses.size(), remark.empty() ? "" : ", ", remark));
  }
  if (!r.validation.empty()) {
    const auto& [step, loss] = r.validation.back();
    const auto best =
        std::min_element(r.validation.begin(), r.validation.end(),
                         [](const auto& a, const auto& b) { return a.loss < b.loss; });
    summary.add("validation loss", fmt::format("{:.4f}", loss),
                fmt::format("after step {}; the lowest {:.4f} after step {}", step, best->loss,
                            best->step));
  }
  if (!r.program_hash.empty()) summary.add("program", r.program_hash);
  const std::string causes = causes_text(r, screen);
  return summary.text(screen) + "\n" + rank_table(r, screen) + "\n" + kind_table(r, screen) +
         (causes.empty() ? "" : "\n" + causes);
}

/// Ranks side by side, in groups of those that are equal in both runs; or the first, if there are
/// too many groups.
std::string rank_differences(const Report& a, const Report& b, const Comparison& c,
                             const Screen& screen) {
  const auto number = [&](std::size_t i) { return c.ranks[i].number; };
  const auto memory = [](const Report& report, const RankDifference& r) {
    return report.ranks[r.rank].peak_memory;
  };
  const auto same = [&](std::size_t i, std::size_t j) {
    const RankDifference &x = c.ranks[i], &y = c.ranks[j];
    return x.compute_a == y.compute_a && x.compute_b == y.compute_b && x.exposed_a == y.exposed_a &&
           x.exposed_b == y.exposed_b && x.idle_a == y.idle_a && x.idle_b == y.idle_b &&
           memory(a, x) == memory(a, y) && memory(b, x) == memory(b, y);
  };
  std::vector<RankRow> rows = groups_of(c.ranks.size(), same, number);
  for (std::size_t i = 0; rows.size() < std::size_t{kMaxRankRows} && i < c.ranks.size(); ++i) {
    if (i == 0 && !rows.empty()) break;
    rows.push_back({i, {number(i)}});
  }
  TextTable ranks({shares_rows(rows) ? "ranks" : "rank",
                   "compute A",
                   "compute B",
                   "change",
                   {"exposed A", 2},
                   {"exposed B", 2},
                   {"idle A", 1},
                   {"idle B", 1},
                   {"memory A", 3},
                   {"memory B", 3}},
                  0);
  std::size_t shown = 0;
  for (const RankRow& row : rows) {
    const RankDifference& r = c.ranks[row.first];
    shown += row.numbers.size();
    ranks.add({ranges_text(row.numbers), time_text(r.compute_a), time_text(r.compute_b),
               change_text(r.compute_a.v, r.compute_b.v), time_text(r.exposed_a),
               time_text(r.exposed_b), time_text(r.idle_a), time_text(r.idle_b),
               bytes_text(memory(a, r)), bytes_text(memory(b, r))});
  }
  const std::size_t rest = c.ranks.size() - shown;
  return ranks.text(screen) + (rest > 0 ? fmt::format("({} more ranks)\n", rest) : "");
}

}  // namespace

std::string mesh_text(const StrategySpec& s) {
  std::string text;
  const auto add = [&](const char* name, int degree) {
    if (degree > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " × ", name, degree);
  };
  add("pp", s.pipeline_parallel_degree);
  add("dp_replicate", s.data_parallel_replicate_degree);
  add("dp_shard", s.data_parallel_shard_degree);
  if (s.expert_parallel_degree > 1) {
    text += fmt::format(" (ep {}{})", s.expert_parallel_degree,
                        s.expert_parallel_folding ? " folded" : "");
  }
  add("cp", s.context_parallel_degree);
  add("tp", s.tensor_parallel_degree);
  return text.empty() ? "1 rank" : text;
}

std::string report_text(const Report& r, const Scenario& scenario, const Screen& screen) {
  Summary summary;
  const std::string how = r.software.empty() ? "" : as_run_by(r.software) + ", ";
  summary.add("scenario", scenario.name,
              fmt::format("{} on {}, {}{}, {} backend", r.model, r.cluster, how,
                          mesh_text(scenario.strategy), r.backend));
  return figures_text(std::move(summary), r, &scenario, screen);
}

std::string report_text(const Report& r, const std::string& name, const Screen& screen) {
  Summary summary;
  const std::string ranks = fmt::format("{} rank{}", r.world_size, r.world_size == 1 ? "" : "s");
  if (r.program_hash.empty() || r.cluster.empty()) {
    summary.add("trace", name, fmt::format("{}, {}", r.backend, ranks));
  } else {
    summary.add("run", name,
                fmt::format("{} on {}, {}, {} backend", r.model.empty() ? "a model" : r.model,
                            r.cluster, ranks, r.backend));
  }
  return figures_text(std::move(summary), r, nullptr, screen);
}

std::string sweep_text(const std::vector<SweepRow>& rows, const Screen& screen) {
  const auto ran = std::find_if(rows.begin(), rows.end(),
                                [](const SweepRow& row) { return row.report.has_value(); });
  const std::string unit = ran == rows.end() ? "tokens/s" : rate_of(*ran->report).unit;
  std::set<int> worlds;
  for (const SweepRow& row : rows) {
    if (row.report) worlds.insert(row.report->world_size);
  }
  const bool scales = worlds.size() > 1;
  std::vector<Heading> heads = {"",
                                "step time",
                                unit,
                                "MFU",
                                "bubble",
                                {"bubble over ideal", 1},
                                {"exposed comm", 2},
                                "peak memory",
                                {"loss", 3}};
  const bool trained = std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) {
    return row.report && !row.report->losses.empty();
  });
  if (!trained) heads.pop_back();
  if (scales) heads.insert(heads.begin() + 3, "scaling");
  TextTable table(heads);
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells(heads.size(), "-");
    cells[0] = row.label;
    cells[1] = row.failure;
    if (row.report) {
      const Report& r = *row.report;
      const RankReport* rank = fullest(r);
      cells = {row.label,
               time_text(r.step_time),
               rate_of(r).per_s > 0 ? count_text(rate_of(r).per_s) : "-",
               r.mfu > 0 ? percent_text(r.mfu) : "-",
               percent_text(r.bubble_fraction),
               percent_text(r.bubble_over_ideal),
               time_text(r.exposed_comm),
               rank != nullptr ? bytes_text(rank->peak_memory) : "-"};
      if (trained) {
        cells.push_back(r.losses.empty() ? "-" : fmt::format("{:.4f}", r.losses.back()));
      }
      if (scales) cells.insert(cells.begin() + 3, fmt::format("{:.3f}", r.scaling_efficiency));
    }
    table.add(std::move(cells));
  }
  return table.text(screen);
}

std::string comparison_text(const std::string& name_a, const Report& a, const std::string& name_b,
                            const Report& b, const Comparison& c, const Screen& screen) {
  std::string text = wrapped(
      fmt::format("A  {}: {}\nB  {}: {}\n", a.backend, name_a, b.backend, name_b), screen, 3);
  if (!c.conclusion.empty()) text += "\n" + wrapped(c.conclusion, screen) + "\n";
  Summary summary;
  const auto yes = [](bool same) { return same ? "equal" : "DIFFERENT"; };
  if (!a.program_hash.empty() && !b.program_hash.empty()) {  // a trace from elsewhere has none
    summary.add("program", yes(c.same_program),
                a.program_hash + (c.same_program ? "" : ", " + b.program_hash));
    summary.add("op order", yes(c.same_order), "per rank and stream");
    summary.add("peak memory", yes(c.same_memory), "every rank, to the byte");
  }
  if (c.losses.steps > 0) {
    summary.add("losses", fmt::format("{} steps", c.losses.steps),
                fmt::format("largest difference {:.3g} (step {}), relative {:.3g}",
                            c.losses.largest, c.losses.worst_step + 1, c.losses.relative));
  }

  if (!summary.empty()) text += "\n" + summary.text(screen);

  TextTable totals({"", "A", "B", "change"});
  const auto total = [&](const std::string& name, const std::string& x, const std::string& y,
                         double vx, double vy) {
    totals.add({name, x, y, change_text(vx, vy)});
  };
  total("step time", time_text(a.step_time), time_text(b.step_time), a.step_time.v, b.step_time.v);
  const auto known = [](double value, const std::string& text) { return value > 0 ? text : "-"; };
  const double rate_a = rate_of(a).per_s, rate_b = rate_of(b).per_s;
  total(rate_of(a).unit, known(rate_a, count_text(rate_a)), known(rate_b, count_text(rate_b)),
        rate_a, rate_b);
  total("MFU", known(a.mfu, percent_text(a.mfu)), known(b.mfu, percent_text(b.mfu)), a.mfu, b.mfu);
  total("bubble", percent_text(a.bubble_fraction), percent_text(b.bubble_fraction),
        a.bubble_fraction, b.bubble_fraction);
  total("exposed comm", time_text(a.exposed_comm), time_text(b.exposed_comm), a.exposed_comm.v,
        b.exposed_comm.v);
  text += "\n" + totals.text(screen);

  TextTable parts({"of the step, mean over ranks", "A", "B", "difference"});
  for (const StepCause part : StepCauses::ids()) {
    if (c.parts_a[part].v == 0 && c.parts_b[part].v == 0) continue;
    parts.add({std::string(to_string(part)), time_text(c.parts_a[part]), time_text(c.parts_b[part]),
               time_text(c.parts_b[part] - c.parts_a[part])});
  }
  parts.add({"all", time_text(a.step_time), time_text(b.step_time),
             time_text(b.step_time - a.step_time)});
  text += "\n" + parts.text(screen);

  TextTable kinds({"op kind",
                   {"count A", 3},
                   {"count B", 3},
                   "time A",
                   "time B",
                   "change",
                   {"waiting A", 1},
                   {"waiting B", 1}});
  for (const KindDifference& k : c.kinds) {
    kinds.add({k.kind, count_text(static_cast<double>(k.a.count)),
               count_text(static_cast<double>(k.b.count)), time_text(k.a.time), time_text(k.b.time),
               change_text(k.a.time.v, k.b.time.v), time_text(k.a.waiting),
               time_text(k.b.waiting)});
  }
  text += "\n" + kinds.text(screen);

  if (!c.ranks.empty()) text += "\n" + rank_differences(a, b, c, screen);

  TextTable streams({"stream", "time A", "time B", "change", {"waiting A", 1}, {"waiting B", 1}});
  for (const StreamDifference& s : c.streams) {
    streams.add({s.name, time_text(s.a.time), time_text(s.b.time),
                 change_text(s.a.time.v, s.b.time.v), time_text(s.a.waiting),
                 time_text(s.b.waiting)});
  }
  text += "\n" + streams.text(screen);

  if (std::any_of(c.memory.begin(), c.memory.end(),
                  [](const MemoryDifference& m) { return m.a != m.b; })) {
    TextTable memory({"most alive of", "A", "B", "change"});
    for (const MemoryDifference& m : c.memory) {
      memory.add({m.kind, bytes_text(m.a), bytes_text(m.b),
                  change_text(static_cast<double>(m.a.v), static_cast<double>(m.b.v))});
    }
    text += "\n" + memory.text(screen);
  }

  TextTable worst({"largest differences by operation", "time A", "time B", "difference", "change"});
  for (std::size_t i = 0; i < std::min(c.ops.size(), kWorstOffenders); ++i) {
    const OpDifference& op = c.ops[i];
    worst.add({op.name, time_text(op.a.time), time_text(op.b.time),
               time_text(op.b.time - op.a.time), change_of(op.a, op.b)});
  }
  return text + "\n" + worst.text(screen);
}

}  // namespace lockstep
