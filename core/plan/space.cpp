#include "core/plan/space.hpp"

#include <algorithm>
#include <charconv>

#include "core/base/nearest.hpp"
#include "core/plan/layouts.hpp"
#include "core/spec/expert_folding.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

constexpr Recomputation kRecomputations[] = {Recomputation::None, Recomputation::Norms,
                                             Recomputation::Attention, Recomputation::EveryOther,
                                             Recomputation::Blocks};

/// The first and the last stage may have a block fewer than the others, because they have the
/// embedding and the output layer beside them. The partition by cost takes it from them.
constexpr int kFewerAtEnds = 2;

int degree_of(const LayoutPoint& p, const std::string& what) {
  if (what == "tp") return p.tensor;
  if (what == "cp") return p.context;
  if (what == "pp") return p.pipeline;
  if (what == "dp") return p.replicate * p.shard;
  if (what == "ep") return p.expert;
  if (what == "etp") return p.expert_tensor;
  if (what == "zero") return p.zero;
  if (what == "v") return p.chunks;
  return p.microbatch;
}

const std::vector<std::string>& degree_names() {
  static const std::vector<std::string> names = {"tp",  "cp",   "pp", "dp",        "ep",
                                                 "etp", "zero", "v",  "microbatch"};
  return names;
}

/// The pipelines of a degree: schedules and chunks.
std::vector<std::pair<PipelineSchedule, int>> pipelines(int degree, int layers,
                                                        const Scenario& base, bool keep) {
  if (degree == 1) return {{PipelineSchedule::OneFOneB, 1}};
  std::vector<std::pair<PipelineSchedule, int>> found;
  const auto add = [&](PipelineSchedule schedule, int chunks) {
    if (keep && schedule != base.strategy.pipeline_parallel_schedule) return;
    if (degree * chunks <= layers) found.push_back({schedule, chunks});
  };
  for (const ScheduleRules& rules : kSchedules) {
    if (rules.tried != Tried::First) continue;
    for (int chunks = rules.least_virtual_stages;
         chunks <= rules.most_virtual_stages && degree * chunks <= layers; ++chunks) {
      const int last = layers % (degree * chunks);
      const bool few = layers % degree != 0 && (chunks == 2 || chunks == 4);
      if (!rules.takes_chunks() || last == 0 || last + kFewerAtEnds >= degree * chunks || few) {
        add(rules.schedule, chunks);
      }
    }
  }
  const PipelineSchedule own = base.strategy.pipeline_parallel_schedule;
  const bool listed = std::any_of(found.begin(), found.end(),
                                  [&](const auto& choice) { return choice.first == own; });
  if (keep && !listed) add(own, rules_of(own).least_virtual_stages);
  return found;
}

/// Where the states of a point may be.
std::vector<Offload> offloads(const LayoutPoint& point, const Scenario& base, bool all) {
  const Offload own = base.strategy.offload;
  if (!all || own != Offload::None) return {own};
  if (point.zero == 3) return {Offload::None, Offload::Optimizer, Offload::Parameters};
  return {Offload::None, Offload::Optimizer};
}

/// The ways to share states among the data-parallel ranks of a point.
std::vector<LayoutPoint> shared_states(const LayoutPoint& point, int ranks, int node,
                                       int most_gathered) {
  std::vector<LayoutPoint> found;
  const auto add = [&](int zero, int replicate) {
    LayoutPoint p = point;
    p.zero = zero;
    p.replicate = replicate;
    p.shard = ranks / replicate;
    found.push_back(p);
  };
  const bool alone = ranks * point.context == 1;
  if (point.context == 1) add(0, ranks);
  if (alone) return found;
  for (const int zero : {1, 2, 3}) {
    if (zero == 3 && point.chunks > most_gathered) continue;
    add(zero, 1);
  }
  // Shards inside a node, with copies on others.
  const int inside = std::max(1, node / (point.tensor * point.context));
  if (point.pipeline == 1 && inside > 1 && inside < ranks && ranks % inside == 0) {
    add(3, ranks / inside);
  }
  return found;
}

/// Over how many ranks of tensor parallelism each expert may be divided (see validate()).
std::vector<int> expert_tensor_degrees(const Scenario& base, int tensor) {
  const ModelSpec& m = base.model;
  const bool whole = m.experts == 0 || m.has_biases() || base.optimizer.is_muon();
  return whole ? std::vector<int>{1} : divisors(tensor, tensor);
}

}  // namespace

int ranks_to_divide(const Scenario& base) {
  const int own = base.strategy.world_size();
  return base.cluster.ranks_per_device > 1 && own > 1 ? own : base.cluster.capacity();
}

DegreeLimits degree_limits(const Scenario& base) {
  constexpr std::int64_t kShortestPiece = 4096;
  const auto pieces = std::max<std::int64_t>(1, base.training.seq_len / kShortestPiece);
  return {base.cluster.ranks_per_node(), static_cast<int>(pieces),
          static_cast<int>(base.model.layers)};
}

void set_pipeline(StrategySpec& strategy, int degree, PipelineSchedule schedule, int chunks) {
  strategy.pipeline_parallel_degree = degree;
  strategy.pipeline_parallel_schedule = schedule;
  strategy.pipeline_parallel_virtual_stages = chunks;
  strategy.pipeline_parallel_microbatch_group_size = 0;
  strategy.pipeline_parallel_layers_per_stage.clear();
  strategy.pipeline_parallel_schedule_csv.clear();
  strategy.pipeline_parallel_schedule_actions = {};
}

bool set_microbatches(Scenario& scenario, int batch, int size) {
  const std::int64_t pass = std::int64_t{size} * scenario.strategy.data_parallel_degree();
  if (batch % pass != 0) return false;
  const auto microbatches = static_cast<int>(batch / pass);
  // A pipeline cuts its share of the batch into microbatches; without a pipeline, ranks accumulate
  // gradients over as many passes.
  const bool pipeline = scenario.strategy.pipeline_parallel_degree > 1;
  scenario.strategy.pipeline_parallel_microbatches = pipeline ? microbatches : 1;
  scenario.training.local_batch_size = pipeline ? microbatches * size : size;
  scenario.training.global_batch_size = batch;
  return true;
}

std::string_view to_string(Recomputation what) {
  switch (what) {
    case Recomputation::None:
      return "nothing recomputed";
    case Recomputation::Norms:
      return "norms and activations recomputed";
    case Recomputation::Attention:
      return "attention recomputed";
    case Recomputation::EveryOther:
      return "every other block recomputed";
    case Recomputation::Blocks:
      break;
  }
  return "blocks recomputed";
}

ActivationCheckpointSpec checkpoint_of(Recomputation what) {
  switch (what) {
    case Recomputation::None:
      return {};
    case Recomputation::Norms:
      return {ActivationCheckpoint::Selective, "op", {}};
    case Recomputation::Attention:
      return {ActivationCheckpoint::Selective, "attention", {}};
    case Recomputation::EveryOther:
      return {ActivationCheckpoint::Selective, "2", {}};
    case Recomputation::Blocks:
      break;
  }
  return {ActivationCheckpoint::Full, "2", {}};
}

bool LayoutConstraints::allows(const LayoutPoint& point, const Scenario& base) const {
  // In how many blocks of a stage is a setting of the layout that is found.
  ActivationCheckpointSpec kept = base.activation_checkpoint;
  kept.recomputed_layers_per_stage.clear();
  if (keep_recomputation && checkpoint_of(point.recomputation) != kept) return false;
  if (wanted && !wanted(point)) return false;
  return std::all_of(only.begin(), only.end(),
                     [&](const Only& o) { return degree_of(point, o.what) == o.value; });
}

std::vector<LayoutConstraints::Only> degrees_of(const LayoutPoint& point) {
  std::vector<LayoutConstraints::Only> degrees;
  for (const std::string& name : degree_names()) degrees.push_back({name, degree_of(point, name)});
  return degrees;
}

Result<LayoutConstraints::Only> parse_only(const std::string& text) {
  const std::size_t sign = text.find('=');
  LayoutConstraints::Only only{text.substr(0, sign), 0};
  const auto& names = degree_names();
  if (std::find(names.begin(), names.end(), only.what) == names.end()) {
    const std::string near = nearest(only.what, names);
    return Error{ErrorKind::InvalidSpec,
                 "--only " + text + ": '" + only.what + "' is none of tp, cp, pp, dp, ep, etp, " +
                     "zero, v, microbatch" + (near.empty() ? "" : "; did you mean '" + near + "'?"),
                 std::nullopt};
  }
  const char* begin =
      sign == std::string::npos ? text.data() + text.size() : text.data() + sign + 1;
  const auto [end, fault] = std::from_chars(begin, text.data() + text.size(), only.value);
  if (fault != std::errc{} || end != text.data() + text.size() || only.value < 0) {
    return Error{ErrorKind::InvalidSpec, "--only " + text + " needs a number: " + only.what + "=8",
                 std::nullopt};
  }
  return only;
}

std::vector<LayoutPoint> layout_space(const Scenario& base, const LayoutConstraints& constraints) {
  const int node = base.cluster.ranks_per_node();
  const auto layers = static_cast<int>(base.model.layers);
  const int batch = base.global_batch_size();
  const auto experts = static_cast<int>(base.model.experts);
  const int active = base.strategy.fsdp_max_active_stages;
  const int most_gathered = active > 0 ? active : kMostVirtualStages;
  const int largest = base.model.is_vision() ? kMostImagesAtOnce : kLargestMicrobatch;
  std::vector<LayoutPoint> space;
  const auto add = [&](LayoutPoint p) {
    for (int size = 1; size <= largest; size *= 2) {
      if (batch % (size * p.replicate * p.shard) != 0) break;
      p.microbatch = size;
      for (const Recomputation what : kRecomputations) {
        if (base.model.has_batch_norm() && what != Recomputation::None) break;
        if (what == Recomputation::EveryOther && layers / (p.pipeline * p.chunks) < 2) continue;
        p.recomputation = what;
        for (const Offload offload : offloads(p, base, constraints.offload)) {
          p.offload = offload;
          if (constraints.allows(p, base)) space.push_back(p);
        }
      }
    }
  };
  for (const RankDegrees& d : divide_ranks(ranks_to_divide(base), degree_limits(base))) {
    if (batch % d.data != 0) continue;
    // How many replicas train apart decides what is trained, and so is no choice.
    const bool apart = base.strategy.trains_apart();
    const int replicas = apart ? base.strategy.data_parallel_replicate_degree : 1;
    if (d.data % replicas != 0) continue;
    for (const auto& [schedule, chunks] :
         pipelines(d.pipeline, layers, base, constraints.keep_schedule)) {
      LayoutPoint point;
      point.tensor = d.tensor;
      point.context = d.context;
      point.pipeline = d.pipeline;
      point.schedule = schedule;
      point.chunks = chunks;
      for (LayoutPoint p : shared_states(point, d.data / replicas, node, most_gathered)) {
        if (apart && p.replicate > 1) continue;
        if (apart) p.replicate = replicas;
        const int parts = p.zero == 0 ? 1 : p.shard;
        for (const int expert : divisors(parts, std::max(1, experts))) {
          if (experts > 0 && experts % expert != 0) continue;
          p.expert = expert;
          p.folding = false;
          for (const int divided : expert_tensor_degrees(base, p.tensor)) {
            if (divided > 1 && divided < p.tensor) continue;  // copies beside them, see validate()
            p.expert_tensor = divided;
            add(p);
          }
        }
        p.folding = true;
        for (const int divided : expert_tensor_degrees(base, p.tensor)) {
          if (experts == 0 || p.tensor / divided * p.context == 1) continue;
          StrategySpec s = base.strategy;
          s.tensor_parallel_degree = p.tensor;
          s.context_parallel_degree = p.context;
          s.data_parallel_shard_degree = p.shard;
          s.expert_tensor_parallel_degree = p.expert_tensor = divided;
          for (const int expert : folded_expert_degrees(s, experts)) {
            p.expert = expert;
            add(p);
          }
        }
      }
    }
  }
  return space;
}

std::vector<LayoutPoint> other_schedules(const LayoutPoint& point, const Scenario& base,
                                         const LayoutConstraints& constraints) {
  if (point.pipeline == 1 || constraints.keep_schedule) return {};
  std::vector<LayoutPoint> found;
  for (const ScheduleRules& rules : kSchedules) {
    if (rules.tried != Tried::ForTheBest) continue;
    LayoutPoint p = point;
    p.schedule = rules.schedule;
    p.chunks = std::min(2, rules.most_virtual_stages);
    if (p.pipeline * p.chunks > base.model.layers) continue;
    for (const Recomputation what : kRecomputations) {
      p.recomputation = what;
      const bool divides =
          what != Recomputation::EveryOther || base.model.layers / (p.pipeline * p.chunks) >= 2;
      if (divides && constraints.allows(p, base)) found.push_back(p);
    }
  }
  return found;
}

std::optional<Scenario> layout_of(const Scenario& base, const LayoutPoint& point) {
  Result<Scenario> layout = layout_or_why(base, point);
  return layout ? std::optional(std::move(*layout)) : std::nullopt;
}

Result<Scenario> layout_or_why(const Scenario& base, const LayoutPoint& point) {
  Scenario s = base;
  s.expect.clear();
  StrategySpec& p = s.strategy;
  divide_tensors(p, point, s.model, base.strategy.tensor_parallel_chunks);
  p.context_parallel_degree = point.context;
  if (point.context == 1) p.context_parallel_ulysses_degree = 1;
  set_pipeline(p, point.pipeline, point.schedule, point.chunks);
  p.data_parallel_replicate_degree = point.replicate;
  p.data_parallel_shard_degree = point.shard;
  // Without shards the stage means nothing, and stays as it is.
  if (point.zero > 0) p.zero_stage = point.zero;
  p.overlap_param_gather = point.zero == 1;
  divide_experts(p, point);
  s.activation_checkpoint = checkpoint_of(point.recomputation);
  p.offload = point.offload;
  if (!set_microbatches(s, base.global_batch_size(), point.microbatch)) {
    return Error{ErrorKind::InvalidSpec, "its ranks do not divide the batch", std::nullopt};
  }
  if (const std::vector<Fault> faults = validate(s); !faults.empty()) return faults.front().error;
  return s;
}

void divide_tensors(StrategySpec& p, const LayoutPoint& point, const ModelSpec& model, int chunks) {
  p.tensor_parallel_degree = point.tensor;
  p.enable_sequence_parallel = point.tensor > 1 && !model.is_vision();
  p.tensor_parallel_chunks = p.enable_sequence_parallel ? chunks : 1;
}

void divide_experts(StrategySpec& p, const LayoutPoint& point) {
  p.expert_parallel_degree = point.expert;
  p.expert_parallel_folding = point.folding;
  p.expert_tensor_parallel_degree = point.expert_tensor;
}

}  // namespace lockstep
