// The optimizer, its learning rate, and what is saved and looked at on the way.
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

constexpr double kLongestSample = 60;  // seconds
constexpr int kMostWorkers = 1024;

/// Whether a path names something below the folder in which it begins, whatever lies there.
bool stays_inside(const std::string& path) {
  int depth = 0;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part == ".." || (begin == 0 && part.empty())) return false;  // leads out, or is absolute
    if (!part.empty() && part != ".") ++depth;
    begin = end + 1;
  }
  return depth > 0 && path.find('\0') == std::string::npos;
}

void validate_validation(const Scenario& s, Faults& faults) {
  const ValidationSpec& v = s.validation;
  faults.require(v.freq >= 0, "validation.freq", "must not be negative");
  if (v.freq == 0) {
    if (!v.dataset.empty()) {
      faults.add("validation.dataset",
                 "without validation.freq, the steps from one validation to the next, it is never "
                 "looked at");
    }
    return;
  }
  faults.require(v.steps >= 1, "validation.steps", "must be at least 1");
  if (s.model.architecture == Architecture::Synthetic) {
    faults.add("validation.freq", "the synthetic model has no loss");
  } else if (v.dataset.empty()) {
    faults.add("validation.freq",
               "validation needs validation.dataset, data that are not trained on: `lockstep data "
               "--validation 0.1` makes a shard of them");
  }
}

void validate_state(const Scenario& s, Faults& faults) {
  const OptimizerSpec& o = s.optimizer;
  faults.require(o.block_size >= 1, "optimizer.block_size", "must be at least 1");
  const bool quantized = o.state_dtype == StateDType::U8;
  if (!quantized && o.block_size != OptimizerSpec{}.block_size) {
    faults.add("optimizer.block_size", "only state_dtype=uint8 has blocks, which share a scale");
  }
  if (o.state_dtype == StateDType::Default) return;
  if (quantized && o.name != OptimizerKind::AdamW) {
    faults.refuse("optimizer.state_dtype",
                  "state_dtype=uint8 is built for AdamW only: leave it out");
  }
  if (!quantized && s.training.dtype == DType::F64) {
    faults.add("optimizer.state_dtype",
               "dtype=float64 keeps all states in float64, or with state_dtype=uint8 in 8 bits");
  }
  if (s.training.stochastic_rounding) {
    faults.refuse("optimizer.state_dtype",
                  "stochastic_rounding takes its random bits from states in bfloat16: leave "
                  "state_dtype at default");
  }
}

void validate_muon(const Scenario& s, Faults& faults) {
  const OptimizerSpec& o = s.optimizer;
  faults.require(o.muon_lr >= 0, "optimizer.muon_lr", "must not be negative");
  faults.require(o.ns_steps >= 1, "optimizer.ns_steps", "must be at least 1");
  if (!o.is_muon()) return;
  if (o.muon_lr > 0 && o.lr <= 0) {
    faults.add("optimizer.muon_lr", "is scheduled in proportion to lr, which must be positive");
  }
  if (s.model.architecture == Architecture::Resnet) {
    faults.refuse("optimizer.name",
                  "Muon orthogonalizes the matrices of transformer blocks, and is not built for "
                  "the filters of convolutions: take SGD or AdamW");
  }
  if (s.model.lora.rank > 0) {
    faults.refuse("optimizer.name",
                  "Muon orthogonalizes whole weights, which the two factors of an adapter (lora) "
                  "are not: take AdamW");
  }
  if (s.strategy.offload != Offload::None) {
    faults.refuse(
        "optimizer.name",
        "Muon's Newton-Schulz iterations are products of matrices, for which the host is too "
        "slow, so it is not built with parallelism.offload: leave one of the two out");
  }
  if (o.ns_dtype == PartDType::F16) {
    faults.refuse("optimizer.ns_dtype",
                  "float16 has too few exponents for the small directions that Muon "
                  "orthogonalizes: give bfloat16 or float32");
  }
  if (s.training.dtype == DType::F64 && o.ns_dtype != PartDType::Default) {
    faults.add("optimizer.ns_dtype", "dtype=float64 orthogonalizes in float64");
  }
}

void validate_adafactor(const Scenario& s, Faults& faults) {
  const OptimizerSpec& o = s.optimizer;
  if (!o.is_adafactor()) return;
  faults.require(o.decay_rate < 0 && o.decay_rate >= -1, "optimizer.decay_rate",
                 "must be in [-1, 0): step t keeps 1 - t^decay_rate of the second moments");
  faults.require(o.clip_threshold > 0, "optimizer.clip_threshold", "must be positive");
  faults.require(o.eps_square > 0, "optimizer.eps_square", "must be positive");
  faults.require(o.eps_scale > 0, "optimizer.eps_scale",
                 "must be positive: scale_parameter=false leaves the scale out");
  faults.require(o.first_moment_decay >= 0 && o.first_moment_decay < 1,
                 "optimizer.first_moment_decay", "must be in [0, 1)");
  const StrategySpec& p = s.strategy;
  if (s.model.is_vision()) {
    faults.refuse("optimizer.name",
                  "Adafactor keeps moments by rows and columns, which filters of convolutions do "
                  "not have: take SGD or AdamW");
  }
  if (p.offload != Offload::None) {
    faults.refuse("optimizer.name",
                  "Adafactor sums over ranks in the middle of its update, in which the host takes "
                  "no part: give offload = \"none\", since its states are small");
  }
  if (p.weight_versions() != WeightVersions::One) {
    faults.refuse("optimizer.name",
                  "Adafactor is not built for PipeDream, which updates while the pipeline is under "
                  "way: take another schedule, or AdamW");
  }
  if (s.kv_replicas() > 1) {
    faults.refuse("optimizer.name",
                  "Adafactor is not built for fewer key heads than tensor-parallel ranks, because "
                  "column sums of queries, keys and values would lie on different ranks: give a "
                  "smaller tensor_parallel_degree, or take AdamW");
  }
}

}  // namespace

void validate_optimizer(const Scenario& s, Faults& faults) {
  const OptimizerSpec& o = s.optimizer;
  faults.require(o.lr >= 0, "optimizer.lr", "must not be negative");
  faults.require(o.beta1 >= 0 && o.beta1 < 1, "optimizer.beta1", "must be in [0, 1)");
  faults.require(o.beta2 >= 0 && o.beta2 < 1, "optimizer.beta2", "must be in [0, 1)");
  faults.require(o.eps > 0, "optimizer.eps", "must be positive");
  faults.require(o.weight_decay >= 0, "optimizer.weight_decay", "must not be negative");
  if (o.weight_decay_on != DecayedParameters::All && o.weight_decay == 0) {
    faults.add("optimizer.weight_decay_on", "weight_decay=0: nothing decays");
  }
  faults.require(o.momentum >= 0 && o.momentum < 1, "optimizer.momentum", "must be in [0, 1)");
  validate_state(s, faults);
  validate_muon(s, faults);
  validate_adafactor(s, faults);
  const LrSchedulerSpec& l = s.lr_scheduler;
  faults.require(l.warmup_steps >= 0, "lr_scheduler.warmup_steps", "must not be negative");
  faults.require(l.decay_ratio >= 0 && l.decay_ratio <= 1, "lr_scheduler.decay_ratio",
                 "must be in [0, 1]");
  faults.require(l.min_lr_factor >= 0 && l.min_lr_factor <= 1, "lr_scheduler.min_lr_factor",
                 "must be in [0, 1]");
  const CheckpointSpec& c = s.checkpoint;
  faults.require(c.interval >= 0, "checkpoint.interval", "must not be negative");
  faults.require(c.keep_latest_k >= 0, "checkpoint.keep_latest_k", "must not be negative");
  faults.require(c.keep_every >= 0, "checkpoint.keep_every", "must not be negative");
  faults.require(stays_inside(c.folder), "checkpoint.folder",
                 "\"" + c.folder + "\" must name a folder inside the run folder: a relative path " +
                     "without \"..\", and not the run folder itself");
  faults.require(s.what_if.bandwidth_factor > 0, "what_if.bandwidth_factor", "must be positive");
  faults.require(s.what_if.straggler_slowdown > 0, "what_if.straggler_slowdown",
                 "must be positive");
  faults.require(s.what_if.jitter >= 0, "what_if.jitter", "must not be negative");
  const DataLoaderSpec& loader = s.cluster.loader;
  faults.require(loader.sample.v >= 0 && loader.sample.v <= kLongestSample, "data_loader.sample_ms",
                 "must be between 0 and a minute");
  faults.require(loader.num_workers >= 0 && loader.num_workers <= kMostWorkers,
                 "data_loader.num_workers", "must be between 0 and 1024");
  faults.require(loader.prefetch_factor >= 1 && loader.prefetch_factor <= kMostWorkers,
                 "data_loader.prefetch_factor", "must be between 1 and 1024");
  faults.require(loader == DataLoaderSpec{} || s.model.architecture != Architecture::Synthetic,
                 "data_loader.sample_ms", "the synthetic model reads no data");
  validate_validation(s, faults);
}

}  // namespace lockstep
