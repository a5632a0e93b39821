// The optimizer, its learning rate, and what is saved and looked at on the way.
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

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
  if (v.freq == 0) {
    if (!v.dataset.empty()) {
      faults.add("validation.dataset",
                 "without validation.freq, the steps from one validation to the next, it is never "
                 "looked at");
    }
    return;
  }
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
  if (!s.optimizer.is_adafactor()) return;
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
  if (o.weight_decay_on != DecayedParameters::All && o.weight_decay == 0) {
    faults.add("optimizer.weight_decay_on", "weight_decay=0: nothing decays");
  }
  validate_state(s, faults);
  validate_muon(s, faults);
  validate_adafactor(s, faults);
  const CheckpointSpec& c = s.checkpoint;
  faults.require(stays_inside(c.folder), "checkpoint.folder",
                 "\"" + c.folder + "\" must name a folder inside the run folder: a relative path " +
                     "without \"..\", and not the run folder itself");
  const DataLoaderSpec& loader = s.cluster.loader;
  faults.require(loader == DataLoaderSpec{} || s.model.architecture != Architecture::Synthetic,
                 "data_loader.sample_ms", "the synthetic model reads no data");
  validate_validation(s, faults);
}

}  // namespace lockstep
