#include "core/validation/training_validation.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/thread_team.hpp"
#include "core/validation/conventions.hpp"

namespace lockstep {
namespace {

constexpr Bytes kEndlessMemory{std::int64_t{1} << 60};
constexpr double kGibibyte = 1024.0 * 1024 * 1024;
constexpr double kGigabyte = 1e9;

void predict(ValidatedRow& result, const StepOracle& oracle) {
  Scenario scenario = result.scenario();
  scenario.cluster.device.memory = kEndlessMemory;
  const auto begin = std::chrono::steady_clock::now();
  const Result<StepPrediction> step = oracle(scenario);
  result.took = {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
  if (step) {
    result.predicted = *step;
  } else {
    result.mapped = {std::nullopt, Unexpressed::Refused, step.error().message};
  }
}

std::string joined(const std::vector<std::optional<long>>& numbers) {
  std::string key;
  for (const auto& number : numbers) key += "|" + (number ? std::to_string(*number) : "");
  return key;
}

/// What the rows of a sweep share: the table of a source, in which other versions of the software
/// are tables of their own; the model and so on; and the day, if it is given, because machines
/// change.
std::string sweep_of(const TrainingRow& row) {
  return row.group() + "|" + row.source + "|" + row.model + "|" + row.hw + "|" + row.precision +
         "|" + row.noted("date ") +
         joined({row.hidden, row.layers, row.heads, row.vocab, row.seq, row.gpus,
                 row.global_batch_seqs});
}

/// In what the rows of a sweep differ.
std::string layout_of(const TrainingRow& row) {
  return row.fsdp_or_zero + "|" + row.sp + "|" + row.recompute + "|" + row.noted("schedule=") +
         "|" + row.noted("method=") + "|" + row.noted("cp=") + "|" + row.noted("ep=") +
         joined({row.tp, row.pp, row.vpp, row.dp, row.micro_batch});
}

/// What people call the sweep of a row.
std::string sweep_name(const TrainingRow& row) {
  std::string name = row.group() + ", " + row.model;
  if (row.gpus) name += ", " + std::to_string(*row.gpus) + " GPUs";
  if (row.global_batch_seqs) name += ", batch " + std::to_string(*row.global_batch_seqs);
  const std::string day = row.noted("date ");
  return day.empty() ? name : name + ", " + day;
}

/// The part of a step in which `chosen` takes least beside `other`.
std::string_view gained_by(const StepPrediction& chosen, const StepPrediction& other) {
  const auto computation = [](const StepPrediction& p) {
    return p.step_time.v - p.exposed_comm.v - p.idle.v;
  };
  const std::pair<double, std::string_view> gains[] = {
      {computation(other) - computation(chosen), "computation"},
      {other.exposed_comm.v - chosen.exposed_comm.v, "exposed communication"},
      {other.idle.v - chosen.idle.v, "waiting"}};
  return std::max_element(std::begin(gains), std::end(gains))->second;
}

/// The sweeps that have pairs, in the order of the rows.
std::vector<SweepOrder> sweeps_of(const std::vector<const ValidatedRow*>& rows) {
  std::map<std::string, std::size_t> index;
  std::vector<SweepOrder> sweeps;
  std::vector<std::vector<RankedRun>> runs;
  std::vector<std::vector<const ValidatedRow*>> rows_of;
  for (const ValidatedRow* r : rows) {
    if (!r->time_error()) continue;
    const auto [at, added] = index.emplace(sweep_of(r->row), sweeps.size());
    if (added) {
      sweeps.emplace_back().name = sweep_name(r->row);
      runs.emplace_back();
      rows_of.emplace_back();
    }
    runs[at->second].push_back({*r->measured, r->predicted->step_time.v, layout_of(r->row)});
    rows_of[at->second].push_back(r);
  }
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    sweeps[i].runs = runs[i].size();
    sweeps[i].order = rank_agreement(runs[i]);
    const FirstChoice choice = first_choice(runs[i]);
    const ValidatedRow &chosen = *rows_of[i][choice.chosen], &best = *rows_of[i][choice.best];
    sweeps[i].loss = choice.loss;
    sweeps[i].chosen = chosen.row.id;
    sweeps[i].best = best.row.id;
    sweeps[i].chosen_error = *chosen.time_error();
    sweeps[i].best_error = *best.time_error();
    sweeps[i].gains_by = gained_by(*chosen.predicted, *best.predicted);
  }
  std::erase_if(sweeps, [](const SweepOrder& sweep) { return sweep.order.pairs == 0; });
  return sweeps;
}

}  // namespace

std::optional<double> ValidatedRow::time_error() const {
  if (!measured || !predicted) return std::nullopt;
  return predicted->step_time.v / *measured - 1;
}

std::optional<double> ValidatedRow::memory_error() const {
  const auto printed = measured_memory();
  if (!printed || !predicted) return std::nullopt;
  const MemoryFigures& memory = predicted->memory;
  Bytes simulated = memory.allocated;
  if (conventions_of(row).memory == MeasuredMemory::Process) {
    // The allocator holds no more than the card has beside what is needed.
    const Bytes card = scenario().cluster.device.memory;
    simulated = std::min(memory.process, std::max(memory.needed, card));
  }
  return static_cast<double>(simulated.v) / *printed - 1;
}

std::optional<double> ValidatedRow::measured_memory() const {
  if (!row.mem_gb) return std::nullopt;
  const bool decimal = conventions_of(row).memory == MeasuredMemory::AllocatedDecimal;
  return *row.mem_gb * (decimal ? kGigabyte : kGibibyte);
}

std::optional<bool> ValidatedRow::fits() const {
  if (!predicted) return std::nullopt;
  return predicted->memory.needed <= scenario().cluster.device.memory;
}

std::vector<ValidatedRow> validate_rows(const std::vector<TrainingRow>& rows,
                                        const StepOracle& oracle,
                                        const ValidationOptions& options) {
  std::vector<ValidatedRow> results(rows.size());
  std::mutex mutex;  // guards the progress
  std::size_t done = 0;
  ThreadTeam(options.threads).each(rows.size(), [&](std::size_t i) {
    ValidatedRow& result = results[i];
    result.row = rows[i];
    result.measured = measured_step_time(rows[i]);
    result.mapped = map_row(rows[i], options.overrides, options.given_by);
    if (result.mapped.scenario && !result.measured && !rows[i].ran_out_of_memory()) {
      result.mapped = {std::nullopt, Unexpressed::Unsaid, "a step time"};
    }
    if (result.mapped.scenario) predict(result, oracle);
    const std::lock_guard lock(mutex);
    ++done;
    if (options.progress) options.progress(done, rows.size());
  });
  return results;
}

ValidationFigures figures_of(const std::string& source,
                             const std::vector<const ValidatedRow*>& rows) {
  ValidationFigures figures;
  figures.source = source;
  figures.rows = rows.size();
  std::vector<double> times, memory, allocated;
  for (const ValidatedRow* r : rows) {
    if (!r->mapped.scenario) continue;
    ++figures.expressed;
    if (const auto error = r->time_error()) times.push_back(*error);
    if (const auto error = r->memory_error()) {
      memory.push_back(*error);
      if (conventions_of(r->row).memory != MeasuredMemory::Process) allocated.push_back(*error);
    }
    const bool fits = *r->fits();
    if (r->row.ran_out_of_memory()) {
      ++figures.out_of_memory;
      figures.missed += fits ? 1 : 0;
    } else {
      ++figures.ran;
      figures.wrongly_refused += fits ? 0 : 1;
    }
  }
  figures.time = figures_of(times);
  figures.memory = figures_of(memory);
  figures.memory_allocated = figures_of(allocated);
  for (const SweepOrder& sweep : sweeps_of(rows)) figures.order += sweep.order;
  return figures;
}

ValidationSummary summarize(const std::vector<ValidatedRow>& rows) {
  ValidationSummary summary;
  std::vector<const ValidatedRow*> all;
  std::vector<std::pair<std::string, std::vector<const ValidatedRow*>>> sources;
  std::map<Unexpressed, UnexpressedRows> unexpressed;
  for (const ValidatedRow& r : rows) {
    all.push_back(&r);
    const std::string group = r.row.group();
    auto source = std::find_if(sources.begin(), sources.end(),
                               [&](const auto& s) { return s.first == group; });
    if (source == sources.end()) source = sources.insert(source, {group, {}});
    source->second.push_back(&r);
    if (r.mapped.scenario) continue;
    UnexpressedRows& reason = unexpressed[r.mapped.reason];
    reason.reason = r.mapped.reason;
    reason.ids.push_back(r.row.id);
    const auto& detail = r.mapped.detail;
    if (std::find(reason.details.begin(), reason.details.end(), detail) == reason.details.end()) {
      reason.details.push_back(detail);
    }
  }
  summary.all = figures_of("all", all);
  summary.sweeps = sweeps_of(all);
  for (const auto& [name, list] : sources) summary.sources.push_back(figures_of(name, list));
  for (auto& [reason, list] : unexpressed) summary.unexpressed.push_back(std::move(list));
  return summary;
}

}  // namespace lockstep
