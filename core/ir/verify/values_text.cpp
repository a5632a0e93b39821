#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

bool Values::fault(const RoleRun& run, OpId id, const std::string& what) {
  if (!failed_) faults_.add(op_at(program_, run.rank, id) + ": " + what);
  failed_ = true;
  return true;
}

namespace {

std::string in_words(StateKind state, const std::string& unit) {
  const std::string_view words = info(state).words;
  const std::size_t at = words.find("{}");
  return std::string(words.substr(0, at)) + unit + std::string(words.substr(at + 2));
}

}  // namespace

std::string Values::text(const Meaning& m) const {
  std::string of;
  if (m.layer >= 0) of += " of layer " + number(m.layer);
  if (m.microbatch >= 0) of += (of.empty() ? " of" : ",") + (" microbatch " + number(m.microbatch));
  const auto unit = [&] { return m.id < 0 ? std::string("a unit") : unit_name(m.id); };
  switch (m.what) {
    case Means::Unknown:
      return "what has no one meaning";
    case Means::Zeros:
      return "zeros";
    case Means::Data:
      return std::string(to_string(static_cast<HostData>(m.id))) + of;
    case Means::Weights:
      return in_words(StateKind::Param, unit());
    case Means::State:
      return in_words(m.state, unit());
    case Means::Way:
      return "the way of the replicas of " + unit();
    case Means::Tensor:
      return names_[m.id] + of;
    case Means::Gradient:
      return "the gradient of " + unit();
    case Means::CodedWeights:
      return "codes of the weights of " + unit();
    case Means::CodedGradient:
      return "codes of the gradient of " + unit();
    case Means::Slices:
      return "sums of shards of the gradient of " + unit();
    case Means::Compensated:
      return "the gradient of " + unit() + " with what was left out before";
    case Means::LeftFactor:
      return "a left factor of the gradient of " + unit();
    case Means::Basis:
      return "a basis of the gradient of " + unit();
    case Means::RightFactor:
      return "a right factor of the gradient of " + unit();
    case Means::Direction:
      return "the direction of " + unit();
    case Means::Orthogonal:
      return "the orthogonal direction of " + unit();
    case Means::FactorSums:
      return "sums of squares of the gradient of " + unit();
    case Means::UpdateSquares:
      return "squares of the update of " + unit();
    case Means::Statistics:
      return "running statistics of " + unit();
    case Means::Loss:
      return "the loss";
    case Means::Squares:
      return "squares of gradients";
    case Means::Coefficient:
      return "the coefficient of clipping";
    case Means::Norm:
      return "the gradient's norm";
    case Means::Message:
      return "a message";
  }
  return "?";
}

std::string Values::text(PatternId pattern) const {
  std::string result;
  const auto& pieces = patterns_.at(pattern).pieces;
  if (pieces.empty()) return "not written";
  for (const int axis : axes_) {
    result += (result.empty() ? "" : ", ") +
              std::string(to_string(pieces[0].as.placement.along(axis))) + " along " +
              program_.mesh.dims[axis].name;
  }
  return result;
}

/// Says part by part what an argument holds. Parts of a gradient that is not sharded come with the
/// parameters that begin there.
std::string Values::parts(const RoleRun& run, const std::vector<Held>& held) const {
  std::string all;
  for (const Held& part : held) {
    const Content& c = part.content;
    const auto& pieces = patterns_.at(c.pattern).pieces;
    const bool gradient = c.meaning.what == Means::Gradient && c.meaning.id >= 0;
    const int u = gradient ? run.units[c.meaning.id] : -1;
    std::string names;
    if (u >= 0 && !pieces.empty()) {
      const Unit& unit = run.role.units[u];
      for (const UnitParameter& p : unit.parameters) {
        const std::int64_t at = p.offset * size_of(pieces[0].as.dtype);
        if (unit.shard_group.valid() || at < part.begin || at >= part.end) continue;
        names += (names.empty() ? " (" : ", ") + program_.parameters[p.parameter].name;
      }
      if (!names.empty()) names += ")";
    }
    all += (all.empty() ? "bytes [" : "; bytes [") + number(part.begin) + ", " + number(part.end) +
           ") of " + text(c.meaning) + names + ", " + text(c.pattern);
  }
  return all;
}

}  // namespace lockstep::verification
