// merge_stretches: sorts what comes in a few stretches, each of which is sorted, as the spans of a
// rank's streams are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep {

/// Sorts a list stably, by merging neighbouring stretches until one is left: in time
/// n log(stretches).
template <class T, class Less>
void merge_stretches(std::vector<T>& list, Less less) {
  const auto end = list.end();
  std::vector<typename std::vector<T>::iterator> cuts;
  for (auto at = list.begin(); at != end;) {
    cuts.push_back(at);
    at = std::is_sorted_until(at, end, less);
  }
  cuts.push_back(end);
  while (cuts.size() > 2) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i + 1 < cuts.size(); i += 2) {
      if (i + 2 < cuts.size()) std::inplace_merge(cuts[i], cuts[i + 1], cuts[i + 2], less);
      cuts[kept++] = cuts[i];
    }
    cuts[kept++] = end;
    cuts.resize(kept);
  }
}

}  // namespace lockstep
