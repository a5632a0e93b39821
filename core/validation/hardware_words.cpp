#include "core/validation/hardware_words.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "core/base/lower_case.hpp"
#include "core/spec/usual_framework.hpp"

namespace lockstep {
namespace {

// The first name that the card's name contains.
constexpr std::array kCards = {
    CardName{"MI325X or MI355X", "", 0}, CardName{"GB300", "gb300", 10.3},
    CardName{"GB200", "gb200", 10},      CardName{"GH200", "gh200", 9},
    CardName{"A800", "a800", 8},  // "A100 (DGX A800)" is an A800
    CardName{"H800", "h800", 9},         CardName{"H100", "h100", 9},
    CardName{"H200", "h200", 9},         CardName{"A100", "a100-80", 8},
    CardName{"V100", "v100", 7},  // also the V100-SXM3 of DGX-2, which has the figures of the SXM2
    CardName{"H20", "h20", 9},           CardName{"L40S", "l40s", 8.9},
    CardName{"4090", "rtx4090", 8.9},    CardName{"MI250X", "mi250x", 0},
    CardName{"MI300X", "mi300x", 0},     CardName{"MI325X", "mi325x", 0},
    CardName{"MI350X", "mi350x", 0},     CardName{"MI355X", "mi355x", 0},
    CardName{"B300", "b300", 10.3},      CardName{"B200", "b200", 10},
};

// Profiles of cards whose names say more, in lower case and without spaces; one may lead to
// another.
struct Variant {
  std::string_view word, profile, variant;
};
constexpr std::array kVariants = {
    Variant{"40gb", "a100-80", "a100-40"},      Variant{"pcie", "a100-40", "a100-40-pcie"},
    Variant{"pcie", "a100-80", "a100-80-pcie"}, Variant{"pcie", "h100", "h100-pcie"},
    Variant{"pcie", "v100", "v100-pcie"},
};

// Gb/s of a port of four lanes, by InfiniBand's generation.
constexpr std::array<std::pair<std::string_view, double>, 5> kGenerations = {
    {{"fdr", 56}, {"edr", 100}, {"hdr", 200}, {"ndr", 400}, {"xdr", 800}}};
// Gb/s of a unit, as written.
constexpr std::array<std::pair<std::string_view, double>, 13> kUnits = {{
    {"Gb/s", 1},
    {"Gbps", 1},
    {"Gbit/s", 1},
    {"Gbit", 1},
    {"gbps", 1},
    {"GbE", 1},
    {"Gb", 1},
    {"Tb/s", 1000},
    {"Tbps", 1000},
    {"Tbit/s", 1000},
    {"GB/s", 8},
    {"GBps", 8},
    {"G", 1},
}};
constexpr std::array<std::pair<std::string_view, long>, 5> kNumerals = {
    {{"one", 1}, {"single", 1}, {"two", 2}, {"four", 4}, {"eight", 8}}};
constexpr std::string_view kPorts[] = {"nic",  "nics",  "port",     "ports",   "hca",  "hcas",
                                       "rail", "rails", "adapters", "adapter", "links"};
constexpr std::string_view kKinds[] = {"ib",  "infiniband", "roce", "efa",     "ethernet", "edr",
                                       "hdr", "ndr",        "xdr",  "network", "nic"};
constexpr std::string_view kOfNode[] = {"efa", "ethernet", "gbe", "tcp"};
constexpr std::string_view kInside[] = {"nvlink",  "nvswitch",       "nvl", "xgmi", "pcie",
                                        "in node", "infinity fabric"};
constexpr double kFastestPort = 800;

bool has_any(std::string_view text, const auto& words) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view word) { return has_words(text, word); });
}

/// What a text says of a network; 0 where it says nothing.
struct NetworkWords {
  double rate = 0;
  long count = 0;
  bool per_gpu = false, per_node = false, of_node = false;
};

/// Reads one clause from left to right, as tokens of digits, letters and single other characters.
class ClauseReader {
 public:
  ClauseReader(std::string_view clause, NetworkWords& out)
      : clause_(clause), names_network_(has_any(clause, kKinds)), out_(out) {}

  void read() {
    if (has_any(clause_, kOfNode)) out_.of_node = true;
    for (const char* gpu : {"per gpu", "per accelerator", "per card", "a gpu", "each gpu"}) {
      if (has_words(clause_, gpu)) out_.per_gpu = true;
    }
    for (const char* node : {"per node", "per server", "per host", "per machine", "per instance"}) {
      if (has_words(clause_, node)) out_.per_node = true;
    }
    if (contains("/GPU") || contains("/gpu")) out_.per_gpu = true;
    if (contains("/node")) out_.per_node = true;
    for (std::size_t at = 0; at < clause_.size();) at = read_number(at);
    for (const auto& [numeral, value] : kNumerals) {
      for (const std::string_view port : kPorts) {
        const std::string phrase = std::string(numeral) + " " + std::string(port);
        if (out_.count == 0 && has_words(clause_, phrase)) out_.count = value;
      }
    }
  }

 private:
  bool contains(std::string_view part) const {
    return clause_.find(part) != std::string_view::npos;
  }
  std::size_t past_spaces(std::size_t at) const {
    while (at < clause_.size() && clause_[at] == ' ') ++at;
    return at;
  }
  bool is_times(std::size_t at) const {
    return at < clause_.size() && (clause_[at] == 'x' || clause_[at] == '*');
  }

  /// Reads the number at `at`, if there is one; returns where to go on.
  std::size_t read_number(std::size_t at) {
    const bool starts = std::isdigit(static_cast<unsigned char>(clause_[at])) != 0;
    if (!starts) return at + 1;
    double value = 0;
    const char* const end =
        std::from_chars(clause_.data() + at, clause_.data() + clause_.size(), value).ptr;
    const auto behind = static_cast<std::size_t>(end - clause_.data());
    take(value, at, behind);
    return std::max(behind, at + 1);
  }

  void take(double value, std::size_t at, std::size_t behind) {
    const std::size_t next = past_spaces(behind);
    if (const double unit = unit_at(next); unit > 0) {
      if (out_.rate == 0) out_.rate = value * unit;
    } else if (is_times(next) || follows_times(at) || is_port(next)) {
      if (out_.count == 0) out_.count = static_cast<long>(value);
    } else if (out_.rate == 0 && (follows_generation(at) || is_bare_rate(value, at, next))) {
      out_.rate = value;
    }
  }

  /// "NDR 400 per GPU", but neither "64 nodes" nor "ConnectX7".
  bool is_bare_rate(double value, std::size_t at, std::size_t next) const {
    const bool ends = next == clause_.size() || clause_.substr(next).starts_with("per");
    const bool in_word = at > 0 && std::isalpha(static_cast<unsigned char>(clause_[at - 1])) != 0;
    return names_network_ && value >= 25 && ends && !in_word;
  }
  /// "HDR100", a port of two lanes.
  bool follows_generation(std::size_t at) const {
    return at >= 3 && std::any_of(kGenerations.begin(), kGenerations.end(), [&](const auto& g) {
             return has_words(clause_.substr(at - 3, 3), g.first);
           });
  }

  double unit_at(std::size_t at) const {
    const std::string_view rest = clause_.substr(std::min(at, clause_.size()));
    for (const auto& [unit, gigabits] : kUnits) {
      if (!rest.starts_with(unit)) continue;
      const bool ends = rest.size() == unit.size() ||
                        std::isalpha(static_cast<unsigned char>(rest[unit.size()])) == 0;
      if (ends) return gigabits;
    }
    return 0;
  }
  /// Whether the number at `at` stands behind "x", but not inside a word such as "mlx5".
  bool follows_times(std::size_t at) const {
    while (at > 0 && clause_[at - 1] == ' ') --at;
    if (at == 0 || !is_times(at - 1)) return false;
    return at == 1 || std::isalpha(static_cast<unsigned char>(clause_[at - 2])) == 0;
  }
  bool is_port(std::size_t at) const {
    const std::string_view rest = clause_.substr(std::min(at, clause_.size()));
    std::size_t end = 0;
    while (end < rest.size() && std::isalpha(static_cast<unsigned char>(rest[end])) != 0) ++end;
    return end > 0 && has_any(rest.substr(0, end), kPorts);
  }
  std::string_view clause_;
  bool names_network_;
  NetworkWords& out_;
};

/// Adds a clause to what was said before it. The first rate counts, with what its own clause says,
/// and with clauses that only say how many ports there are or of what ("4 NICs per node", "per
/// GPU").
void add_clause(std::string_view clause, NetworkWords& words) {
  NetworkWords said;
  ClauseReader(clause, said).read();
  const bool of_ports = said.count > 0 || clause.find("per") <= 1;
  if (said.rate > 0 ? words.rate > 0 : !of_ports && !said.of_node) return;
  if (words.rate == 0) words.rate = said.rate;
  if (words.count == 0) words.count = said.count;
  words.per_gpu = words.per_gpu || said.per_gpu;
  words.per_node = words.per_node || said.per_node;
  words.of_node = words.of_node || said.of_node;
}

NetworkWords network_words(std::string_view text) {
  NetworkWords words;
  double of_generation = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(";,()+", begin), text.size());
    const std::string_view clause = text.substr(begin, end - begin);
    begin = end + 1;
    if (has_any(clause, kInside)) continue;
    add_clause(clause, words);
    for (const auto& [name, rate] : kGenerations) {
      if (of_generation == 0 && has_words(clause, name)) of_generation = rate;
    }
  }
  if (words.rate == 0) words.rate = of_generation;
  return words;
}

}  // namespace

CardName card_of(std::string_view hw) {
  const auto* found = std::find_if(kCards.begin(), kCards.end(), [&](const CardName& c) {
    return hw.find(c.name) != std::string_view::npos;
  });
  if (found == kCards.end()) return {};
  CardName card = *found;
  std::string words = lower_case(hw);
  std::erase(words, ' ');
  for (const Variant& v : kVariants) {
    if (card.profile == v.profile && words.find(v.word) != std::string::npos) {
      card.profile = v.variant;
    }
  }
  return card;
}

std::string_view profile_of(std::string_view hw) { return card_of(hw).profile; }

std::optional<long> nvlink_domain(std::string_view hw, std::string_view interconnect) {
  const std::string_view profile = profile_of(hw);
  const bool rack = profile == "gb200" || profile == "gb300";
  // "HGX B300 NVL16" counts the dies of eight GPUs.
  for (const std::string_view text : {hw, interconnect}) {
    const std::size_t at = text.find("NVL");
    if (at == std::string_view::npos || profile == "b300") continue;
    long domain = 0;
    std::from_chars(text.data() + at + 3, text.data() + text.size(), domain);
    if (domain > 1) return domain;
  }
  return rack ? std::optional(72L) : std::nullopt;
}

std::optional<double> gpu_gigabits(std::string_view interconnect, long gpus_per_node) {
  const NetworkWords words = network_words(interconnect);
  if (words.rate == 0) return std::nullopt;
  const double rate = words.rate * static_cast<double>(std::max(words.count, 1L));
  if (words.per_gpu) return rate;
  const bool of_node =
      words.per_node || words.count > 0 || words.of_node || words.rate > kFastestPort;
  return of_node ? rate / static_cast<double>(gpus_per_node) : rate;
}

}  // namespace lockstep
