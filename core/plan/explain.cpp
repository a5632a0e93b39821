#include "core/plan/explain.hpp"

#include <algorithm>
#include <cmath>

#include "core/format/format.hpp"

namespace lockstep {
namespace {

std::string instead(const char* what, int other, int best) {
  return std::string(what) + " " + std::to_string(other) + " instead of " + std::to_string(best);
}

/// What of a layout makes it compute longer.
std::string blame_for_computation(const LayoutPoint& best, const LayoutPoint& other) {
  if (other.recomputation != best.recomputation && other.recomputation != Recomputation::None) {
    return std::string(to_string(other.recomputation));
  }
  if (other.microbatch < best.microbatch) {
    return instead("microbatches of", other.microbatch, best.microbatch);
  }
  if (other.tensor != best.tensor) return instead("tp", other.tensor, best.tensor);
  if (other.context != best.context) return instead("cp", other.context, best.context);
  if (other.expert != best.expert) return instead("ep", other.expert, best.expert);
  return "stages that are less even";
}

std::string blame_for_bubble(const LayoutPoint& best, const LayoutPoint& other) {
  if (other.pipeline != best.pipeline) return instead("pp", other.pipeline, best.pipeline);
  if (other.chunks < best.chunks) return instead("v", other.chunks, best.chunks);
  if (other.microbatch != best.microbatch) {
    return instead("microbatches of", other.microbatch, best.microbatch);
  }
  return "longer stages";
}

std::string blame_for_communication(const LayoutPoint& best, const LayoutPoint& other) {
  if (other.tensor > best.tensor) return instead("tp", other.tensor, best.tensor);
  if (other.context > best.context) return instead("cp", other.context, best.context);
  if (other.offload != best.offload && other.offload != Offload::None) return "offload";
  if (other.zero == 3 && best.zero != 3) return "gathered parameters";
  if (other.zero == 2 && best.zero < 2) {
    return other.pipeline > 1 ? "parameters gathered after the update"
                              : "gradients scattered for every microbatch";
  }
  if (other.expert > best.expert) return instead("ep", other.expert, best.expert);
  if (other.expert_tensor > best.expert_tensor) {
    return instead("etp", other.expert_tensor, best.expert_tensor);
  }
  const int own = other.replicate * other.shard, data = best.replicate * best.shard;
  if (own > data) return instead("dp", own, data);
  if (other.chunks > best.chunks) return instead("v", other.chunks, best.chunks);
  return "less to hide it behind";
}

}  // namespace

std::string why_slower(const EstimatedLayout& best, const EstimatedLayout& other) {
  const auto rest = [](const EstimatedLayout& e) {
    return (e.estimate.step_time - e.bound.compute - e.bound.bubble).v;
  };
  const double computation = (other.bound.compute - best.bound.compute).v;
  const double bubble = (other.bound.bubble - best.bound.bubble).v;
  const double exposed = rest(other) - rest(best);
  const double most = std::max({computation, bubble, exposed});
  if (most <= 0) return "";
  const std::string more = "+" + percent_text(most / best.estimate.step_time.v) + " ";
  const LayoutPoint &a = best.point, &b = other.point;
  if (most == computation) return more + "computation: " + blame_for_computation(a, b);
  if (most == bubble) return more + "bubble: " + blame_for_bubble(a, b);
  return more + "exposed communication: " + blame_for_communication(a, b);
}

std::string why_lost(const LostFamily& family, const EstimatedLayout& best, Bytes capacity) {
  if (capacity.v > 0 && family.bound.needed > capacity) {
    return "needs " + bytes_text(family.bound.needed) + " or more of " + bytes_text(capacity);
  }
  const double more = family.bound.time.v / best.estimate.step_time.v - 1;
  if (more > 0) return "+" + percent_text(more) + " or more computation and bubble";
  if (family.large > 0) return "none fits as estimated";
  return family.refused > 0 ? "refused: " + family.refusal : "not looked at";
}

double certainty(Seconds a, Seconds b) {
  return 0.5 * std::erfc(-std::log(b.v / a.v) / kOrderDeviation / std::sqrt(2.0));
}

std::optional<double> probability_of_first(const SpaceResult& result) {
  if (result.found.size() < 2) return std::nullopt;
  const Seconds a = result.found[0].figures.step_time, b = result.found[1].figures.step_time;
  return b < a ? std::nullopt : std::optional(certainty(a, b));
}

}  // namespace lockstep
