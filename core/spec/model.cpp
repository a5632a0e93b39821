#include "core/spec/model.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kRounding = 1e-9;  // so that an even share of 5 is not rounded up to 6

}  // namespace

BlockParts ModelSpec::parts() const {
  const BlockParts usual = architecture == Architecture::Llama ? kLlamaParts : kGpt2Parts;
  return {norm.value_or(usual.norm), activation.value_or(usual.activation),
          positions.value_or(usual.positions), biases.value_or(usual.biases)};
}

std::int64_t ModelSpec::rotary_dim() const {
  if (is_latent()) return latent.qk_rope_head_dim;
  // Even, as Hugging Face's models round it down.
  return static_cast<std::int64_t>(rotary_fraction * static_cast<double>(head_dim)) / 2 * 2;
}

std::int64_t ModelSpec::expert_capacity(std::int64_t tokens, int ranks) const {
  double factor = capacity_factor;
  if (router_imbalance > 0) {
    const double needed = ranks > 1 ? router_imbalance : 1;
    factor = std::min(factor, needed);
  }
  const double share = factor * static_cast<double>(tokens) *
                       static_cast<double>(experts_per_token) / static_cast<double>(experts);
  // A token chooses an expert at most once, so an expert never needs more room than there are
  // tokens.
  return static_cast<std::int64_t>(
      std::min(static_cast<double>(tokens), std::max(1.0, std::ceil(share * (1 - kRounding)))));
}

ModelSpec::ExpertRows ModelSpec::expert_rows(std::int64_t tokens, int ranks) const {
  const std::int64_t mean = tokens * experts_per_token;
  if (ranks == 1) return {mean, mean};
  const std::int64_t most = ranks * tokens * std::min(experts_per_token, experts / ranks);
  const auto times = [&](double factor) {
    const double rows = std::ceil(factor * static_cast<double>(mean) * (1 - kRounding));
    return static_cast<std::int64_t>(std::min(rows, static_cast<double>(most)));
  };
  const std::int64_t expected = times(std::max(1.0, router_imbalance));
  if (router_imbalance > 0) return {expected, expected};
  return {expected, expert_rank_capacity_factor > 0 ? times(expert_rank_capacity_factor) : most};
}

std::string ModelSpec::why_only_simulated() const {
  if (!simulated_only.empty())
    return "Lockstep lacks " + simulated_only + " (model.simulated_only)";
  return router_imbalance == 0
             ? ""
             : "model.router_imbalance says how unevenly tokens choose their experts, which those "
               "of a training do by themselves";
}

namespace {

/// Whether `text` is what `pattern` says, in which each * stands for any text.
bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t begin = star; begin <= text.size(); ++begin) {
    if (matches(rest, text.substr(begin))) return true;
  }
  return false;
}

}  // namespace

bool ModelSpec::adapts(std::string_view module) const {
  if (lora.rank == 0) return false;
  const auto& wanted = lora.target_modules;
  const bool of_experts = experts > 0 && module.starts_with("linear_fc");
  const bool of_latents = is_latent() && module == "linear_qkv";
  return wanted.empty() ? !of_experts && !of_latents
                        : std::find(wanted.begin(), wanted.end(), module) != wanted.end();
}

bool ModelSpec::adapts_experts(std::string_view module) const {
  return experts > 0 && module.starts_with("linear_fc") && adapts(module);
}

bool ModelSpec::trains(std::string_view parameter) const {
  if (lora.rank > 0) return parameter.find(".lora_") != std::string_view::npos;
  return std::none_of(frozen.begin(), frozen.end(),
                      [&](const std::string& pattern) { return matches(pattern, parameter); });
}

}  // namespace lockstep
