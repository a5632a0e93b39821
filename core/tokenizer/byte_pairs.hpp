// Byte pairs: how a word becomes tokens (Sennrich et al. 2016). It begins as its smallest symbols;
// then, again and again, the neighbours that were joined first in the tokenizer's training are
// joined, until none are left that ever were.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {

class BytePairs {
 public:
  /// Adds a symbol and its id. Ids need not follow one another.
  void add(std::string symbol, std::int32_t id);
  /// Adds the pair that was joined after all those that were added before. False if the symbols or
  /// what they make are unknown.
  bool join(const std::string& left, const std::string& right);

  /// -1 for a symbol that is not known.
  std::int32_t find(std::string_view symbol) const;
  /// Replaces symbols by joined ones. The ids are those of known symbols.
  void merge(std::vector<std::int32_t>& ids) const;

 private:
  struct Joined {
    std::int32_t rank = 0, id = 0;
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<std::uint64_t, Joined> joined_;
};

}  // namespace lockstep
