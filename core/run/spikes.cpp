#include "core/run/spikes.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace lockstep {
namespace {

constexpr const char* kLossNote = "last losses";
constexpr const char* kNormNote = "last gradient norms";

/// Takes in a value if there is a limit, and says why it is above it.
std::string spike_text(SpikeDetector& detector, const char* name, double value, double limit) {
  if (limit <= 0 || !std::isfinite(value)) return "";
  const auto z = detector.z_score(value);
  if (!z || *z <= limit) return "";
  char text[96];
  std::snprintf(text, sizeof text, "its %s of %.3g stands out by %.1f deviations", name, value, *z);
  return text;
}

}  // namespace

std::optional<double> SpikeDetector::z_score(double value) {
  const bool full = values_.size() == kWindow;
  if (full) values_.pop_front();
  values_.push_back(value);
  if (!full) return std::nullopt;
  double sum = 0, squares = 0;
  for (const double v : values_) sum += v;
  const double mean = sum / kWindow;
  for (const double v : values_) squares += (v - mean) * (v - mean);
  const double deviation = std::sqrt(squares / kWindow);
  return deviation > 0 ? (value - mean) / deviation : 0;
}

std::string SpikeDetector::text() const {
  std::string text;
  for (const double value : values_) {
    char digits[32];
    text.append(text.empty() ? "" : " ");
    text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  return text;
}

Result<SpikeDetector> SpikeDetector::read(const std::string& text) {
  SpikeDetector detector;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    double value = 0;
    const auto [next, fault] = std::from_chars(at, end, value);
    const bool well = fault == std::errc() && std::isfinite(value) && (next == end || *next == ' ');
    if (!well || detector.values_.size() == kWindow) {
      return Error{ErrorKind::Parse,
                   "the checkpoint's list of last losses or norms is no list of " +
                       std::to_string(kWindow) + " numbers",
                   std::nullopt};
    }
    detector.values_.push_back(value);
    at = next == end ? end : next + 1;
  }
  return detector;
}

std::string Spikes::look(const StepResult& step) {
  const std::string loss = spike_text(loss_, "loss", step.loss, limits_.loss);
  const std::string norm =
      spike_text(grad_norm_, "gradient norm", step.grad_norm, limits_.grad_norm);
  return loss.empty() ? norm : loss;
}

Result<void> Spikes::take(const StateReader* state) {
  for (const auto& [detector, name] :
       {std::pair(&loss_, kLossNote), std::pair(&grad_norm_, kNormNote)}) {
    *detector = {};
    if (state == nullptr) continue;
    const auto left = state->head().notes.find(name);
    if (left == state->head().notes.end()) continue;
    auto read = SpikeDetector::read(left->second);
    if (!read) return read.error();
    *detector = std::move(*read);
  }
  return {};
}

void Spikes::add_notes(std::map<std::string, std::string>& notes) const {
  if (limits_.loss > 0) notes[kLossNote] = loss_.text();
  if (limits_.grad_norm > 0) notes[kNormNote] = grad_norm_.text();
}

}  // namespace lockstep
