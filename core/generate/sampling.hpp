// Sampling: which token comes next.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep {

/// How a token is drawn. First the logits are divided by `temperature`, then all but the `top_k`
/// most probable tokens are left out, then those beyond the fewest whose probabilities add up to
/// `top_p` (Holtzman et al. 2020), as Hugging Face's transformers do it in this order.
struct Sampling {
  double temperature = 1;  // 0: always the most probable token
  int top_k = 0;           // 0: all
  double top_p = 1;
  std::uint64_t seed = 0;
};

/// The token for a position. It is a function of the logits, the rules and the position alone; of
/// equally probable tokens the lowest is the most probable. Requires finite logits, at least one.
std::int32_t next_token(std::span<const float> logits, const Sampling& rules,
                        std::int64_t position);

}  // namespace lockstep
