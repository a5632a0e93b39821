#include "core/spec/scenario.hpp"

#include <numeric>

namespace lockstep {

int Scenario::global_batch_size() const {
  return training.global_batch_size > 0
             ? training.global_batch_size
             : training.local_batch_size * strategy.data_parallel_degree();
}
int Scenario::accumulation_steps() const {
  return global_batch_size() / (training.local_batch_size * strategy.data_parallel_degree());
}
int Scenario::num_microbatches() const {
  return accumulation_steps() * strategy.pipeline_parallel_microbatches;
}
int Scenario::microbatch_size() const {
  return training.local_batch_size / strategy.pipeline_parallel_microbatches;
}
std::int64_t Scenario::tokens_per_step() const {
  return std::int64_t{global_batch_size()} * training.seq_len;
}

namespace {

class Faults {
 public:
  void add(std::string key, std::string message, ErrorKind kind = ErrorKind::InvalidSpec) {
    list_.push_back({std::move(key), Error{kind, std::move(message), std::nullopt}});
  }
  bool positive(const std::string& key, std::int64_t value) {
    if (value >= 1) return true;
    add(key, key + " must be at least 1, got " + std::to_string(value));
    return false;
  }
  std::vector<Fault> take() { return std::move(list_); }

 private:
  std::vector<Fault> list_;
};

void validate_model(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  if (m.architecture == Architecture::Synthetic) {
    if (!s.costs) faults.add("model.preset", "the synthetic model needs a [costs] section");
    return;
  }
  if (s.costs) {
    faults.add("costs",
               "[costs] gives times to the synthetic model only; model is '" + m.name + "'");
  }
  bool sizes = faults.positive("model.layers", m.layers);
  sizes &= faults.positive("model.hidden", m.hidden);
  sizes &= faults.positive("model.heads", m.heads);
  sizes &= faults.positive("model.kv_heads", m.kv_heads);
  sizes &= faults.positive("model.head_dim", m.head_dim);
  sizes &= faults.positive("model.ffn_hidden", m.ffn_hidden);
  sizes &= faults.positive("model.vocab", m.vocab);
  if (!sizes) return;
  if (m.heads % m.kv_heads != 0) {
    faults.add("model.kv_heads", "kv_heads=" + std::to_string(m.kv_heads) +
                                     " does not divide heads=" + std::to_string(m.heads));
  }
  if (m.architecture == Architecture::Llama && m.head_dim % 2 != 0) {
    faults.add("model.head_dim",
               "rotary positions need an even head_dim, got " + std::to_string(m.head_dim));
  }
  if (m.architecture == Architecture::Gpt2 && s.training.seq_len > m.max_seq_len) {
    faults.add("training.seq_len",
               "seq_len=" + std::to_string(s.training.seq_len) +
                   " exceeds the model's max_seq_len=" + std::to_string(m.max_seq_len));
  }
}

void validate_costs(const Scenario& s, Faults& faults) {
  if (!s.costs) return;
  const auto check = [&](const char* key, const std::vector<double>& list) {
    const std::size_t stages = static_cast<std::size_t>(s.strategy.num_stages());
    if (list.size() != 1 && list.size() != stages) {
      faults.add(std::string("costs.") + key, std::string(key) + " has " +
                                                  std::to_string(list.size()) + " values for " +
                                                  std::to_string(stages) + " virtual stages");
    }
    for (double seconds : list) {
      if (!(seconds >= 0)) faults.add(std::string("costs.") + key, "a time must not be negative");
    }
  };
  check("forward", s.costs->forward);
  check("backward_input", s.costs->backward_input);
  check("backward_weight", s.costs->backward_weight);
  if (!(s.costs->p2p >= 0)) faults.add("costs.p2p", "a time must not be negative");
}

void validate_batch(const Scenario& s, Faults& faults) {
  const TrainingSpec& t = s.training;
  bool sizes = faults.positive("training.seq_len", t.seq_len);
  sizes &= faults.positive("training.local_batch_size", t.local_batch_size);
  sizes &= faults.positive("training.steps", t.steps);
  if (t.global_batch_size != -1) {
    sizes &= faults.positive("training.global_batch_size", t.global_batch_size);
  }
  if (!sizes) return;
  const int per_pass = t.local_batch_size * s.strategy.data_parallel_degree();
  if (s.global_batch_size() % per_pass != 0) {
    faults.add("training.global_batch_size",
               "global_batch_size=" + std::to_string(s.global_batch_size()) +
                   " is not a multiple of local_batch_size × data-parallel degree = " +
                   std::to_string(per_pass) + ": ranks would get unequal batches");
  }
  if (s.model.architecture != Architecture::Synthetic &&
      t.local_batch_size % s.strategy.pipeline_parallel_microbatches != 0) {
    faults.add("parallelism.pipeline_parallel_microbatches",
               "pipeline_parallel_microbatches=" +
                   std::to_string(s.strategy.pipeline_parallel_microbatches) +
                   " does not divide local_batch_size=" + std::to_string(t.local_batch_size));
  }
  if (t.dtype != DType::F32 && t.dtype != DType::F64 && t.dtype != DType::BF16) {
    faults.add("training.dtype", "training runs in float32, float64 or bfloat16");
  }
  if (!(t.max_norm >= 0)) faults.add("training.max_norm", "max_norm must not be negative");
}

void validate_strategy(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  bool sizes = true;
  const auto degree = [&](const char* key, int value) {
    sizes &= faults.positive(std::string("parallelism.") + key, value);
  };
  degree("data_parallel_replicate_degree", p.data_parallel_replicate_degree);
  degree("data_parallel_shard_degree", p.data_parallel_shard_degree);
  degree("tensor_parallel_degree", p.tensor_parallel_degree);
  degree("pipeline_parallel_degree", p.pipeline_parallel_degree);
  degree("pipeline_parallel_microbatches", p.pipeline_parallel_microbatches);
  degree("pipeline_parallel_virtual_stages", p.pipeline_parallel_virtual_stages);
  if (!sizes) return;
  if (p.tensor_parallel_degree > 1) {
    faults.add("parallelism.tensor_parallel_degree", "tensor parallelism is not built yet",
               ErrorKind::Unsupported);
  }
  if (p.data_parallel_replicate_degree > 1 && p.data_parallel_shard_degree > 1) {
    faults.add("parallelism.data_parallel_replicate_degree",
               "replicating and sharding together (HYBRID_SHARD) is not built yet: set one of the "
               "two degrees to 1",
               ErrorKind::Unsupported);
  }
  if (p.pipeline_parallel_virtual_stages > 1) {
    faults.add("parallelism.pipeline_parallel_virtual_stages",
               "schedules with more than one virtual stage per rank are not built yet",
               ErrorKind::Unsupported);
  }
  if (p.fsdp_prefetch < 0) {
    faults.add("parallelism.fsdp_prefetch", "fsdp_prefetch must not be negative");
  }
  if (p.bucket_cap.v < 1) faults.add("parallelism.bucket_cap_mb", "a bucket cap must be positive");
  const int world = p.world_size();
  if (world > s.cluster.capacity()) {
    faults.add("parallelism", "the strategy needs " + std::to_string(world) + " ranks; cluster '" +
                                  s.cluster.name + "' has " + std::to_string(s.cluster.capacity()) +
                                  " (nodes × devices_per_node × ranks_per_device)");
  }
  if (s.model.architecture == Architecture::Synthetic) return;
  const auto& layout = p.pipeline_parallel_layers_per_stage;
  const std::string layout_key = "parallelism.pipeline_parallel_layers_per_stage";
  if (!layout.empty()) {
    if (layout.size() != static_cast<std::size_t>(p.num_stages())) {
      faults.add(layout_key, "layers_per_stage has " + std::to_string(layout.size()) +
                                 " values for " + std::to_string(p.num_stages()) + " stages");
    } else if (std::accumulate(layout.begin(), layout.end(), std::int64_t{0}) != s.model.layers) {
      faults.add(layout_key,
                 "layers_per_stage does not add up to layers=" + std::to_string(s.model.layers));
    }
  } else if (p.num_stages() > s.model.layers) {
    faults.add("parallelism.pipeline_parallel_degree",
               std::to_string(p.num_stages()) +
                   " stages need at least as many layers; the model has " +
                   std::to_string(s.model.layers));
  }
}

}  // namespace

std::vector<Fault> validate(const Scenario& scenario) {
  Faults faults;
  validate_model(scenario, faults);
  validate_strategy(scenario, faults);
  std::vector<Fault> found = faults.take();
  if (found.empty()) {  // batch and costs divide by the degrees checked above
    validate_batch(scenario, faults);
    validate_costs(scenario, faults);
    found = faults.take();
  }
  return found;
}

}  // namespace lockstep
