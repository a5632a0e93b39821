#include "core/base/loss_scale.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace lockstep {

std::pair<std::string, std::string> fault_of(const LossScaling& scaling) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!(scaling.init_scale > 0 && scaling.init_scale <= kMost)) {
    return {"init_scale", "the scale must be positive and finite as a float32"};
  }
  if (!(scaling.growth_factor >= 1 && scaling.growth_factor <= kMost)) {
    return {"growth_factor", "growth must be at least 1: it raises the scale"};
  }
  if (!(scaling.backoff_factor > 0 && scaling.backoff_factor <= 1)) {
    return {"backoff_factor", "backoff must be in (0, 1]: it lowers the scale"};
  }
  if (scaling.growth_interval < 1) return {"growth_interval", "the interval is at least one step"};
  if (scaling.hysteresis < 1)
    return {"hysteresis",
            "the first overflow or a later one lowers the "
            "scale: hysteresis is at least 1"};
  if (!(scaling.min_scale >= 0 && scaling.min_scale <= scaling.init_scale)) {
    return {"min_scale", "the minimum is not negative and not above the first scale"};
  }
  return {};
}

LossScale LossScale::first(const LossScaling& scaling) {
  return {scaling.init_scale, 0, scaling.hysteresis, 0};
}

LossScale LossScale::after_step(bool finite, const LossScaling& scaling) const {
  LossScale next = *this;
  if (!finite) {
    ++next.skipped_steps;
    next.good_steps = 0;
    next.overflows_left = std::max(overflows_left - 1, 0);
    if (next.overflows_left == 0) {
      next.scale = std::max(scale * scaling.backoff_factor, std::min(scale, scaling.min_scale));
    }
  } else if (++next.good_steps == scaling.growth_interval) {
    next.good_steps = 0;
    next.overflows_left = scaling.hysteresis;
    const double grown = scale * scaling.growth_factor;
    if (grown <= std::numeric_limits<float>::max()) next.scale = grown;
  }
  return next;
}

std::string to_string(const LossScale& scale) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, scale.scale).ptr;
  std::string text(digits, end);
  for (const int n : {scale.good_steps, scale.overflows_left, scale.skipped_steps}) {
    text += " " + std::to_string(n);
  }
  return text;
}

std::optional<LossScale> parse_loss_scale(std::string_view text) {
  LossScale scale;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto read = [&](auto& number) {
    const auto [next, fault] = std::from_chars(at, end, number);
    at = next;
    return fault == std::errc() && number >= 0;
  };
  const auto next = [&](int& number) { return at != end && *at++ == ' ' && read(number); };
  const bool whole = read(scale.scale) && next(scale.good_steps) && next(scale.overflows_left) &&
                     next(scale.skipped_steps) && at == end;
  if (!whole || !(scale.scale > 0)) return std::nullopt;
  return scale;
}

}  // namespace lockstep
