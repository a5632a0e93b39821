// report.json: Report as JSON and back.
#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/analysis/report.hpp"
#include "core/base/json_depth.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// JSON has no NaN or infinity: nlohmann writes null for both, and here null is NaN again.
double real(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

/// A figure of which 0 means that nobody knows it: null in JSON.
ordered_json known(double value) { return value == 0 ? ordered_json() : ordered_json(value); }

double or_none(const ordered_json& value) { return value.is_null() ? 0 : value.get<double>(); }

/// Keeps a loss that is not finite in the list, as null, so that divergence stays visible.
ordered_json numbers(const std::vector<double>& list) {
  ordered_json result = ordered_json::array();
  for (const double v : list) result.push_back(v);
  return result;
}

std::vector<double> numbers(const json& list) {
  std::vector<double> result;
  for (const auto& v : list) result.push_back(real(v));
  return result;
}

template <class F>
ordered_json by_rank(const Report& report, F field) {
  ordered_json result = ordered_json::array();
  for (const RankReport& r : report.ranks) result.push_back(field(r));
  return result;
}

// ------------------------------------------------ causes

constexpr std::array<const char*, kNumBubbleCauses> kCauseKeys = {
    "warm_up", "peer", "communication", "cool_down", "data", "other"};

/// Calls visit(group, key, reference) for every field of RankCauses. In JSON, each is a list by
/// rank.
template <class Rank, class Visit>
void visit_causes(Rank& r, Visit visit) {
  visit("time_s", "computation", r.computation.v);
  visit("time_s", "overlapping", r.overlapping.v);
  visit("time_s", "communication", r.communication.v);
  visit("time_s", "waiting", r.waiting.v);
  visit("time_s", "other", r.other.v);
  for (std::size_t c = 0; c < kCauseKeys.size(); ++c) {
    visit("bubbles_by_rank_s", kCauseKeys[c], r.bubbles[c].v);
  }
  visit("stragglers", "last_arrivals", r.last_arrivals);
  visit("stragglers", "caused_wait_s", r.caused_wait.v);
  visit("stragglers", "own_wait_s", r.own_wait.v);
}

ordered_json by_kind(const std::map<std::string, Seconds>& times) {
  ordered_json result = ordered_json::object();
  for (const auto& [kind, time] : times) result[kind] = time.v;
  return result;
}

std::map<std::string, Seconds> by_kind(const json& object) {
  std::map<std::string, Seconds> result;
  for (const auto& [kind, time] : object.items()) result[kind] = Seconds{real(time)};
  return result;
}

void add_causes(ordered_json& j, const Causes& causes) {
  j["bubbles_s"] = ordered_json::object();
  for (std::size_t c = 0; c < kCauseKeys.size(); ++c) {
    j["bubbles_s"][kCauseKeys[c]] = causes.bubbles[c].v;
  }
  j["exposed_comm_by_kind_s"] = by_kind(causes.exposed_comm);
  j["critical_path_s"] = by_kind(causes.critical_path);
  j["critical_path_crossings"] = causes.critical_path_crossings;
  const RankCauses none;
  visit_causes(none, [&](const char* group, const char* key, double) {
    j[group][key] = ordered_json::array();
  });
  for (const RankCauses& r : causes.ranks) {
    visit_causes(r, [&](const char* group, const char* key, double value) {
      j[group][key].push_back(value);
    });
  }
}

/// The causes in a report; zeros if it was written by an earlier version, which had none.
Causes causes_from(const json& j) {
  Causes causes;
  if (!j.contains("bubbles_s")) return causes;
  for (std::size_t c = 0; c < kCauseKeys.size(); ++c) {
    causes.bubbles[c].v = real(j.at("bubbles_s").at(kCauseKeys[c]));
  }
  causes.exposed_comm = by_kind(j.at("exposed_comm_by_kind_s"));
  causes.critical_path = by_kind(j.at("critical_path_s"));
  causes.critical_path_crossings = real(j.at("critical_path_crossings"));
  causes.ranks.resize(j.at("time_s").at("computation").size());
  for (std::size_t i = 0; i < causes.ranks.size(); ++i) {
    visit_causes(causes.ranks[i], [&](const char* group, const char* key, double& value) {
      value = real(j.at(group).at(key).at(i));
    });
  }
  return causes;
}

Report from_json(const json& j) {
  Report r;
  j.at("backend").get_to(r.backend);
  j.at("program_hash").get_to(r.program_hash);
  j.at("model").get_to(r.model);
  j.at("cluster").get_to(r.cluster);
  r.software = j.value("framework", "");
  if (j.contains("likely")) {
    const auto factors = [&](const char* key) {
      return LikelyFactors{real(j["likely"].at(key).at(0)), real(j["likely"].at(key).at(1))};
    };
    r.certainty = Certainty{factors("step_time_factors"), factors("memory_factors")};
  }
  j.at("world_size").get_to(r.world_size);
  r.step_time.v = real(j.at("step_time_s"));
  r.tokens_per_s = or_none(j.at("tokens_per_s"));
  r.images_per_s = or_none(j.at("images_per_s"));
  r.time_to_train.v = or_none(j.at("time_to_train_s"));
  r.scaling_efficiency = or_none(j.at("scaling_efficiency"));
  r.model_flops_per_step.v = or_none(j.at("model_flops_per_step"));
  r.mfu = or_none(j.at("mfu"));
  const auto later = [&](const char* key,
                         double otherwise) {  // reports of earlier versions lack the key
    return j.contains(key) ? real(j.at(key)) : otherwise;
  };
  const auto later_known = [&](const char* key, double otherwise) {
    return j.contains(key) ? or_none(j.at(key)) : otherwise;
  };
  r.hardware_flops_per_step.v = later_known("hardware_flops_per_step", r.model_flops_per_step.v);
  r.hfu = later_known("hfu", r.mfu);
  r.dollars_per_billion_tokens = later_known("dollars_per_billion_tokens", 0.0);
  r.bubble_fraction = real(j.at("bubble_fraction"));
  r.bubble_over_ideal = real(j.at("bubble_over_ideal"));
  r.exposed_comm.v = real(j.at("exposed_comm_s"));
  r.slowed_compute.v = later("slowed_compute_s", 0.0);
  r.saves = static_cast<int>(later("saves", 0.0));
  r.save_time.v = later("save_time_s", 0.0);
  const std::size_t ranks = j.at("compute_s").size();
  for (std::size_t i = 0; i < ranks; ++i) {
    RankReport rank;
    rank.rank = rank.number = static_cast<Rank>(i);
    if (j.contains("ranks")) rank.number = j.at("ranks").at(i);
    rank.compute.v = real(j.at("compute_s").at(i));
    rank.exposed_comm.v = real(j.at("exposed_comm_by_rank_s").at(i));
    rank.idle.v = real(j.at("idle_s").at(i));
    rank.stage_span.v = real(j.at("stage_span_s").at(i));
    rank.peak_microbatches_in_flight = j.at("peak_microbatches_in_flight").at(i);
    rank.weight_staleness = j.at("weight_staleness").at(i);
    rank.comm_bytes_sent.v = j.at("comm_bytes_sent").at(i);
    rank.peak_memory.v = j.at("peak_memory_bytes").at(i);
    j.at("peak_memory_bytes_by_kind").at(i).get_to(rank.peak_memory_by_kind);
    if (j.contains("host_memory_bytes")) rank.host_memory.v = j.at("host_memory_bytes").at(i);
    if (j.contains("drive_bytes")) rank.drive.v = j.at("drive_bytes").at(i);
    r.ranks.push_back(std::move(rank));
  }
  for (const auto& [name, kind] : j.at("kinds").items()) {
    r.kinds[name] = {Seconds{real(kind.at("time_s"))}, Seconds{real(kind.at("waiting_s"))},
                     kind.at("count").get<std::int64_t>()};
  }
  r.causes = causes_from(j);
  r.losses = numbers(j.at("losses"));
  r.grad_norms = numbers(j.at("grad_norms"));
  if (j.contains("validation")) {
    for (const json& v : j.at("validation")) {
      r.validation.push_back({v.at("step").get<int>(), real(v.at("loss"))});
    }
  }
  return r;
}

}  // namespace

std::string report_json(const Report& r) {
  ordered_json j;
  j["backend"] = r.backend;
  j["world_size"] = r.world_size;
  j["program_hash"] = r.program_hash;
  j["model"] = r.model;
  j["cluster"] = r.cluster;
  if (!r.software.empty()) j["framework"] = r.software;
  j["step_time_s"] = r.step_time.v;
  if (r.certainty) {
    const LikelyFactors &time = r.certainty->step_time, &memory = r.certainty->memory;
    j["likely"] = {{"part_of_runs", kLikelyPart},
                   {"step_time_s", {time.least * r.step_time.v, time.most * r.step_time.v}},
                   {"step_time_factors", {time.least, time.most}},
                   {"memory_factors", {memory.least, memory.most}}};
  }
  if (r.apart_step_time.v > 0) j["apart_step_time_s"] = r.apart_step_time.v;
  if (r.sync_step_time.v > 0) j["sync_step_time_s"] = r.sync_step_time.v;
  j["tokens_per_s"] = known(r.tokens_per_s);
  j["images_per_s"] = known(r.images_per_s);
  j["time_to_train_s"] = known(r.time_to_train.v);
  j["scaling_efficiency"] = known(r.scaling_efficiency);
  j["model_flops_per_step"] = known(r.model_flops_per_step.v);
  j["mfu"] = known(r.mfu);
  j["hardware_flops_per_step"] = known(r.hardware_flops_per_step.v);
  j["hfu"] = known(r.hfu);
  j["dollars_per_billion_tokens"] = known(r.dollars_per_billion_tokens);
  j["bubble_fraction"] = r.bubble_fraction;
  j["bubble_over_ideal"] = r.bubble_over_ideal;
  j["exposed_comm_s"] = r.exposed_comm.v;
  if (r.slowed_compute.v > 0) j["slowed_compute_s"] = r.slowed_compute.v;
  if (r.saves > 0) {
    j["saves"] = r.saves;
    j["save_time_s"] = r.save_time.v;
  }
  const bool some_absent = std::any_of(r.ranks.begin(), r.ranks.end(),
                                       [](const RankReport& x) { return x.number != x.rank; });
  if (some_absent) j["ranks"] = by_rank(r, [](const RankReport& x) { return x.number; });
  const auto rank_field = [&](const char* key, auto field) { j[key] = by_rank(r, field); };
  rank_field("compute_s", [](const RankReport& x) { return x.compute.v; });
  rank_field("exposed_comm_by_rank_s", [](const RankReport& x) { return x.exposed_comm.v; });
  rank_field("idle_s", [](const RankReport& x) { return x.idle.v; });
  rank_field("stage_span_s", [](const RankReport& x) { return x.stage_span.v; });
  rank_field("peak_microbatches_in_flight",
             [](const RankReport& x) { return x.peak_microbatches_in_flight; });
  rank_field("weight_staleness", [](const RankReport& x) { return x.weight_staleness; });
  rank_field("comm_bytes_sent", [](const RankReport& x) { return x.comm_bytes_sent.v; });
  rank_field("peak_memory_bytes", [](const RankReport& x) { return x.peak_memory.v; });
  rank_field("peak_memory_bytes_by_kind",
             [](const RankReport& x) { return ordered_json(x.peak_memory_by_kind); });
  rank_field("host_memory_bytes", [](const RankReport& x) { return x.host_memory.v; });
  rank_field("drive_bytes", [](const RankReport& x) { return x.drive.v; });
  j["kinds"] = ordered_json::object();
  for (const auto& [name, kind] : r.kinds) {
    j["kinds"][name] = {
        {"time_s", kind.time.v}, {"waiting_s", kind.waiting.v}, {"count", kind.count}};
  }
  add_causes(j, r.causes);
  j["losses"] = numbers(r.losses);
  j["grad_norms"] = numbers(r.grad_norms);
  for (const ValidationLoss& v : r.validation) {
    j["validation"].push_back({{"step", v.step}, {"loss", v.loss}});
  }
  return j.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<Report> parse_report(const std::string& text, const std::string& file) {
  try {
    if (nests_too_deep(text)) {
      return Error{ErrorKind::Parse, "not a report of lockstep: it nests too deep",
                   SourceSpan{file, 0, 0}};
    }
    return from_json(json::parse(text));  // objects with an order are quadratic in their keys
  } catch (const json::exception& e) {
    const std::string what = e.what();
    const std::size_t prefix = what.find("] ");
    return Error{
        ErrorKind::Parse,
        "not a report of lockstep: " + what.substr(prefix == std::string::npos ? 0 : prefix + 2),
        SourceSpan{file, 0, 0}};
  }
}

}  // namespace lockstep
