// Report text: reports and comparisons as tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/analysis/compare.hpp"
#include "core/analysis/report.hpp"
#include "core/format/table.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Ranks with equal figures share a row. With more rows than this, only those with extreme figures
/// are shown.
inline constexpr int kMaxRankRows = 16;

std::string report_text(const Report& report, const Scenario& scenario, const Screen& screen);
/// The report of a run without a scenario: of a program's text, or of a trace alone, which lacks
/// what only a program tells. `name` is its title.
std::string report_text(const Report& report, const std::string& name, const Screen& screen);

/// One point of a sweep: its report, or why it has none ("does not fit").
struct SweepRow {
  std::string label;
  std::optional<Report> report;
  std::string failure;
};
std::string sweep_text(const std::vector<SweepRow>& rows, const Screen& screen);

std::string comparison_text(const std::string& name_a, const Report& a, const std::string& name_b,
                            const Report& b, const Comparison& comparison, const Screen& screen);
/// The mesh of a strategy: "pp 2 × dp_shard 4", or "1 rank".
std::string mesh_text(const StrategySpec& strategy);

}  // namespace lockstep
