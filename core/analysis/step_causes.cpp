#include "core/analysis/step_causes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "core/format/format.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostSaid = 3;   // parts in a sentence
constexpr double kWorthSaying = 0.05;  // of the largest difference; smaller ones are left out
constexpr double kAsLong = 0.0005;     // of a step; steps that differ by less take equally long

Seconds mean_recompute(const Report& report, Seconds compute) {
  const auto found = report.kinds.find("recompute");
  if (found == report.kinds.end()) return {};
  const double ranks = std::max(report.world_size, 1);
  return std::min((1.0 / ranks) * found->second.time, compute);
}

/// The kind of transfer whose exposed time differs most in the direction of the whole, in brackets.
std::string transfer_behind(const Report& a, const Report& b, double whole) {
  std::set<std::string> kinds;
  for (const Report* r : {&a, &b}) {
    for (const auto& [kind, time] : r->causes.exposed_comm) kinds.insert(kind);
  }
  const auto exposed = [](const Report& r, const std::string& kind) {
    const auto found = r.causes.exposed_comm.find(kind);
    return found == r.causes.exposed_comm.end() ? 0.0 : found->second.v;
  };
  std::string most;
  double largest = 0;
  for (const std::string& kind : kinds) {
    const double difference = exposed(b, kind) - exposed(a, kind);
    if (difference * whole <= 0 || std::fabs(difference) <= largest) continue;
    largest = std::fabs(difference);
    most = kind;
  }
  std::replace(most.begin(), most.end(), '_', '-');
  return most.empty() ? "" : " (" + most + ")";
}

struct SaidPart {
  std::string name;
  double difference = 0;  // seconds, B - A
};

/// The differences in the groups in which people speak of them, the largest first.
std::vector<SaidPart> said_parts(const Report& a, const Report& b) {
  const StepCauses x = step_causes(a), y = step_causes(b);
  const auto of = [&](StepCause part) { return y[part].v - x[part].v; };
  const double communication = of(StepCause::Communication);
  std::vector<SaidPart> parts = {
      {"computation", of(StepCause::Computation)},
      {"recomputation", of(StepCause::Recompute)},
      {"imbalance", of(StepCause::Imbalance)},
      {"warm-up and cool-down", of(StepCause::WarmUp) + of(StepCause::CoolDown)},
      {std::string(to_string(StepCause::Waiting)), of(StepCause::Waiting)},
      {std::string(to_string(StepCause::Communication)) + transfer_behind(a, b, communication),
       communication},
      {std::string(to_string(StepCause::Data)), of(StepCause::Data)},
      {"other idle time", of(StepCause::Other)},
  };
  std::stable_sort(parts.begin(), parts.end(), [](const SaidPart& p, const SaidPart& q) {
    return std::fabs(p.difference) > std::fabs(q.difference);
  });
  const double least =
      std::max(kWorthSaying * std::fabs(parts.front().difference), kAsLong / 10 * a.step_time.v);
  std::erase_if(parts, [&](const SaidPart& p) { return std::fabs(p.difference) < least; });
  if (parts.size() > kMostSaid) parts.resize(kMostSaid);
  return parts;
}

}  // namespace

std::string_view to_string(StepCause part) {
  constexpr IndexArray<StepCause, std::string_view, kNumStepCauses> kNames = {
      "computation",           "recompute", "imbalance",        "warm-up", "waiting for a peer",
      "exposed communication", "cool-down", "waiting for data", "other"};
  return kNames[part];
}

std::optional<BubbleCause> cause_of(StepCause part) {
  switch (part) {
    case StepCause::Computation:
    case StepCause::Recompute:
      return std::nullopt;
    case StepCause::Imbalance:
    case StepCause::Waiting:
      return BubbleCause::Peer;
    case StepCause::WarmUp:
      return BubbleCause::WarmUp;
    case StepCause::Communication:
      return BubbleCause::Communication;
    case StepCause::CoolDown:
      return BubbleCause::CoolDown;
    case StepCause::Data:
      return BubbleCause::Data;
    case StepCause::Other:
      return BubbleCause::Other;
  }
  return std::nullopt;
}

StepCauses step_causes(const Report& report) {
  StepCauses parts{};
  if (report.ranks.empty()) return parts;
  const double share = 1.0 / static_cast<double>(report.ranks.size());
  Seconds compute, busiest;
  for (const RankReport& rank : report.ranks) {
    compute += share * rank.compute;
    busiest = std::max(busiest, rank.compute);
  }
  parts[StepCause::Recompute] = mean_recompute(report, compute);
  parts[StepCause::Computation] = compute - parts[StepCause::Recompute];
  if (report.causes.ranks.size() != report.ranks.size()) {  // a report that tells no causes
    parts[StepCause::Other] = report.step_time - compute;
    return parts;
  }
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const auto& bubbles = report.causes.ranks[r].bubbles;
    const Seconds peer = bubbles[BubbleCause::Peer];
    const Seconds imbalance = std::min(peer, busiest - report.ranks[r].compute);
    parts[StepCause::Imbalance] += share * imbalance;
    parts[StepCause::Waiting] += share * (peer - imbalance);
    parts[StepCause::WarmUp] += share * bubbles[BubbleCause::WarmUp];
    parts[StepCause::Communication] += share * bubbles[BubbleCause::Communication];
    parts[StepCause::CoolDown] += share * bubbles[BubbleCause::CoolDown];
    parts[StepCause::Data] += share * bubbles[BubbleCause::Data];
    parts[StepCause::Other] += share * bubbles[BubbleCause::Other];
  }
  return parts;
}

std::string conclusion(const Report& a, const Report& b) {
  if (!(a.step_time.v > 0) || !(b.step_time.v > 0)) return "";
  const double difference = b.step_time.v - a.step_time.v;
  std::string text;
  if (std::fabs(difference) < kAsLong * a.step_time.v) {
    text = "A and B take equally long";
  } else {
    text = "B is " + time_text({std::fabs(difference)}) +
           (difference < 0 ? " shorter (" : " longer (") +
           change_text(a.step_time.v, b.step_time.v) + ")";
  }
  std::vector<std::string> words;
  for (const SaidPart& part : said_parts(a, b)) {
    words.push_back(time_text({std::fabs(part.difference)}) +
                    (part.difference < 0 ? " less " : " more ") + part.name);
  }
  return text + (words.empty() ? "" : ": ") + joined(words) + ".";
}

}  // namespace lockstep
