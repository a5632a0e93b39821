// What of [campaign] is refused. Whether a phase has a layout is known when its step is simulated.
#include <string>

#include "core/spec/validate/faults.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

void validate_phases(const CampaignSpec& c, double tokens, Faults& faults) {
  if (c.phases.empty()) return;
  const std::string key = "campaign.phase";
  double given = 0, share = 0;
  int rest = 0;
  for (const CampaignPhaseSpec& phase : c.phases) {
    faults.require(phase.tokens >= 0 && phase.share >= 0 && phase.share <= 1, key,
                   "has tokens above 0, or a share between 0 and 1");
    faults.require(phase.seq_len >= 0 && phase.global_batch_size >= 0, key,
                   "has a seq_len and a global_batch_size of at least 1, or those of the scenario");
    if (phase.tokens > 0 && phase.share > 0) {
      faults.add(key, "a phase has tokens or a share of all tokens, not both");
    }
    if (!phase.scenario.empty() && (phase.seq_len > 0 || phase.global_batch_size > 0)) {
      faults.add(key,
                 "a phase with a scenario of its own takes seq_len and global_batch_size from "
                 "that file");
    }
    given += phase.tokens;
    share += phase.share;
    rest += phase.tokens == 0 && phase.share == 0 ? 1 : 0;
  }
  if (rest > 1)
    faults.add(key, "one phase at most may leave out tokens and share: it has the rest");
  if ((share > 0 || rest > 0) && tokens == 0) {
    faults.add(key, "a share, or the rest, is of campaign.tokens, which is not given");
  }
  const double known = given + share * tokens;
  if (tokens > 0 && known > tokens * (1 + 1e-9)) {
    faults.add(key, "the phases have more tokens than campaign.tokens");
  }
  if (tokens > 0 && rest == 0 && known < tokens * (1 - 1e-9)) {
    faults.add(key,
               "the phases have fewer tokens than campaign.tokens: leave out tokens and share "
               "of one, which then has the rest");
  }
}

}  // namespace

void validate_campaign(const Scenario& s, Faults& faults) {
  const CampaignSpec& c = s.campaign;
  if (c.save_to == SaveTo::Drives && s.cluster.drives.count == 0) {
    faults.add("campaign.save_to", "save_to = \"drives\" needs drives: give cluster.drives");
  }
  if (c.days > 0 && (c.tokens > 0 || !c.phases.empty())) {
    faults.add("campaign.days", "a campaign has tokens (in phases) or days, not both");
  }
  validate_phases(c, c.tokens > 0 ? c.tokens : s.training.total_tokens, faults);
}

}  // namespace lockstep
