#include <algorithm>
#include <cstdlib>

#include "core/handover/megatron_reader.hpp"
#include "core/spec/model.hpp"

namespace lockstep {
namespace {

/// Blocks with experts, of a list in Python such as "([0]*3+[1]*58)"; empty if it is none.
std::vector<bool> blocks_of(const std::string& text) {
  std::vector<bool> blocks;
  std::string::size_type at = 0;
  while ((at = text.find('[', at)) != std::string::npos) {
    const auto end = text.find(']', at);
    if (end == std::string::npos) return {};
    std::vector<bool> part;
    for (const char c : text.substr(at + 1, end - at - 1)) {
      if (c == '0' || c == '1') part.push_back(c == '1');
    }
    at = end + 1;
    std::int64_t times = 1;
    if (at < text.size() && text[at] == '*') {
      times = std::strtoll(text.c_str() + at + 1, nullptr, 10);
    }
    constexpr std::size_t kMost = 1 << 14;
    for (std::int64_t i = 0; i < times && blocks.size() < kMost; ++i) {
      blocks.insert(blocks.end(), part.begin(), part.end());
    }
  }
  return blocks;
}

/// Whether the last of every `period` blocks is set, from the first on.
bool is_periodic(const std::vector<bool>& blocks, std::int64_t period) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] != ((static_cast<std::int64_t>(i) + 1) % period == 0)) return false;
  }
  return true;
}

}  // namespace

void MegatronReader::read_experts() {
  if (!given("num-experts")) return;
  if (is_deepspeed() && integer("num-experts", 1) == 1) {  // its default: none
    for (const char* name :
         {"num-experts", "moe-router-topk", "moe-layer-freq", "expert-model-parallel-size",
          "moe-expert-capacity-factor", "moe-aux-loss-coeff"}) {
      know(name);
    }
    return;
  }
  take("model.experts", 0);
  take("model.experts_per_token", is_deepspeed() ? 1 : 2);
  read_blocks_with_experts();
  if (is_deepspeed() && !given("moe-layer-freq")) {
    plan_.set("model.expert_period", std::int64_t{2});
    plan_.assume("experts in every second block, Megatron-DeepSpeed's default (--expert-interval)");
  }
  if (given("moe-shared-expert-intermediate-size")) {
    take("model.shared_expert_hidden", 0);
    if (flag("moe-shared-expert-gate")) {
      plan_.flag("model.shared_expert_gate", true, from("moe-shared-expert-gate"));
    }
  }
  // Without one Megatron drops no token, too.
  take_real("model.capacity_factor", is_deepspeed() ? 1 : 0);
  if (given("moe-expert-rank-capacity-factor")) {
    take_real("model.expert_rank_capacity_factor", 0);
  }
  const std::string score = word("moe-router-score-function");
  if (!score.empty()) plan_.text("model.router_score", score, from("moe-router-score-function"));
  if (flag("moe-router-enable-expert-bias")) take_real("model.router_bias_update_rate", 0.001);
  const std::string balance = word("moe-router-load-balancing-type");
  const bool has_loss = balance.empty() || balance.find("aux_loss") != std::string::npos;
  if (has_loss) take_real("model.router_aux_loss_coef", 0);
  if (const auto width = number("moe-ffn-hidden-size")) {
    plan_.set("model.ffn_hidden", whole_number(*width), from("moe-ffn-hidden-size"));
    if (plan_.has("model.dense_layers") && given("ffn-hidden-size")) {
      plan_.set("model.dense_ffn_hidden", integer("ffn-hidden-size", 0), from("ffn-hidden-size"));
    }
  }
}

void MegatronReader::read_blocks_with_experts() {
  if (!given("moe-layer-freq")) return;
  const std::vector<bool> blocks = blocks_of(words("moe-layer-freq"));
  if (blocks.empty()) {
    take("model.expert_period", 1);
    return;
  }
  know("moe-layer-freq");
  ModelSpec m;
  m.experts = 1;
  const auto layers = static_cast<std::int64_t>(blocks.size());
  const auto is_that = [&] {
    for (std::int64_t i = 0; i < layers; ++i) {
      if (m.has_experts(i) != blocks[static_cast<std::size_t>(i)]) return false;
    }
    return true;
  };
  const auto first = std::find(blocks.begin(), blocks.end(), true);
  for (m.expert_period = 1; m.expert_period <= layers; ++m.expert_period) {
    m.dense_layers = first - blocks.begin();
    if (!is_that()) continue;
    m.dense_layers = is_periodic(blocks, m.expert_period) ? 0 : m.dense_layers;
    plan_.set("model.expert_period", m.expert_period, from("moe-layer-freq"));
    plan_.set("model.dense_layers", m.dense_layers, from("moe-layer-freq"));
    return;
  }
  plan_.lose(from("moe-layer-freq") +
             ": after the first blocks, every so many have experts here, or all of them");
}

}  // namespace lockstep
