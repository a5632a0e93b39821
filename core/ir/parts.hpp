// Parts: names of formals that stand for one of several equal parts of a tensor, whose bytes follow
// each other: "qkv.x.1of4" is the second quarter of "qkv.x". Where a layer communicates a tensor
// part by part, what needs one part does not wait for the others.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace lockstep {

struct TensorPart {
  std::string_view tensor;  // the whole
  int index = 0, count = 1;
  bool all() const { return count == 1; }
  /// Where the part begins in the whole, if it has so many bytes.
  template <class Size>
  Size begin(Size bytes) const {
    return index * bytes;
  }
};

/// The name of part `index` of `count`; of one alone, the tensor's own.
inline std::string part_name(std::string_view tensor, int index, int count) {
  if (count == 1) return std::string(tensor);
  return std::string(tensor) + "." + std::to_string(index) + "of" + std::to_string(count);
}

/// What a formal of that name stands for. A name that is no part's is a whole tensor's.
inline TensorPart part_of(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return {name};
  TensorPart part{name.substr(0, dot)};
  const char* const end = name.data() + name.size();
  const auto index = std::from_chars(name.data() + dot + 1, end, part.index);
  if (index.ec != std::errc{} || end - index.ptr < 3) return {name};
  if (std::string_view(index.ptr, 2) != "of") return {name};
  const auto count = std::from_chars(index.ptr + 2, end, part.count);
  const bool sound = count.ec == std::errc{} && count.ptr == end && part.count > 1 &&
                     part.index >= 0 && part.index < part.count;
  return sound ? part : TensorPart{name};
}

/// Whether two formals share bytes of a tensor.
inline bool share_bytes(std::string_view a, std::string_view b) {
  const TensorPart x = part_of(a), y = part_of(b);
  return x.tensor == y.tensor && (x.all() || y.all() || (x.index == y.index));
}

}  // namespace lockstep
