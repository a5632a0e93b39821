#include "core/spec/activation_checkpoint.hpp"

#include <algorithm>
#include <charconv>

namespace lockstep {
namespace {

/// The number k of "every k-th block".
std::optional<std::int64_t> period(const std::string& option) {
  std::int64_t every = 0;
  const char* const last = option.data() + option.size();
  const auto [end, fault] = std::from_chars(option.data(), last, every);
  if (fault != std::errc() || end != last || every < 1) return std::nullopt;
  return every;
}

}  // namespace

const RecomputePolicy* find_recompute_policy(std::string_view name) {
  const auto* const found =
      std::find_if(kRecomputePolicies.begin(), kRecomputePolicies.end(),
                   [&](const RecomputePolicy& policy) { return policy.name == name; });
  return found == kRecomputePolicies.end() ? nullptr : found;
}

std::vector<std::string> ActivationCheckpointSpec::policies() const {
  std::vector<std::string> names;
  if (mode != ActivationCheckpoint::Selective || period(selective_ac_option)) return names;
  names.emplace_back();
  for (const char c : selective_ac_option) {
    if (c == ',') {
      names.emplace_back();
    } else if (c != ' ') {
      names.back() += c;
    }
  }
  return names;
}

std::optional<Recompute> ActivationCheckpointSpec::of_block(std::int64_t block) const {
  constexpr Recompute kEverything = {ForwardParts::all(), ForwardParts::all()};
  if (mode == ActivationCheckpoint::None) return Recompute{};
  if (mode == ActivationCheckpoint::Full) return kEverything;
  if (const auto every = period(selective_ac_option)) {
    return (block + 1) % *every == 0 ? kEverything : Recompute{};
  }
  Recompute all;
  all.keeps_exchanges = true;
  for (const std::string& name : policies()) {
    const RecomputePolicy* policy = find_recompute_policy(name);
    if (policy == nullptr) return std::nullopt;
    all.parts = all.parts | policy->what.parts;
    all.to_end = all.to_end | policy->what.to_end;
    all.second_products |= policy->what.second_products;
    all.keeps_exchanges &= policy->what.keeps_exchanges;
  }
  return all;
}

}  // namespace lockstep
