#include "core/ir/function_name.hpp"

#include <charconv>
#include <utility>

namespace lockstep {
namespace {

struct Beginning {
  std::string_view text;
  FunctionName::Kind kind;
};
// The first that fits holds.
constexpr Beginning kBeginnings[] = {
    {"block", FunctionName::Kind::Block},
    {"head.", FunctionName::Kind::OutputLayer},
    {"newton_schulz.", FunctionName::Kind::Orthogonalize},
    {"power_sgd.project.", FunctionName::Kind::LowRankProject},
    {"power_sgd.factor.", FunctionName::Kind::LowRankFactor},
    {"power_sgd.restore.", FunctionName::Kind::LowRankRestore},
    {"power_sgd.", FunctionName::Kind::LowRankUnknown},
};

}  // namespace

FunctionName::FunctionName(std::string name) : text_(std::move(name)) {
  std::string_view text = text_;
  for (const Beginning& beginning : kBeginnings) {
    if (!text.starts_with(beginning.text)) continue;
    kind_ = beginning.kind;
    break;
  }
  text = text.substr(0, text.find('+'));
  auto dot = text.rfind('.');
  int segment = 0;
  if (dot != std::string_view::npos) {
    const std::string_view last = text.substr(dot + 1);
    const auto read = std::from_chars(last.data(), last.data() + last.size(), segment);
    if (read.ec == std::errc{} && read.ptr == last.data() + last.size()) {
      text = text.substr(0, dot);
      dot = text.rfind('.');
    }
  }
  if (dot == std::string_view::npos || text.size() != dot + 2) return;
  for (const Phase phase : {Phase::F, Phase::B, Phase::I, Phase::W, Phase::R}) {
    if (text.substr(dot + 1) != to_string(phase)) continue;
    phase_ = phase;
    segment_ = segment;
    layer_size_ = static_cast<std::uint32_t>(dot);
    if (kind_ == Kind::Other) kind_ = Kind::Layer;
  }
}

}  // namespace lockstep
