#include "core/tokenizer/byte_pairs.hpp"

#include <queue>
#include <tuple>

#include "core/base/index_vector.hpp"

namespace lockstep {

void BytePairs::add(std::string symbol, std::int32_t id) { ids_[std::move(symbol)] = id; }

bool BytePairs::join(const std::string& left, const std::string& right) {
  const std::int32_t a = find(left), b = find(right), made = find(left + right);
  if (a < 0 || b < 0 || made < 0) return false;
  joined_.try_emplace(key(a, b), Joined{static_cast<std::int32_t>(joined_.size()), made});
  return true;
}

std::int32_t BytePairs::find(std::string_view symbol) const {
  const auto found = ids_.find(symbol);
  return found == ids_.end() ? -1 : found->second;
}

/// Symbols are a linked list, and pairs wait in the order in which they are joined, so that a long
/// word takes n log n steps. A pair that is no longer there when its turn comes is passed over.
void BytePairs::merge(std::vector<std::int32_t>& ids) const {
  const auto count = static_cast<std::int32_t>(ids.size());
  std::vector<std::int32_t> before(ids.size()), after(ids.size());
  using Pair = std::tuple<std::int32_t, std::int32_t, std::uint64_t>;  // rank, place, key
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> waiting;
  const auto offer = [&](std::int32_t at) {
    if (at < 0 || after[to_size(at)] >= count) return;
    const std::uint64_t pair = key(ids[to_size(at)], ids[to_size(after[to_size(at)])]);
    const auto found = joined_.find(pair);
    if (found != joined_.end()) waiting.emplace(found->second.rank, at, pair);
  };
  for (std::int32_t i = 0; i < count; ++i) {
    before[to_size(i)] = i - 1;
    after[to_size(i)] = i + 1;
  }
  for (std::int32_t i = 0; i < count; ++i) offer(i);
  while (!waiting.empty()) {
    const auto [rank, at, pair] = waiting.top();
    waiting.pop();
    const std::int32_t next = after[to_size(at)];
    if (ids[to_size(at)] < 0 || next >= count) continue;
    if (key(ids[to_size(at)], ids[to_size(next)]) != pair) continue;
    ids[to_size(at)] = joined_.at(pair).id;
    ids[to_size(next)] = -1;  // gone
    after[to_size(at)] = after[to_size(next)];
    if (after[to_size(at)] < count) before[to_size(after[to_size(at)])] = at;
    offer(before[to_size(at)]);
    offer(at);
  }
  std::erase_if(ids, [](std::int32_t id) { return id < 0; });
}

}  // namespace lockstep
