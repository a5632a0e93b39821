#include "cli/validation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/format/format.hpp"
#include "core/format/table.hpp"

namespace lockstep {
namespace {

using Cells = std::vector<std::string>;

const Cells kHeading = {"source", "rows",        "timed",  "median", "90th %ile",
                        "bias",   "within 10 %", "memory", "tau"};

std::string share(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }
std::string signed_share(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

Cells cells(const ValidationFigures& f) {
  const auto of = [](const ErrorFigures& e, const std::string& text) {
    return e.count > 0 ? text : "";
  };
  return {f.source,
          std::to_string(f.rows),
          std::to_string(f.time.count),
          of(f.time, share(f.time.median)),
          of(f.time, share(f.time.percentile90)),
          of(f.time, signed_share(f.time.bias)),
          of(f.time, fmt::format("{:.0f} %", 100 * f.time.within_10)),
          of(f.memory, share(f.memory.median)),
          f.order.pairs > 0 ? fmt::format("{:.2f}", f.order.tau()) : ""};
}

/// Whether the first choice of a sweep is as good as the aim of docs/search.md.
bool near_best(double loss) { return loss <= 0.03; }

/// The sentences below the table.
std::vector<std::string> remarks(const ValidationSummary& summary) {
  const ValidationFigures& all = summary.all;
  std::vector<std::string> lines;
  if (all.memory.count > 0) {
    std::string line =
        fmt::format("Memory: {} rows, median error {}, 90th percentile {}", all.memory.count,
                    share(all.memory.median), share(all.memory.percentile90));
    if (all.memory_allocated.count > 0) {
      line += fmt::format("; {} that print the allocator's maximum: {} and {}, bias {}",
                          all.memory_allocated.count, share(all.memory_allocated.median),
                          share(all.memory_allocated.percentile90),
                          signed_share(all.memory_allocated.bias));
    }
    lines.push_back(line + ".");
  }
  lines.push_back(fmt::format(
      "Fit: of {} runs that ran, {} are simulated not to fit; of {} that ran out of memory, {} are "
      "simulated to fit.",
      all.ran, all.wrongly_refused, all.out_of_memory, all.missed));
  if (all.order.pairs > 0) {
    lines.push_back(fmt::format("Order inside sweeps: Kendall's tau {:.2f} over {} pairs.",
                                all.order.tau(), all.order.pairs));
    std::vector<double> losses;
    for (const SweepOrder& sweep : summary.sweeps) losses.push_back(sweep.loss);
    lines.push_back(fmt::format(
        "The layout simulated fastest was within 3 % of the one measured fastest in {} of {} "
        "sweeps; it lost {} in the median and {} at worst.",
        std::count_if(losses.begin(), losses.end(), near_best), losses.size(),
        share(percentile(losses, 0.5)), share(percentile(losses, 1))));
  }
  return lines;
}

const Cells kSweepHeading = {"sweep", "runs", "pairs", "in the wrong order", "tau", "first choice"};

/// Sweeps of at least ten pairs, a line each, and what all others have together.
std::vector<Cells> sweep_cells(const std::vector<SweepOrder>& sweeps) {
  constexpr std::size_t kMany = 10;
  std::vector<Cells> lines;
  SweepOrder others;
  std::size_t count = 0, near = 0;
  const auto line = [](const SweepOrder& s, const std::string& first_choice) {
    return Cells{s.name,
                 std::to_string(s.runs),
                 std::to_string(s.order.pairs),
                 std::to_string(s.order.discordant),
                 fmt::format("{:.2f}", s.order.tau()),
                 first_choice};
  };
  for (const SweepOrder& sweep : sweeps) {
    if (sweep.order.pairs >= kMany) {
      lines.push_back(line(sweep, signed_share(sweep.loss)));
      continue;
    }
    others.runs += sweep.runs;
    others.order += sweep.order;
    ++count;
    near += near_best(sweep.loss);
  }
  others.name = fmt::format("{} sweeps of fewer than {} pairs", count, kMany);
  if (count > 0) lines.push_back(line(others, fmt::format("{} within 3 %", near)));
  return lines;
}

const Cells kLossHeading = {"sweep", "simulated first",     "error", "measured first", "error",
                            "lost",  "simulated to gain by"};

/// The sweeps whose first choice is not as good as the aim.
std::vector<Cells> loss_cells(const std::vector<SweepOrder>& sweeps) {
  std::vector<Cells> lines;
  for (const SweepOrder& s : sweeps) {
    if (near_best(s.loss)) continue;
    lines.push_back({s.name, s.chosen, signed_share(s.chosen_error), s.best,
                     signed_share(s.best_error), signed_share(s.loss), std::string(s.gains_by)});
  }
  return lines;
}

std::string joined(const std::vector<std::string>& parts, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, parts.size()); ++i) {
    text += (i == 0 ? "" : "; ") + parts[i];
  }
  if (parts.size() > most) text += fmt::format("; {} more", parts.size() - most);
  return text;
}

std::string markdown_row(const Cells& row) {
  std::string text = "|";
  for (const std::string& cell : row) text += " " + cell + " |";
  return text + "\n";
}

Cells row_cells(const ValidatedRow& r) {
  if (!r.mapped.scenario) {
    return {r.row.id,
            "",
            "",
            "",
            "",
            "",
            std::string(to_string(r.mapped.reason)) + ": " + r.mapped.detail};
  }
  const auto error = r.time_error(), memory_error = r.memory_error();
  const bool oom = r.row.ran_out_of_memory(), fits = *r.fits();
  return {r.row.id,
          r.measured ? time_text({*r.measured}) : "",
          time_text(r.predicted->step_time),
          error ? signed_share(*error) : "",
          r.row.mem_gb ? bytes_text({std::llround(*r.measured_memory())}) : "",
          memory_error ? signed_share(*memory_error) : bytes_text(r.predicted->memory.needed),
          oom && fits ? "ran out of memory, simulated to fit"
          : oom       ? "ran out of memory, and does"
          : fits      ? ""
                      : "ran, simulated not to fit"};
}

Cells class_cells(const CollectiveClass& c) {
  if (c.time.count == 0) return {c.name, "0", "", "", "", ""};
  return {c.name,
          std::to_string(c.time.count),
          share(c.time.median),
          share(c.time.percentile90),
          signed_share(c.time.bias),
          fmt::format("{:.0f} %", 100 * c.time.within_10)};
}

Cells class_heading(const std::string& of) {
  return {of, "rows", "median", "90th %ile", "bias", "within 10 %"};
}

using Classes = std::vector<CollectiveClass>;
std::array<std::pair<const char*, Classes>, 3> all_classes(
    const std::vector<ValidatedCollective>& rows) {
  return {
      {{"message", by_size(rows)}, {"collective", by_kind(rows)}, {"machine", by_machine(rows)}}};
}

std::string unexpressed_collectives(const std::vector<ValidatedCollective>& rows) {
  std::vector<std::pair<std::string, int>> reasons;
  for (const ValidatedCollective& r : rows) {
    if (r.reason.empty()) continue;
    const auto known = std::find_if(reasons.begin(), reasons.end(),
                                    [&](const auto& reason) { return reason.first == r.reason; });
    if (known == reasons.end()) {
      reasons.emplace_back(r.reason, 1);
    } else {
      ++known->second;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [reason, count] : reasons) parts.push_back(fmt::format("{} {}", count, reason));
  return parts.empty() ? "" : "Not expressed: " + joined(parts, parts.size()) + ".\n";
}

}  // namespace

std::string validation_claim(const ValidationFigures& all) {
  return fmt::format(
      "{} of {} published runs simulated: half of the step times within {:.1f} %, nine in ten "
      "within {:.1f} %, bias {:+.1f} %, {:.0f} % of them within 10 %",
      all.expressed, all.rows, 100 * all.time.median, 100 * all.time.percentile90,
      100 * all.time.bias, 100 * all.time.within_10);
}

std::string validation_text(const ValidationSummary& summary, const std::vector<ValidatedRow>& rows,
                            bool with_rows, const Screen& screen) {
  std::string text;
  if (with_rows) {
    TextTable table({"run",
                     {"measured", 2},
                     {"simulated", 2},
                     "error",
                     {"memory", 1},
                     "memory simulated",
                     Heading::words("remark")});
    for (const ValidatedRow& row : rows) table.add(row_cells(row));
    text += table.text(screen) + "\n";
  }
  std::vector<Heading> columns(kHeading.begin(), kHeading.end());
  columns[1].goes = 1;  // rows
  columns[8].goes = 2;  // tau
  TextTable table(std::move(columns));
  for (const ValidationFigures& source : summary.sources) table.add(cells(source));
  table.add(cells(summary.all));
  text += table.text(screen) + "\n";
  for (const std::string& line : remarks(summary)) text += wrapped(line + "\n", screen);
  if (!summary.sweeps.empty()) {
    TextTable sweeps({kSweepHeading.begin(), kSweepHeading.end()});
    for (const Cells& line : sweep_cells(summary.sweeps)) sweeps.add(line);
    text += "\n" + sweeps.text(screen);
    TextTable lost({kLossHeading.begin(), kLossHeading.end()}, kLossHeading.size());
    for (const Cells& line : loss_cells(summary.sweeps)) lost.add(line);
    text += "\nFirst choices that were more than 3 % slower than the best:\n" + lost.text(screen);
  }
  if (!summary.unexpressed.empty()) text += "\nNot expressed:\n";
  for (const UnexpressedRows& u : summary.unexpressed) {
    text += wrapped(
        fmt::format("{:4}  {} ({})\n", u.ids.size(), to_string(u.reason), joined(u.details, 4)),
        screen, 6);
  }
  return text;
}

std::string validation_markdown(const ValidationSummary& summary) {
  std::string text = validation_claim(summary.all) + ".\n\n" + markdown_row(kHeading) +
                     "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const ValidationFigures& source : summary.sources) text += markdown_row(cells(source));
  text += markdown_row(cells(summary.all)) + "\n";
  for (const std::string& line : remarks(summary)) text += "- " + line + "\n";
  text += "\n" + markdown_row(kSweepHeading) + "|---|--:|--:|--:|--:|--:|\n";
  for (const Cells& line : sweep_cells(summary.sweeps)) text += markdown_row(line);
  text += "\n" + markdown_row(kLossHeading) + "|---|---|--:|---|--:|--:|---|\n";
  for (const Cells& line : loss_cells(summary.sweeps)) text += markdown_row(line);
  text += "\nNot expressed:\n\n| reason | rows | of them |\n|---|--:|---|\n";
  for (const UnexpressedRows& u : summary.unexpressed) {
    text += markdown_row(
        {std::string(to_string(u.reason)), std::to_string(u.ids.size()), joined(u.details, 4)});
  }
  return text;
}

std::string collectives_text(const std::vector<ValidatedCollective>& rows, bool with_rows,
                             const Screen& screen) {
  std::string text;
  if (with_rows) {
    TextTable table({"collective", "size", "measured", "simulated", "error", Heading::words("by")});
    for (const ValidatedCollective& r : rows) {
      const auto size = r.row.payload ? bytes_text(*r.row.payload) : "";
      if (!r.estimate) {
        table.add({r.row.name(), size, "", "", "", r.reason});
        continue;
      }
      table.add({r.row.name(), size, time_text({*r.row.time_ms * 1e-3}), time_text(r.simulated()),
                 signed_share(*r.error()), r.estimate->formula});
    }
    text += table.text(screen) + "\n";
  }
  for (const auto& [name, classes] : all_classes(rows)) {
    const Cells heading = class_heading(name);
    TextTable table({heading.begin(), heading.end()});
    for (const CollectiveClass& c : classes) table.add(class_cells(c));
    text += table.text(screen) + "\n";
  }
  return text + wrapped(unexpressed_collectives(rows), screen);
}

std::string collectives_markdown(const std::vector<ValidatedCollective>& rows) {
  std::string text;
  for (const auto& [name, classes] : all_classes(rows)) {
    text += markdown_row(class_heading(name)) + "|---|--:|--:|--:|--:|--:|\n";
    for (const CollectiveClass& c : classes) text += markdown_row(class_cells(c));
    text += "\n";
  }
  return text + unexpressed_collectives(rows);
}

}  // namespace lockstep
