// Campaign text: what `lockstep campaign` prints, as tables.
#pragma once

#include <string>

#include "core/campaign/answer.hpp"
#include "core/format/table.hpp"

namespace lockstep {

std::string campaign_text(const CampaignAnswer& answer, const Screen& screen);

}  // namespace lockstep
