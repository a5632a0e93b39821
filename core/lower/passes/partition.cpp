// partition: divides the layers into contiguous virtual stages, balanced by cost (which includes
// embedding and output layer), or as the strategy gives them.
#include <algorithm>
#include <limits>

#include "core/base/index_vector.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// The ends of `stages` contiguous, non-empty ranges of `cost`, so that the largest sum of a range
/// is as small as possible; among equals, so that the sum of squares is.
std::vector<int> balance(const std::vector<double>& cost, int stages) {
  struct Best {
    double largest = std::numeric_limits<double>::infinity();
    double squares = std::numeric_limits<double>::infinity();
    int from = 0;
    bool operator<(const Best& o) const {
      return largest != o.largest ? largest < o.largest : squares < o.squares;
    }
  };
  const int n = static_cast<int>(cost.size());
  IndexVector<int, double> sum(cost.size() + 1, 0);
  for (std::size_t i = 0; i < cost.size(); ++i) sum[i + 1] = sum[i] + cost[i];
  // best[s][i] is the best division of the first i layers into s stages.
  IndexVector<int, IndexVector<int, Best>> best(stages + 1, IndexVector<int, Best>(n + 1));
  best[0][0] = {0, 0, 0};
  for (int s = 1; s <= stages; ++s) {
    for (int i = s; i <= n; ++i) {
      for (int j = s - 1; j < i; ++j) {
        const Best& before = best[s - 1][j];
        const double mine = sum[i] - sum[j];
        const Best candidate{std::max(before.largest, mine), before.squares + mine * mine, j};
        if (candidate < best[s][i]) best[s][i] = candidate;
      }
    }
  }
  IndexVector<int, int> ends(stages);
  for (int s = stages, i = n; s >= 1; --s) {
    ends[s - 1] = i;
    i = best[s][i].from;
  }
  return ends;
}

}  // namespace

std::vector<StageLayers> partition(const Model& model, const ModelSpec& spec,
                                   const StrategySpec& strategy) {
  const int stages = strategy.num_stages();
  const auto& layers = model.layers;
  const int n = static_cast<int>(layers.size());
  std::vector<StageLayers> found;
  if (spec.architecture == Architecture::Synthetic) {
    for (int s = 0; s < stages; ++s) found.push_back({s, s + 1});
    return found;
  }
  // What is before the first and after the last block goes with them. Only if there are more stages
  // than blocks, or as given, is the embedding or the output layer a stage of its own. If all ranks
  // share the two, they are stages beside these, and positions and norm go with the blocks.
  const bool shared = strategy.vocabulary_stages() > 1;
  const int first_layer = shared ? 1 : 0, end_layer = shared ? n - 1 : n;
  const int before = shared && !spec.learns_positions() ? 0 : 1;
  IndexVector<int, int> ends;
  const auto& given = strategy.pipeline_parallel_layers_per_stage;
  if (!given.empty()) {
    int end = first_layer + before;
    for (int blocks : given) ends.push_back(end += blocks);
  } else {
    std::vector<double> cost;
    for (int l = first_layer; l < end_layer; ++l) cost.push_back(layers[l].balance);
    const bool alone = stages > n - 2;
    if (!alone) {
      cost[cost.size() - 2] += cost.back();
      cost.pop_back();
      if (before == 1) {
        cost[1] += cost.front();
        cost.erase(cost.begin());
      }
    }
    ends = balance(cost, stages);
    if (!alone) {
      for (int& end : ends) end += first_layer + before;
    }
  }
  if (shared) found.push_back({0, 1});
  for (int s = 0, first = first_layer; s < stages; ++s) {
    const int last = s + 1 == stages ? end_layer : ends[s];
    found.push_back({first, last});
    first = last;
  }
  if (shared) found.push_back({n - 1, n});
  return found;
}

}  // namespace lockstep
