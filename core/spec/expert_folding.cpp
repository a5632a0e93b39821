#include "core/spec/expert_folding.hpp"

#include <algorithm>

namespace lockstep {

std::vector<int> folded_expert_degrees(const StrategySpec& strategy, std::int64_t experts) {
  const int tensor = strategy.tensor_parallel_degree / strategy.expert_tensor_parallel_degree;
  const int both = tensor * strategy.context_parallel_degree;
  const int shards = strategy.data_parallel_shard_degree;
  std::vector<int> degrees = {tensor};
  for (int part = 1; part <= shards; ++part) {
    if (shards % part == 0) degrees.push_back(both * part);
  }
  std::erase_if(degrees, [&](int degree) { return degree == 1 || experts % degree != 0; });
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  return degrees;
}

}  // namespace lockstep
