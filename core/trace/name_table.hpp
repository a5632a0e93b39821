// NameTable: strings by index, each once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/index_vector.hpp"

namespace lockstep {

/// Fills Trace::names (or another list) in order of first use.
class NameTable {
 public:
  explicit NameTable(std::vector<std::string>& names) : names_(names) {}
  std::int32_t id(std::string_view name) {
    if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
    const auto id = static_cast<std::int32_t>(names_.size());
    names_.emplace_back(name);
    ids_.emplace(name, id);
    return id;
  }
  const std::string& operator[](std::int32_t id) const { return names_[to_size(id)]; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  std::vector<std::string>& names_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace lockstep
