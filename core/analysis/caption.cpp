// caption: a moment of a step in words.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "core/analysis/in_flight.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostParts = 4;  // of an enumeration in one sentence

/// "rank 3", "ranks 0-3 and 5", "all ranks", "6 ranks".
std::string ranks_text(const std::vector<Rank>& ranks, std::size_t world) {
  if (ranks.size() == world && world > 1) return "all ranks";
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    std::string run = std::to_string(ranks[i]);
    if (j > i) run += (j == i + 1 ? " and " : "-") + std::to_string(ranks[j]);
    runs.push_back(std::move(run));
    i = j + 1;
  }
  if (runs.size() > kMostParts) return std::to_string(ranks.size()) + " ranks";
  std::string text = "ranks ";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ") + runs[i];
  }
  return text;
}

/// The predicate for ops of a kind, with its verb in the plural for `several` ranks: "runs
/// forward", "run forward".
std::string work_text(const std::string& kind, const std::string& name, bool several) {
  static const std::map<std::string, std::pair<std::string, std::string>> verbs = {
      {"forward", {"runs forward", "run forward"}},
      {"backward", {"runs backward", "run backward"}},
      {"backward_input", {"runs backward for the input", "run backward for the input"}},
      {"backward_weight", {"runs backward for the weights", "run backward for the weights"}},
      {"recompute", {"recomputes activations", "recompute activations"}},
      {"optimizer", {"updates the parameters", "update the parameters"}}};
  const auto found = verbs.find(kind);
  if (found == verbs.end()) return (several ? "run " : "runs ") + name;
  return several ? found->second.second : found->second.first;
}

/// What a transfer carries, in words; the kind of its first buffer tells.
std::string cargo_text(const StepGraph& step, SpanIndex i) {
  if (step.program() == nullptr) return "data";
  const Role& role = step.program()->role_of(step[i].rank);
  const auto args = role.args_of(role.op(step[i].op));
  if (args.empty()) return "data";
  switch (role.buffer(role.root(args.front())).kind) {
    case BufferKind::Param:
    case BufferKind::ParamFull:
    case BufferKind::Master:
      return "parameters";
    case BufferKind::Grad:
      return "gradients";
    case BufferKind::Activation:
      return "activations";
    case BufferKind::Boundary:
      return static_cast<Phase>(step.op(i).phase) == Phase::F ? "activations"
                                                              : "gradients of activations";
    case BufferKind::Optimizer:
      return "optimizer states";
    case BufferKind::Workspace:
      return static_cast<Phase>(step.op(i).phase) == Phase::O ? "directions" : "data";
    case BufferKind::Metric:
      return "a number";
    default:
      return "data";
  }
}

std::string collective_text(const StepGraph& step, SpanIndex i) {
  const std::string& kind = step.kind(i);
  const TraceOp& op = step.op(i);
  const std::string cargo =
      cargo_text(step, i) + (op.layer >= 0 ? " of layer " + std::to_string(op.layer) : "");
  if (kind == "all_gather") return "gather " + cargo;
  if (kind == "reduce_scatter") return "sum " + cargo + " and keep a piece each";
  if (kind == "all_reduce") return "sum " + cargo;
  if (kind == "broadcast") return "share " + cargo;
  return "exchange " + cargo;
}

void begin_sentence(std::string& text, std::string sentence) {
  if (sentence.empty()) return;
  sentence[0] =
      static_cast<char>(sentence[0] >= 'a' && sentence[0] <= 'z' ? sentence[0] - 32 : sentence[0]);
  text += (text.empty() ? "" : " ") + sentence + ".";
}

std::string joined(const std::vector<std::string>& parts, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? last : ", ") + parts[i];
  }
  return text;
}

class Caption {
 public:
  Caption(const StepGraph& step, const Bubbles& bubbles, SimTime t)
      : step_(step), t_(t), world_(step.trace().same_as.size()) {
    for (std::size_t r = 0; r < world_; ++r) {
      activities_.push_back(activity_at(step, bubbles, static_cast<Rank>(r), t));
    }
  }

  std::string text() const {
    std::string text;
    begin_sentence(text, work());
    begin_sentence(text, transfers());
    begin_sentence(text, waiting());
    return text;
  }

 private:
  /// Groups the ranks by what they compute and says it. A group has one microbatch and, without a
  /// pipeline, one layer; where that makes more than kMostParts groups, ranks are grouped by kind
  /// only.
  std::string work() const {
    using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // kind, microbatch, layer
    std::map<Key, std::vector<Rank>> groups, kinds;
    const bool pipeline = step_.program() == nullptr || step_.program()->mesh.size_of("pp") > 1;
    for (std::size_t r = 0; r < world_; ++r) {
      const SpanIndex i = activities_[r].computing;
      if (i < 0) continue;
      const TraceOp& op = step_.op(i);
      groups[{op.kind, op.microbatch, pipeline ? -1 : op.layer}].push_back(static_cast<Rank>(r));
      kinds[{op.kind, -1, -1}].push_back(static_cast<Rank>(r));
    }
    const std::map<Key, std::vector<Rank>>& shown = groups.size() <= kMostParts ? groups : kinds;
    std::map<Rank, std::string> parts;  // by the first rank
    for (const auto& [key, ranks] : shown) {
      const auto [kind, microbatch, layer] = key;
      const SpanIndex i = activities_[ranks.front()].computing;
      std::string& part = parts[ranks.front()];
      part = ranks_text(ranks, world_) + " " +
             work_text(step_.kind(i), step_.name(i), ranks.size() > 1);
      if (layer >= 0) part += " of layer " + std::to_string(layer);
      if (microbatch >= 0)
        part += (layer >= 0 ? ", microbatch " : " of microbatch ") + std::to_string(microbatch);
    }
    std::vector<std::string> list;
    for (auto& [rank, part] : parts) list.push_back(std::move(part));
    return joined(list, " and ");
  }

  bool waits_for_transfer(const std::vector<Rank>& ranks) const {
    return std::any_of(ranks.begin(), ranks.end(), [&](Rank r) {
      const Bubble* b = activities_[r].bubble;
      return b != nullptr && b->cause == BubbleCause::Communication;
    });
  }

  std::string transfers() const {
    const std::vector<Flight> flights = in_flight(step_, t_);
    std::vector<std::string> parts;
    std::set<std::string> said;
    std::size_t more = 0;
    for (const Flight& f : flights) {
      std::string part;
      if (f.message) {
        const TraceOp& op = step_.op(f.span);
        part = "rank " + std::to_string(f.ranks[0]) + " sends " + cargo_text(step_, f.span) +
               (op.microbatch >= 0 ? " of microbatch " + std::to_string(op.microbatch) : "") +
               " to rank " + std::to_string(f.ranks[1]);
      } else {
        if (f.ranks.size() < 2) continue;
        part = ranks_text(f.ranks, world_) + " " + collective_text(step_, f.span);
        part += waits_for_transfer(f.ranks) ? ", and nothing is computed meanwhile"
                                            : " behind the computation";
      }
      if (!said.insert(part).second) continue;
      parts.size() < kMostParts ? parts.push_back(std::move(part)) : static_cast<void>(++more);
    }
    if (more > 0) parts.push_back(std::to_string(more) + " more transfers are under way");
    return joined(parts, "; ");
  }

  /// Says what the rank with the longest bubble waits for; exposed communication does not count,
  /// since the rank's own transfer runs then.
  std::string waiting() const {
    const Bubble* longest = nullptr;
    Rank rank = 0;
    std::size_t waiting = 0;
    for (std::size_t r = 0; r < world_; ++r) {
      const Bubble* b = activities_[r].bubble;
      if (b == nullptr || b->cause == BubbleCause::Communication) continue;
      ++waiting;
      if (longest == nullptr || b->length() > longest->length()) {
        longest = b;
        rank = static_cast<Rank>(r);
      }
    }
    if (longest == nullptr) return "";
    std::string text = "rank " + std::to_string(rank) + " ";
    if (longest->blocker < 0 && longest->next < 0) {
      text += "is done with the step and others are not";
    } else if (longest->blocker < 0) {
      text += "has nothing to do";
    } else {
      text += describe(step_, *longest);
    }
    if (longest->cause == BubbleCause::WarmUp || longest->cause == BubbleCause::CoolDown) {
      text += ": " + std::string(to_string(longest->cause)) + " bubble";
    }
    if (waiting > 1) text += " (" + std::to_string(waiting) + " ranks stand still)";
    return text;
  }

  const StepGraph& step_;
  const SimTime t_;
  const std::size_t world_;
  IndexVector<int, RankActivity> activities_;  // by rank
};

}  // namespace

std::string describe(const StepGraph& step, const RankActivity& activity) {
  if (const SpanIndex i = activity.computing; i >= 0) {
    const TraceOp& op = step.op(i);
    std::string text = work_text(step.kind(i), step.name(i), false);
    if (op.microbatch >= 0) text += " of microbatch " + std::to_string(op.microbatch);
    if (op.stage >= 0) text += " on stage " + std::to_string(op.stage);
    return text;
  }
  if (activity.bubble == nullptr) return "";
  return describe(step, *activity.bubble) + ": " + std::string(to_string(activity.bubble->cause));
}

std::string caption(const StepGraph& step, const Bubbles& bubbles, SimTime t) {
  return Caption(step, bubbles, t).text();
}

}  // namespace lockstep
