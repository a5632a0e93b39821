#include "core/campaign/anchors.hpp"

#include <algorithm>
#include <filesystem>

#include "core/campaign/summary.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/validation/scenario_text.hpp"

namespace lockstep {
namespace {

void write_model(const CampaignRow& row, ScenarioText& out) {
  out.section("model");
  if (!row.layers) return out.key("preset", row.model);
  out.key("name", row.model);
  out.key("architecture", row.ffn_hidden ? "llama" : "gpt2");
  out.key("layers", row.layers);
  out.key("hidden", row.hidden);
  out.key("heads", row.heads);
  out.key("kv_heads", row.kv_heads);
  out.key("ffn_hidden", row.ffn_hidden);
  out.key("vocab", row.vocab);
  out.key("max_seq_len", row.seq);
}

/// Everything but the layout, which is data parallel with a sequence at a time.
void write_base(const CampaignRow& row, ScenarioText& out) {
  write_model(row, out);
  const long gpus = *row.gpus, inside = std::min(gpus, 8L);
  out.section("cluster");
  out.key("preset", row.cluster);
  out.key("nodes", gpus / inside);
  out.key("devices_per_node", inside);
  out.section("training");
  out.key("mixed_precision_param", "bfloat16");
  out.key("seq_len", row.seq);
}

/// The layout that the row gives: its microbatches are what a data-parallel rank has of a step.
/// Requires that [training] is being written.
void write_layout(const CampaignRow& row, ScenarioText& out) {
  const long pp = *row.pp, tp = *row.tp, micro = *row.micro_batch;
  const long dp = std::max(1L, *row.gpus / (tp * pp));
  const long batch = row.global_batch_seqs.value_or(dp * micro);
  const long microbatches = pp > 1 ? std::max(1L, batch / (dp * micro)) : 1;
  out.key("local_batch_size", micro * microbatches);
  out.key("global_batch_size", batch);
  out.section("parallelism");
  out.key("tensor_parallel_degree", tp);
  out.key("pipeline_parallel_degree", pp);
  out.key("data_parallel_shard_degree", dp);
  out.key("zero_stage", row.zero_stage.value_or(1));
  if (tp > 1) out.flag("enable_sequence_parallel", true);
  if (pp > 1) {
    out.key("pipeline_parallel_schedule", "1F1B");
    out.key("pipeline_parallel_microbatches", microbatches);
  }
  if (!row.recompute.empty()) {
    out.section("activation_checkpoint");
    out.key("mode", row.recompute);
  }
}

Error named(const CampaignRow& row, const Error& fault) {
  return invalid(row.id + ": " + fault.message);
}

Result<Scenario> first_of(LoadedScenario loaded, const CampaignRow& row) {
  if (!loaded.ok()) return named(row, loaded.errors.front());
  return std::move(loaded.points.front().scenario);
}

}  // namespace

bool has_campaigns(const CsvTable& table) { return table.column("gpu_hours") >= 0; }

CampaignRows read_campaign_rows(const CsvTable& table) {
  CampaignRows result;
  require_columns(table, {"id", "source", "model", "cluster", "gpus", "tokens_b", "gpu_hours"},
                  result.errors);
  if (!result.errors.empty()) return result;
  for (const std::vector<CsvField>& fields : table.rows) {
    CsvRowReader read(table, fields, result.errors);
    CampaignRow row;
    row.id = read.needed("id");
    row.source = read.needed("source");
    row.model = read.needed("model");
    row.scenario = read.text("scenario");
    if (row.scenario.empty()) {
      row.cluster = read.needed("cluster");
      read.needed("gpus");
    }
    read.needed("tokens_b");
    read.needed("gpu_hours");
    row.gpus = read.count("gpus");
    row.tokens_b = read.number("tokens_b");
    row.gpu_hours = read.number("gpu_hours");
    row.seq = read.count("seq");
    row.global_batch_seqs = read.count("global_batch_seqs");
    row.layers = read.count("layers");
    row.hidden = read.count("hidden");
    row.heads = read.count("heads");
    row.kv_heads = read.count("kv_heads");
    row.ffn_hidden = read.count("ffn_hidden");
    row.vocab = read.count("vocab");
    row.tp = read.count("tp");
    row.pp = read.count("pp");
    row.micro_batch = read.count("micro_batch");
    row.zero_stage = read.count("zero_stage");
    row.recompute = read.text("recompute");
    row.failures = read.text("failures");
    row.notes = read.text("notes");
    result.rows.push_back(std::move(row));
  }
  return result;
}

Result<Scenario> anchor_scenario(const CampaignRow& row, const std::string& directory) {
  std::vector<std::string> campaign = {"campaign.tokens=" + std::to_string(*row.tokens_b * 1e9)};
  if (!row.failures.empty()) campaign.push_back("campaign.failures=" + row.failures);
  if (!row.scenario.empty()) {
    const std::filesystem::path path = std::filesystem::path(directory) / row.scenario;
    return first_of(load_scenario(path.lexically_normal().string(), campaign), row);
  }
  const bool given = row.has_layout();
  ScenarioText text;
  write_base(row, text);
  if (given) write_layout(row, text);
  Result<Scenario> scenario = first_of(parse_scenario(text.text(), row.id, campaign), row);
  if (scenario && !given) {  // of a batch that this layout, one of many, need not divide
    scenario->training.global_batch_size =
        static_cast<int>(row.global_batch_seqs.value_or(*row.gpus));
  }
  return scenario;
}

std::optional<double> AnchoredCampaign::error() const {
  if (!gpu_hours) return std::nullopt;
  return *gpu_hours / *row.gpu_hours - 1;
}

AnchoredCampaign anchor_campaign(const CampaignRow& row, const std::string& directory,
                                 const AnchorTools& tools, int runs) {
  AnchoredCampaign anchored;
  anchored.row = row;
  Result<Scenario> scenario = anchor_scenario(row, directory);
  if (scenario && !row.has_layout()) scenario = tools.find_layout(*scenario);
  if (!scenario) {
    anchored.fault = scenario.error().message;
    return anchored;
  }
  anchored.layout = tools.layout_name(*scenario);
  const Result<CampaignFacts> facts = campaign_facts(*scenario, tools.oracle);
  if (!facts) {
    anchored.fault = facts.error().message;
    return anchored;
  }
  const CampaignPlan plan = plan_campaign(*facts);
  if (!simulate_campaign(plan, 1).finished) {
    anchored.fault = "the campaign makes no progress";
    return anchored;
  }
  const CampaignSummary summary = summarize_campaigns(plan, 1, runs);
  anchored.gpu_hours = summary.gpu_hours.mean;
  anchored.goodput = summary.goodput.mean;
  return anchored;
}

}  // namespace lockstep
