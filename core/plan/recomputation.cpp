#include "core/plan/recomputation.hpp"

#include <algorithm>
#include <string>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/draft.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// Pipeline ranks that run the same stages, and how many of their blocks are recomputed.
struct Sharers {
  std::vector<int> stages;  // in the order in which their blocks are recomputed
  std::vector<int> ranks;   // coordinates along "pp"
  int too_few = -1;         // with so many they do not fit, as far as is known
  int enough = 0;           // with so many they do
  bool known() const { return enough - too_few == 1; }
};

/// What of a layout the bisection works on.
struct PipelineParts {
  std::vector<int> blocks;  // by virtual stage, without the stages that all ranks share
  std::vector<Sharers> sharers;
};

PipelineParts parts_of(const Scenario& scenario) {
  const Draft draft(scenario);
  const StrategySpec& strategy = scenario.strategy;
  const auto stages = partition(draft.model, scenario.model, strategy);
  const Schedule schedule = pipeline(scenario, draft.model, stages);
  PipelineParts parts;
  std::vector<std::vector<int>> of_rank(to_size(strategy.pipeline_parallel_degree));
  for (const Stage s : schedule.rank_of_stage.ids()) {
    if (schedule.on_every_rank(s)) continue;
    const StageLayers& layers = stages[to_size(s % schedule.stages_per_copy())];
    const bool shared = schedule.on_every_rank(0);
    of_rank[to_size(schedule.rank_of_stage[s])].push_back(s % schedule.stages_per_copy() - shared);
    if (s >= schedule.stages_per_copy()) continue;
    parts.blocks.push_back(0);
    for (int l = layers.first; l < layers.last; ++l) {
      parts.blocks.back() += draft.model.layers[l].is_block();
    }
  }
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    std::vector<int>& own = of_rank[rank];
    std::sort(own.begin(), own.end());
    auto same = std::find_if(parts.sharers.begin(), parts.sharers.end(),
                             [&](const Sharers& s) { return s.stages == own; });
    if (same == parts.sharers.end()) {
      Sharers fresh;
      fresh.stages = own;
      for (const int s : own) fresh.enough += parts.blocks[to_size(s)];
      same = parts.sharers.insert(parts.sharers.end(), fresh);
    }
    same->ranks.push_back(static_cast<int>(rank));
  }
  return parts;
}

/// By pipeline rank, what the fullest of its ranks needs.
std::vector<Bytes> needed_by(const Probe& probe) {
  const Mesh& mesh = probe.program.mesh;
  const int pp = mesh.index_of("pp");
  std::vector<Bytes> needed(to_size(mesh.size_of("pp")));
  for (const RoleId id : probe.program.roles.ids()) {
    for (const Rank rank : probe.program.roles[id].ranks) {
      Bytes& most = needed[to_size(pp < 0 ? 0 : mesh.coordinate(rank, pp))];
      most = std::max(most, probe.needed[id]);
    }
  }
  return needed;
}

/// Divides the number of every rank among its stages.
std::vector<int> by_stage(const std::vector<Sharers>& all, const std::vector<int>& blocks,
                          const std::vector<int>& numbers) {
  std::vector<int> counts(blocks.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    int left = numbers[i];
    for (const int s : all[i].stages) {
      counts[to_size(s)] = std::min(left, blocks[to_size(s)]);
      left -= counts[to_size(s)];
    }
  }
  return counts;
}

}  // namespace

Result<std::vector<int>> least_recomputation(const Scenario& scenario, Bytes capacity,
                                             const Prober& prober) {
  auto [blocks, all] = parts_of(scenario);
  Scenario tried = scenario;
  std::vector<int> numbers;
  for (const Sharers& s : all) numbers.push_back(s.enough);  // first, all blocks
  for (bool first = true;; first = false) {
    tried.activation_checkpoint.recomputed_layers_per_stage = by_stage(all, blocks, numbers);
    const Result<Probe> probe = prober(tried);
    if (!probe) return probe.error();
    const std::vector<Bytes> needed = needed_by(*probe);
    bool known = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Sharers& s = all[i];
      const bool fits = std::all_of(s.ranks.begin(), s.ranks.end(),
                                    [&](int rank) { return needed[to_size(rank)] <= capacity; });
      if (first && !fits) {
        return Error{ErrorKind::OutOfMemory,
                     "pipeline rank " + std::to_string(s.ranks.front()) +
                         " does not fit even if all of its blocks are recomputed",
                     std::nullopt};
      }
      if (!s.known()) (fits ? s.enough : s.too_few) = numbers[i];
      numbers[i] = s.known() ? s.enough : (s.too_few + s.enough) / 2;
      known = known && s.known();
    }
    if (known) return by_stage(all, blocks, numbers);
  }
}

}  // namespace lockstep
