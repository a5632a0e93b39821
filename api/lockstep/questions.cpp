#include "lockstep/questions.hpp"

#include "core/advice/advice_json.hpp"
#include "core/analysis/compare.hpp"
#include "core/base/read_file.hpp"
#include "core/base/thread_team.hpp"
#include "core/handover/handover.hpp"
#include "core/handover/plan_import.hpp"
#include "core/scenario/lists.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "core/validation/collective_question.hpp"
#include "core/validation/row_choice.hpp"
#include "lockstep/data.hpp"

namespace lockstep::api {
inline namespace v1 {
namespace {

std::string list_json(const std::vector<nlohmann::ordered_json>& rows) {
  return nlohmann::ordered_json(rows).dump();
}

Result<std::string> validate_collectives(const CsvTable& table, const RowChoice& choice,
                                         bool with_rows) {
  const CollectiveRows chosen = choose_rows(read_collective_rows(table), choice);
  if (!chosen.errors.empty()) return faults_of(chosen.errors);
  return collectives_json(lockstep::validate_collectives(chosen.rows), with_rows);
}

}  // namespace

Result<std::string> recommend_json(const RecommendOptions& options) {
  RecommendQuestion question;
  question.model = options.model;
  question.cluster = options.cluster;
  question.nodes = options.nodes;
  question.batch = options.batch;
  question.seq_len = options.seq_len;
  question.offload = options.offload;
  question.lora = options.lora;
  const lockstep::Result<Advice> advice = recommend(question, simulated_layout, simulated_probe,
                                                    {options.seconds, options.threads, {}});
  if (!advice) return faults_of(advice.error());
  return advice_json(*advice).dump();
}

std::string compare_json(const Run& a, const Run& b) {
  const lockstep::Run &one = a.data().run, &other = b.data().run;
  return comparison_json(one.report, other.report,
                         lockstep::compare(one.report, one.trace, other.report, other.trace));
}

Result<std::string> collective_json(const CollectiveOptions& options) {
  CollectiveQuestion question;
  question.kind = options.kind;
  question.bytes = options.bytes;
  question.cluster = options.cluster;
  question.nodes = options.nodes;
  question.ranks = options.ranks;
  question.sweep = options.sweep;
  const lockstep::Result<CollectiveAnswer> answered = answer(question);
  if (!answered) return faults_of(answered.error());
  return lockstep::collective_json(*answered);
}

Result<std::string> validate_json(const std::string& file, const ValidateOptions& options) {
  const lockstep::Result<CsvTable> table = read_csv(file);
  if (!table) return faults_of(table.error());
  const RowChoice choice{file, options.source, options.row};
  if (has_collectives(*table)) return validate_collectives(*table, choice, options.rows);
  const TrainingRows chosen = choose_rows(read_training_rows(*table), choice);
  if (!chosen.errors.empty()) return faults_of(chosen.errors);
  ValidationOptions how;
  how.overrides = options.set;
  how.given_by = kSettings;
  how.progress = options.progress;
  how.threads = threads_or_cores(options.threads);
  const std::vector<ValidatedRow> rows = validate_rows(chosen.rows, simulated_prediction, how);
  return validation_json(summarize(rows), rows, options.rows);
}

Result<std::string> import_json(const std::string& trainer, const std::string& file,
                                const ImportOptions& options) {
  constexpr std::int64_t kLongestPlan = 16 << 20;
  const std::optional<Trainer> known = trainer_named(trainer);
  if (!known) {
    return faults_of(invalid("no plans of '" + trainer + "': torchtitan, megatron, deepspeed"));
  }
  const lockstep::Result<std::string> text = read_file(file, kLongestPlan);
  if (!text) return faults_of(text.error());
  const lockstep::Result<PlanImport> plan = import_plan(
      *known, *text, file, {options.model, options.cluster, options.nodes, options.seq_len});
  if (!plan) return faults_of(plan.error());
  const LoadedScenario loaded = parse_scenario(plan->text, "scenario.toml", {});
  if (!loaded.ok()) return faults_of(errors_of_plan(loaded.errors, *plan, file, ""));
  return plan_json(*plan);
}

Result<std::string> export_json(const std::string& trainer, const Scenario& scenario) {
  if (!trainer_named(trainer)) {
    return faults_of(invalid("no plans for '" + trainer + "': torchtitan, megatron, deepspeed"));
  }
  const lockstep::Result<Handover> plan = hand_over(trainer, scenario.data().scenario);
  if (!plan) return faults_of(plan.error());
  return handover_json(*plan);
}

std::string models_json() { return list_json(list_models()); }
std::string clusters_json() { return list_json(list_clusters()); }

}  // namespace v1
}  // namespace lockstep::api
