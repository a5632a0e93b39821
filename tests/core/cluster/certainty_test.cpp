// Compares the limits with published runs: every residual is in validation/residuals.csv, which
// scripts/intervals writes.
#include "core/cluster/certainty.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/read_file.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/validation/csv.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

struct Residual {
  std::string family, software, card;
  bool studied = false;
  double host_us = 0, time = 0, memory = 0;  // measured / simulated; 0: not measured
};

std::vector<Residual> residuals() {
  const std::string file = LOCKSTEP_SOURCE_DIR "/validation/residuals.csv";
  const Result<std::string> text = read_file(file, 1 << 24);
  REQUIRE(text.ok());
  const Result<CsvTable> table = parse_csv(*text, file);
  REQUIRE(table.ok());
  std::vector<Residual> found;
  for (const auto& row : table->rows) {
    const auto cell = [&](const char* name) {
      return row[static_cast<std::size_t>(table->column(name))].text;
    };
    const auto number = [&](const char* name) {
      return cell(name).empty() ? 0 : std::stod(cell(name));
    };
    const std::string id = cell("id");
    found.push_back({id.substr(0, id.rfind('-')), cell("framework"), cell("card"),
                     cell("studied") == "yes", number("host_kernel_us"), number("time_ratio"),
                     number("memory_ratio")});
  }
  return found;
}

using Ratio = std::pair<double, std::string>;  // measured / simulated, and the family

/// The ratio below which `part` of the families' weight lies; all families weigh the same.
double quantile(std::vector<Ratio> ratios, double part) {
  std::map<std::string, int> counts;
  for (const Ratio& r : ratios) ++counts[r.second];
  std::sort(ratios.begin(), ratios.end());
  double total = 0, last_place = 0, last = 0;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    const double weight = 1.0 / counts[ratios[i].second] / static_cast<double>(counts.size());
    const double place = total + weight / 2, value = std::log(ratios[i].first);
    if (part <= place) {
      if (i == 0) return ratios[i].first;
      return std::exp(last + (value - last) * (part - last_place) / (place - last_place));
    }
    total += weight;
    last_place = place;
    last = value;
  }
  return std::exp(last);
}

/// How many of the runs lie between the limits of the other families.
int inside(const std::vector<Ratio>& ratios) {
  int count = 0;
  for (const Ratio& one : ratios) {
    std::vector<Ratio> others;
    std::copy_if(ratios.begin(), ratios.end(), std::back_inserter(others),
                 [&](const Ratio& other) { return other.second != one.second; });
    count += quantile(others, 0.1) <= one.first && one.first <= quantile(others, 0.9);
  }
  return count;
}

ClusterSpec cluster(const std::string& preset, const std::string& framework) {
  const LoadedScenario loaded =
      parse_scenario("[model]\npreset = \"gpt2-124m\"\n[cluster]\npreset = \"" + preset + "\"\n",
                     "certainty", {"framework.preset=" + framework});
  REQUIRE(loaded.ok());
  return loaded.points.front().scenario.cluster;
}

std::vector<Ratio> times(bool many_launches) {
  std::vector<Ratio> ratios;
  for (const Residual& r : residuals()) {
    if (r.time > 0 && !r.studied && (r.host_us >= 10) == many_launches) {
      ratios.emplace_back(r.time, r.family);
    }
  }
  return ratios;
}

TEST_CASE("limits are quantiles over families that no constant was fitted to", "[core][cluster]") {
  const auto torchtitan = certainty_of(cluster("h100", "torchtitan"));
  const auto eager = certainty_of(cluster("h100", "fsdp-eager"));
  REQUIRE(torchtitan);
  REQUIRE(eager);
  std::vector<Ratio> memory;
  for (const Residual& r : residuals()) {
    if (r.memory > 0) memory.emplace_back(r.memory, r.family);
  }
  const auto agree = [](const LikelyFactors& limits, const std::vector<Ratio>& ratios) {
    CHECK(limits.least == Approx(quantile(ratios, 0.1)).margin(0.0006));
    CHECK(limits.most == Approx(quantile(ratios, 0.9)).margin(0.0006));
  };
  agree(torchtitan->step_time, times(false));
  agree(eager->step_time, times(true));
  agree(torchtitan->memory, memory);
}

TEST_CASE("of families left out, 75 to 85 % of the runs lie between the limits of the others",
          "[core][cluster]") {
  int runs = 0, count = 0;
  for (const bool many : {false, true}) {
    const std::vector<Ratio> ratios = times(many);
    runs += static_cast<int>(ratios.size());
    count += inside(ratios);
  }
  REQUIRE(runs > 200);
  CHECK(count >= 0.75 * runs);
  CHECK(count <= 0.85 * runs);
}

TEST_CASE("the limits are the widest where no published run had the software or the card",
          "[core][cluster]") {
  std::set<std::string> software, cards;
  for (const Residual& r : residuals()) {
    if (r.time <= 0) continue;
    software.insert(r.software);
    cards.insert(r.card);
  }
  const LikelyFactors wide{certainty_of(cluster("h100", "torchtitan"))->step_time.least,
                           certainty_of(cluster("h100", "fsdp-eager"))->step_time.most};
  for (const char* card :
       {"h100", "h200", "a100-40", "v100", "b200", "mi300x", "rtx4090", "gh200"}) {
    for (const char* name : {"torchtitan", "megatron-core", "fsdp-eager", "nanotron"}) {
      INFO(name << " on " << card);
      const ClusterSpec c = cluster(card, name);
      const bool known = software.contains(name) && cards.contains(c.device.name);
      CHECK((certainty_of(c)->step_time == wide) == !known);
    }
  }
  CHECK_FALSE(certainty_of(cluster("h100", "lockstep")));
  CHECK_FALSE(certainty_of(cluster("cpu", "lockstep")));
}

}  // namespace
}  // namespace lockstep
