#include "core/lower/update/update_rule.hpp"

namespace lockstep {

std::vector<StateKind> keeps_one_moment(const OptimizerSpec& /*optimizer*/) {
  return {StateKind::Moment1};
}

const UpdateRule& rule_of(const OptimizerSpec& optimizer, bool matrices) {
  switch (optimizer.name) {
    case OptimizerKind::AdamW:
    case OptimizerKind::Adam:
      return update_rules::kAdamW;
    case OptimizerKind::Sgd:
      return update_rules::kSgd;
    case OptimizerKind::Muon:
      return matrices ? update_rules::kMuon : update_rules::kAdamW;
    case OptimizerKind::Adafactor:
      return update_rules::kAdafactor;
    case OptimizerKind::Lion:
      return update_rules::kLion;
  }
  return update_rules::kAdamW;
}

const UpdateRule& rule_of(const OptimizerSpec& optimizer, const UnitLayout& layout) {
  switch (layout.moved_by) {
    case MovedBy::RouterBias:
      return update_rules::kRouterBias;
    case MovedBy::DelayedScale:
      return update_rules::kDelayedScale;
    default:
      return rule_of(optimizer, layout.orthogonalizes);
  }
}

}  // namespace lockstep
