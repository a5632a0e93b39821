#include "core/plan/search.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>

#include "core/base/thread_team.hpp"
#include "core/model/model.hpp"
#include "core/plan/layouts.hpp"
#include "core/plan/space.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/expert_folding.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

struct PipelineChoice {
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  int virtual_stages = 1;
};

std::vector<PipelineChoice> pipelines(int degree, std::int64_t layers) {
  if (degree == 1) return {{}};
  std::vector<PipelineChoice> choices;
  for (const PipelineChoice& choice :
       {PipelineChoice{}, PipelineChoice{PipelineSchedule::Interleaved1F1B, 2},
        PipelineChoice{PipelineSchedule::Interleaved1F1B, 4},
        PipelineChoice{PipelineSchedule::ZbvZeroBubble, 2}}) {
    if (std::int64_t{degree} * choice.virtual_stages <= layers) choices.push_back(choice);
  }
  return choices;
}

/// The bytes that a rank keeps of the model from step to step, as the mean over ranks.
double state_bytes(const Scenario& s, double parameters) {
  const StrategySpec& p = s.strategy;
  const auto size = [](DType type) { return static_cast<double>(size_of(type)); };
  const double shards = p.state_shards();
  const double moments = s.optimizer.name == OptimizerKind::AdamW ? 2 : 1;
  const double optimizer =
      p.offload != Offload::None
          ? 0
          : (moments + (s.training.keeps_master() ? 1 : 0)) * size(s.training.dtype) / shards;
  return parameters / (p.tensor_parallel_degree * p.pipeline_parallel_degree) /
         p.expert_parallel_degree *
         (size(s.training.param_dtype()) / (p.zero_stage == 3 ? shards : 1) +
          size(s.training.reduce_dtype()) / (p.zero_stage >= 2 ? shards : 1) + optimizer);
}

/// Makes layout families for the model and the batch of a scenario.
class FamilyBuilder {
 public:
  explicit FamilyBuilder(const Scenario& base)
      : base_(base),
        batch_(base.global_batch_size()),
        parameters_(static_cast<double>(build_layers(base.model, {}).parameter_count())) {}

  /// Adds the family of `strategy`, in which everything is given but the microbatches.
  void add(const StrategySpec& strategy) {
    LayoutFamily family;
    for (int size = 1; size <= kLargestMicrobatch; size *= 2) {
      std::optional<Scenario> layout = with_microbatches(strategy, size);
      if (!layout) continue;
      family.kept.push_back(*layout);
      layout->activation_checkpoint = {ActivationCheckpoint::Full, "2"};
      if (!base_.model.is_vision()) family.recomputed.push_back(std::move(*layout));
    }
    if (!family.kept.empty()) families_.push_back(std::move(family));
  }

  std::vector<LayoutFamily> take() { return std::move(families_); }

 private:
  std::optional<Scenario> with_microbatches(const StrategySpec& strategy, int size) const {
    Scenario s = base_;
    s.strategy = strategy;
    s.expect.clear();
    s.activation_checkpoint = {};
    if (!set_microbatches(s, batch_, size)) return std::nullopt;
    // Ranks that share a device share its memory. Without a figure for it there is no limit.
    const double memory = static_cast<double>(s.cluster.device.memory.v);
    const double states = state_bytes(s, parameters_) * s.cluster.ranks_per_device;
    if ((memory > 0 && states > memory) || !validate(s).empty()) return std::nullopt;
    return s;
  }

  const Scenario& base_;
  int batch_;
  double parameters_;
  std::vector<LayoutFamily> families_;
};

/// The ways to share states among `ranks` data-parallel ranks: DDP, ZeRO-1 and FSDP, the last two
/// also with experts divided; all of them with experts over the ranks of tensor and context
/// parallelism, too.
std::vector<StrategySpec> shared_states(const StrategySpec& strategy, int ranks, int experts) {
  std::vector<StrategySpec> result;
  for (const int stage : {0, 1, 3}) {
    StrategySpec s = strategy;
    s.zero_stage = stage == 0 ? strategy.zero_stage : stage;
    s.data_parallel_replicate_degree = stage == 0 ? ranks : 1;
    s.data_parallel_shard_degree = stage == 0 ? 1 : ranks;
    s.overlap_param_gather = stage == 1;
    const bool alone = ranks * s.context_parallel_degree == 1;
    if (stage > 0 && alone) continue;                           // nothing to share
    if (stage == 0 && s.context_parallel_degree > 1) continue;  // context parallel shares states
    const int parts = stage == 0 ? 1 : ranks;
    for (const int expert : divisors(parts, experts > 0 ? experts : 1)) {
      s.expert_parallel_folding = false;
      s.expert_parallel_degree = expert;
      result.push_back(s);
    }
    if (experts == 0 || s.tensor_parallel_degree * s.context_parallel_degree == 1) continue;
    for (const int expert : folded_expert_degrees(s, experts)) {
      s.expert_parallel_folding = true;
      s.expert_parallel_degree = expert;
      result.push_back(s);
    }
  }
  return result;
}

}  // namespace

std::vector<LayoutFamily> layout_families(const Scenario& scenario) {
  FamilyBuilder builder(scenario);
  for (const RankDegrees& degrees :
       divide_ranks(scenario.cluster.capacity(), degree_limits(scenario))) {
    for (const PipelineChoice& choice : pipelines(degrees.pipeline, scenario.model.layers)) {
      StrategySpec s = scenario.strategy;
      s.tensor_parallel_degree = degrees.tensor;
      s.enable_sequence_parallel = degrees.tensor > 1;
      s.context_parallel_degree = degrees.context;
      set_pipeline(s, degrees.pipeline, choice.schedule, choice.virtual_stages);
      const int experts = static_cast<int>(scenario.model.experts);
      for (const StrategySpec& shared : shared_states(s, degrees.data, experts)) {
        builder.add(shared);
      }
    }
  }
  // A layout that divides layers and sequences less exposes less communication. Such layouts come
  // first, so that a search that is stopped early has probably seen the best.
  std::vector<LayoutFamily> families = builder.take();
  const auto divided = [](const LayoutFamily& family) {
    const StrategySpec& s = family.kept.front().strategy;
    return s.tensor_parallel_degree * s.context_parallel_degree * s.pipeline_parallel_degree;
  };
  std::stable_sort(families.begin(), families.end(),
                   [&](const auto& a, const auto& b) { return divided(a) < divided(b); });
  return families;
}

std::string layout_name(const Scenario& layout) {
  const StrategySpec& p = layout.strategy;
  std::string name;
  const auto add = [&](const std::string& part) { name += (name.empty() ? "" : " · ") + part; };
  const auto degree = [](const char* axis, int d) {
    return std::string(axis) + " " + std::to_string(d);
  };
  if (p.tensor_parallel_degree > 1) add(degree("tp", p.tensor_parallel_degree));
  if (p.context_parallel_degree > 1) add(degree("cp", p.context_parallel_degree));
  if (p.pipeline_parallel_degree > 1) {
    std::string text = degree("pp", p.pipeline_parallel_degree) + " " +
                       std::string(rules_of(p.pipeline_parallel_schedule).name);
    const bool chunks = p.pipeline_parallel_schedule == PipelineSchedule::Interleaved1F1B;
    if (chunks) text += degree(" v", p.pipeline_parallel_virtual_stages);
    add(text);
  }
  if (p.gradient_ranks() > 1) {
    const bool shards = p.state_shards() > 1;
    add(degree("dp", p.data_parallel_degree()) +
        (!shards             ? " DDP"
         : p.zero_stage == 3 ? p.data_parallel_replicate_degree > 1 ? " HSDP" : " FSDP"
                             : degree(" ZeRO", p.zero_stage)));
  }
  if (p.expert_parallel_degree > 1) {
    add(degree("ep", p.expert_parallel_degree) + (p.expert_parallel_folding ? " folded" : ""));
  }
  add(std::to_string(layout.num_microbatches()) + " × " + std::to_string(layout.microbatch_size()));
  if (layout.activation_checkpoint.mode == ActivationCheckpoint::Full) add("full recomputation");
  if (layout.activation_checkpoint.mode == ActivationCheckpoint::Selective) {
    add("recomputation " + layout.activation_checkpoint.selective_ac_option);
  }
  return name;
}

std::string layout_file(const Scenario& layout) {
  return "# Found by lockstep search: " + layout_name(layout) + "\n" + print_scenario(layout);
}

std::string trained_on(const Scenario& scenario) {
  return scenario.model.is_vision() ? "images" : "tokens";
}

std::string search_task(const Scenario& scenario) {
  const std::string batch = std::to_string(scenario.global_batch_size());
  return scenario.model.name + " on " + scenario.cluster.name + ", " + batch +
         (scenario.model.is_vision()
              ? " images a step"
              : " sequences of " + std::to_string(scenario.training.seq_len) + " tokens a step");
}

Result<SearchResult> search(const std::vector<LayoutFamily>& families, const LayoutOracle& oracle,
                            const SearchOptions& options) {
  struct Outcome {
    std::vector<FoundLayout> found;
    int asked = 0, too_large = 0;
    bool tried = false;
  };
  std::vector<Outcome> outcomes(families.size());
  std::mutex mutex;  // guards everything below, and calls of the options' functions
  std::size_t next = 0;
  SearchProgress progress;
  progress.families = families.size();
  std::optional<FoundLayout> best;
  std::optional<Error> failure;

  const auto stopped = [&] {
    const std::lock_guard lock(mutex);
    return options.stop && options.stop();
  };
  const auto ask = [&](const std::vector<Scenario>& layouts, Outcome& outcome) -> Result<void> {
    for (const Scenario& layout : layouts) {
      if (stopped()) {
        outcome.tried = false;
        return {};
      }
      ++outcome.asked;
      Result<LayoutFigures> figures = oracle(layout);
      if (figures) {
        outcome.found.push_back({layout, *figures});
      } else if (figures.error().kind == ErrorKind::OutOfMemory) {
        ++outcome.too_large;
        break;
      } else {
        Error error = figures.error();
        error.message = layout_name(layout) + ": " + error.message;
        return error;
      }
    }
    return {};
  };
  const auto work = [&] {
    for (;;) {
      std::size_t i = 0;
      {
        const std::lock_guard lock(mutex);
        if (next == families.size() || failure) return;
        i = next++;
      }
      Outcome& outcome = outcomes[i];
      outcome.tried = true;
      Result<void> asked = ask(families[i].kept, outcome);
      if (asked && outcome.tried && outcome.found.empty()) {
        asked = ask(families[i].recomputed, outcome);
      }
      const std::lock_guard lock(mutex);
      if (!asked && !failure) failure = asked.error();
      for (const FoundLayout& found : outcome.found) {
        if (!best || found.figures.throughput > best->figures.throughput) best = found;
      }
      if (outcome.tried) ++progress.done;
      progress.asked += outcome.asked;
      progress.too_large += outcome.too_large;
      progress.best = best ? &*best : nullptr;
      progress.found = &outcome.found;
      if (options.progress) options.progress(progress);
      if (!outcome.tried) return;
    }
  };
  ThreadTeam(options.threads).run([&](int) { work(); });
  if (failure) return *failure;

  SearchResult result;
  result.families = families.size();
  for (Outcome& outcome : outcomes) {
    result.asked += outcome.asked;
    result.too_large += outcome.too_large;
    if (!outcome.tried) ++result.not_tried;
    std::move(outcome.found.begin(), outcome.found.end(), std::back_inserter(result.found));
  }
  std::stable_sort(result.found.begin(), result.found.end(),
                   [](const FoundLayout& a, const FoundLayout& b) {
                     return a.figures.throughput > b.figures.throughput;
                   });
  return result;
}

Result<SearchResult> search(const Scenario& scenario, const LayoutOracle& oracle,
                            const SearchOptions& options) {
  if (scenario.model.architecture == Architecture::Synthetic) {
    return Error{ErrorKind::InvalidSpec,
                 "the synthetic model has times for one layout; search needs a model's sizes",
                 std::nullopt};
  }
  const std::vector<LayoutFamily> families = layout_families(scenario);
  Result<SearchResult> result = search(families, oracle, options);
  if (!result || !result->found.empty()) return result;
  std::string message = "none of " + std::to_string(result->asked) + " layouts fits";
  if (families.empty()) {
    message += ": the states alone exceed the memory, or no layout divides the model and the batch";
  } else if (result->not_tried > 0) {
    message += "; " + std::to_string(result->not_tried) + " of " + std::to_string(families.size()) +
               " families not tried";
  }
  return Error{ErrorKind::OutOfMemory, message, std::nullopt};
}

}  // namespace lockstep
