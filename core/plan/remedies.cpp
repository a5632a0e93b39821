#include "core/plan/remedies.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/plan/recomputation.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

/// One thing that can be done about memory: it edits the scenario and returns the keys it set, none
/// if the scenario has it already or it means nothing there.
using Change = std::function<std::vector<std::string>(Scenario&)>;

std::vector<std::string> accumulate_shards(Scenario& s) {
  if (s.accumulates_shards() || s.strategy.zero_stage < 2 || s.num_microbatches() == 1) return {};
  s.strategy.accumulate_sharded_gradients = AccumulateShards::Always;
  return {"parallelism.accumulate_sharded_gradients=always"};
}

Change recompute(ActivationCheckpoint mode, const std::string& option) {
  return [mode, option](Scenario& s) -> std::vector<std::string> {
    ActivationCheckpointSpec& spec = s.activation_checkpoint;
    if (spec.mode == ActivationCheckpoint::Full) return {};
    if (!spec.recomputed_layers_per_stage.empty()) return {};  // it would stay
    if (mode == ActivationCheckpoint::Full) {
      spec.mode = mode;
      return {"activation_checkpoint.mode=full"};
    }
    if (spec.mode != ActivationCheckpoint::None || s.model.has_batch_norm()) return {};
    spec.mode = mode;
    spec.selective_ac_option = option;
    return {"activation_checkpoint.mode=selective",
            "activation_checkpoint.selective_ac_option=" + option};
  };
}

/// What `change` recomputes, in as many blocks of each stage as it takes, if those are not all.
Change where_it_takes(const Change& change, const Prober& prober) {
  return [&prober, change](Scenario& s) -> std::vector<std::string> {
    ActivationCheckpointSpec& spec = s.activation_checkpoint;
    if (!spec.recomputed_layers_per_stage.empty()) {  // too few, which the new list takes away
      spec.recomputed_layers_per_stage.clear();
      spec.mode = ActivationCheckpoint::None;
    }
    std::vector<std::string> keys = change(s);
    if (keys.empty() || !validate(s).empty()) return {};
    const Bytes capacity = memory_per_rank(s.cluster, s.strategy.world_size());
    const auto least = least_recomputation(s, capacity, prober);
    if (!least) return {};
    spec.recomputed_layers_per_stage = *least;
    std::string list;
    for (const int n : *least) list += (list.empty() ? "" : ",") + std::to_string(n);
    keys.push_back("activation_checkpoint.recomputed_layers_per_stage=[" + list + "]");
    return keys;
  };
}

std::vector<std::string> divide_rows(Scenario& s) {
  if (s.strategy.tensor_parallel_degree == 1 || s.strategy.enable_sequence_parallel) return {};
  if (s.model.is_vision()) return {};
  s.strategy.enable_sequence_parallel = true;
  return {"parallelism.enable_sequence_parallel=true"};
}

/// One sequence at a time: of a pipeline's batch as more microbatches, else as more accumulation.
std::vector<std::string> smallest_microbatch(Scenario& s) {
  if (s.microbatch_size() == 1) return {};
  if (s.strategy.pipeline_parallel_degree > 1) {
    s.strategy.pipeline_parallel_microbatches = s.training.local_batch_size;
    return {"parallelism.pipeline_parallel_microbatches=" +
            std::to_string(s.training.local_batch_size)};
  }
  s.training.global_batch_size = s.global_batch_size();
  s.training.local_batch_size = s.strategy.pipeline_parallel_microbatches;
  return {"training.global_batch_size=" + std::to_string(s.training.global_batch_size),
          "training.local_batch_size=" + std::to_string(s.training.local_batch_size)};
}

Change share_states(int stage) {
  return [stage](Scenario& s) -> std::vector<std::string> {
    StrategySpec& p = s.strategy;
    const int ranks = p.data_parallel_degree();
    if (p.trains_apart()) return {};  // the replicas stay as many
    if (ranks == 1 || (p.data_parallel_shard_degree == ranks && p.zero_stage >= stage)) return {};
    p.data_parallel_replicate_degree = 1;
    p.data_parallel_shard_degree = ranks;
    p.zero_stage = stage;
    return {"parallelism.data_parallel_replicate_degree=1",
            "parallelism.data_parallel_shard_degree=" + std::to_string(ranks),
            "parallelism.zero_stage=" + std::to_string(stage)};
  };
}

std::vector<std::string> states_on_host(Scenario& s) {
  if (s.strategy.offload != Offload::None) return {};
  s.strategy.offload = Offload::Optimizer;
  return {"parallelism.offload=optimizer"};
}

/// "activation_checkpoint.mode=full" sets the key before the sign.
bool sets_a_key_twice(const std::vector<std::string>& keys) {
  std::set<std::string> seen;
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return !seen.insert(key.substr(0, key.find('='))).second;
  });
}

std::optional<Remedy> tried(const Scenario& scenario, const LayoutOracle& oracle,
                            const std::vector<const Change*>& changes) {
  Remedy remedy{{}, scenario, {}};
  for (const Change* change : changes) {
    const std::vector<std::string> keys = (*change)(remedy.scenario);
    if (keys.empty()) return std::nullopt;
    remedy.keys.insert(remedy.keys.end(), keys.begin(), keys.end());
  }
  if (sets_a_key_twice(remedy.keys) || !validate(remedy.scenario).empty()) return std::nullopt;
  const Result<LayoutFigures> figures = oracle(remedy.scenario);
  if (!figures) return std::nullopt;
  remedy.figures = *figures;
  return remedy;
}

}  // namespace

std::vector<Remedy> remedies(const Scenario& scenario, const LayoutOracle& oracle,
                             const Prober& prober) {
  using enum ActivationCheckpoint;
  const std::vector<Change> changes = {accumulate_shards, recompute(Selective, "op"),
                                       recompute(Selective, "attention"), recompute(Full, ""),
                                       divide_rows, smallest_microbatch, share_states(1),
                                       share_states(3), states_on_host,
                                       // After what they may be paired with:
                                       where_it_takes(recompute(Selective, "op"), prober),
                                       where_it_takes(recompute(Full, ""), prober)};
  std::vector<Remedy> found;
  const auto take = [&](const std::vector<const Change*>& both) {
    if (auto remedy = tried(scenario, oracle, both)) found.push_back(std::move(*remedy));
  };
  for (const Change& change : changes) take({&change});
  if (found.empty()) {
    // Those that cost least come first in the list; three pairs are enough to choose from.
    for (std::size_t j = 1; j < changes.size(); ++j) {
      for (std::size_t i = 0; i < j && found.size() < 3; ++i) take({&changes[i], &changes[j]});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Remedy& a, const Remedy& b) {
    return a.figures.step_time < b.figures.step_time;
  });
  return found;
}

std::string remedies_text(const std::vector<Remedy>& remedies) {
  if (remedies.empty()) {
    return "no single key, and no two, make it fit: more ranks, or another layout (lockstep "
           "search)\n";
  }
  TextTable table({"what would make it fit", "memory", "step time"});
  for (const Remedy& remedy : remedies) {
    std::string keys;
    for (const std::string& key : remedy.keys) {
      const char* quote = key.find('[') == std::string::npos ? "" : "'";  // for the shell
      keys += (keys.empty() ? "--set " : " --set ") + (quote + key + quote);
    }
    table.add(
        {keys, bytes_text(remedy.figures.memory.needed), time_text(remedy.figures.step_time)});
  }
  return table.text();
}

}  // namespace lockstep
