// Anchors: campaigns whose GPU hours somebody has published, and how far a simulated campaign is
// off.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/campaign/plan.hpp"
#include "core/validation/csv.hpp"

namespace lockstep {

/// A row of validation/campaigns.csv. A field is empty if the source does not say it.
struct CampaignRow {
  std::string id, source;           // the source is an address or a number of arXiv
  std::string model;                // a preset, or a name for the sizes that follow
  std::string cluster;              // a preset
  std::optional<long> gpus;         // needed without `scenario`
  std::optional<double> tokens_b;   // 10^9 tokens
  std::optional<double> gpu_hours;  // as published, without failed attempts where it says so
  std::optional<long> seq, global_batch_seqs;
  std::optional<long> layers, hidden, heads, kv_heads, ffn_hidden, vocab;  // without a preset
  std::optional<long> tp, pp, micro_batch;  // a layout is given if tp, pp and micro_batch are
  std::optional<long> zero_stage;
  std::string recompute;  // none, selective or full
  std::string scenario;   // a file with model, cluster and layout, relative to the table's folder
  std::string failures;   // as campaign.failures
  std::string notes;
  bool has_layout() const { return !scenario.empty() || (tp && pp && micro_batch); }
};
struct CampaignRows {
  std::vector<CampaignRow> rows;
  std::vector<Error> errors;  // all faults, in file order
};
/// Whether the rows of a table are campaigns.
bool has_campaigns(const CsvTable& table);
CampaignRows read_campaign_rows(const CsvTable& table);

/// The scenario of a row whose layout is given, or one to search a layout for. `directory` is that
/// of the table. Errors: those of the scenario, naming the row.
Result<Scenario> anchor_scenario(const CampaignRow& row, const std::string& directory);

struct AnchoredCampaign {
  CampaignRow row;
  std::string layout;                // as layouts are named
  std::optional<double> gpu_hours;   // simulated, the mean
  double goodput = 0;                // likewise
  std::optional<std::string> fault;  // why there are none
  /// Simulated / published - 1.
  std::optional<double> error() const;
};

/// Where layouts come from that a row does not give, and what a step takes.
struct AnchorTools {
  std::function<Result<Scenario>(const Scenario&)> find_layout;
  std::function<std::string(const Scenario&)> layout_name;
  FactsOracle oracle;
};
AnchoredCampaign anchor_campaign(const CampaignRow& row, const std::string& directory,
                                 const AnchorTools& tools, int runs);

}  // namespace lockstep
