#include <algorithm>
#include <optional>

#include "core/handover/megatron_reader.hpp"
#include "core/spec/optimizer.hpp"

namespace lockstep {

void MegatronReader::read_optimizer() {
  const std::string kind = word("optimizer");
  const std::string_view divided = "dist_";  // whose ranks share the states
  const std::string_view name =
      std::string_view(kind).substr(kind.starts_with(divided) ? divided.size() : 0);
  const auto found =
      std::find_if(kOptimizers.begin(), kOptimizers.end(),
                   [&](const OptimizerRow& row) { return !name.empty() && row.megatron == name; });
  const OptimizerRow& row = found == kOptimizers.end() ? info(OptimizerKind::AdamW) : *found;
  plan_.text("optimizer.name", std::string(row.name), kind.empty() ? "" : from("optimizer"));
  if (!kind.empty() && found == kOptimizers.end()) {
    plan_.lose(from("optimizer") + ": it is AdamW here");
  }
  const double lr = given("lr") ? take_real("optimizer.lr", 0) : 0;
  const double decay = take_real("optimizer.weight_decay", 0.01);
  if (row.kind == OptimizerKind::Muon) read_muon(kind);
  if (row.kind == OptimizerKind::Sgd) take_real("optimizer.momentum", 0.9);
  if (row.reads("beta1")) {
    take_real("optimizer.beta1", 0.9);
    take_real("optimizer.beta2", 0.999);
    take_real("optimizer.eps", 1e-8);
  }
  read_moments();
  if (decay > 0) plan_.text("optimizer.weight_decay_on", "matrices");  // as its groups do
  read_schedule(lr);
}

void MegatronReader::read_muon(const std::string& kind) {
  const auto momentum = number("muon-momentum");
  plan_.number("optimizer.momentum", momentum.value_or(0.9), momentum ? from("muon-momentum") : "");
  // Until core_v0.17 it was --muon-use-nesterov.
  const char* name = given("muon-use-nesterov") ? "muon-use-nesterov" : "muon-nesterov";
  const bool nesterov = flag(name);
  plan_.flag("optimizer.nesterov", nesterov, nesterov ? from(name) : "");
  take("optimizer.ns_steps", 5);
  const std::string mode = word("muon-scale-mode");
  const double extra = number("muon-extra-scale-factor").value_or(1);
  const bool original = mode == "shape_scaling" && extra == 1;
  const bool matched = (mode.empty() || mode == "spectral") && extra == 0.2;
  plan_.text("optimizer.adjust_lr_fn", original ? "original" : "match_rms_adamw",
             mode.empty() ? "" : from("muon-scale-mode"));
  if (!original && !matched) {
    plan_.lose(
        "its factor of Muon's updates: it is that of shape_scaling here, or that of "
        "spectral with an extra factor of 0.2");
  }
  const std::string precision = word("muon-fp32-matmul-prec");
  const bool bf16 = precision.empty() || precision == "medium" || precision == "low";
  plan_.text("optimizer.ns_dtype", bf16 ? "bfloat16" : "default",
             precision.empty() ? "" : from("muon-fp32-matmul-prec"));
  const std::string parts = word("muon-tp-mode");
  if (integer("tensor-model-parallel-size", 1) > 1 && parts != "duplicated" &&
      parts != "distributed") {
    plan_.lose(
        "blockwise Muon: a matrix that ranks divide is gathered here, and orthogonalized "
        "as a whole");
  }
  if (flag("muon-no-split-qkv")) {
    plan_.lose(from("muon-no-split-qkv") + ": queries, keys and values are matrices apart here");
  }
  if (kind == "dist_muon") {
    plan_.lose(from("optimizer") +
               ": whole matrices are divided over data-parallel ranks there; give zero_stage = 1 "
               "to divide the states of each");
  }
}

void MegatronReader::read_moments() {
  const std::string first = word("exp-avg-dtype"), second = word("exp-avg-sq-dtype");
  if (first.empty() && second.empty()) return;
  know_all("use-precision-aware-optimizer");
  if (first == "bf16" && second == "bf16") {
    plan_.text("optimizer.state_dtype", "bfloat16", from("exp-avg-dtype"));
  } else if (first != second || first != "fp32") {
    plan_.lose(from(first.empty() ? "exp-avg-sq-dtype" : "exp-avg-dtype") +
               ": moments are both in float32, both in bfloat16 or both in 8 bits here");
  }
}

void MegatronReader::read_schedule(double lr) {
  const std::int64_t batch = std::max<std::int64_t>(1, integer("global-batch-size", 1));
  std::int64_t steps = integer("train-iters", integer("train-samples", 0) / batch);
  if (given("lr-warmup-iters")) {
    take("lr_scheduler.warmup_steps", 0);
  } else if (const auto samples = number("lr-warmup-samples")) {
    plan_.set("lr_scheduler.warmup_steps", whole_number(*samples) / batch,
              from("lr-warmup-samples"));
  } else if (const auto part = number("lr-warmup-fraction")) {
    const std::int64_t all = integer("lr-decay-iters", steps);
    plan_.set("lr_scheduler.warmup_steps", whole_number(*part * static_cast<double>(all)),
              from("lr-warmup-fraction"));
  }
  const std::string style = word("lr-decay-style");
  const std::int64_t decay = integer("lr-decay-iters", integer("lr-decay-samples", 0) / batch);
  const std::optional<double> least = number("min-lr");
  if (style == "constant") return;
  if (style == "cosine" || style == "linear" || style.empty()) {
    plan_.text("lr_scheduler.decay_type", style == "cosine" ? "cosine" : "linear",
               style.empty() ? "" : from("lr-decay-style"));
    plan_.number("lr_scheduler.decay_ratio", 1);
    if (decay > 0 && steps > 0 && decay != steps) {
      plan_.lose("a decay over " + std::to_string(decay) + " of " + std::to_string(steps) +
                 " steps: it ends with the last step here");
    }
  } else {
    plan_.lose(from("lr-decay-style") + ": it has linear and cosine");
  }
  if (lr > 0 && least) plan_.number("lr_scheduler.min_lr_factor", *least / lr, from("min-lr"));
}

}  // namespace lockstep
