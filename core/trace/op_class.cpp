#include "core/trace/op_class.hpp"

#include <algorithm>
#include <array>

namespace lockstep {

OpClass op_class(std::string_view kind) {
  constexpr std::array<std::string_view, 13> kCommunication = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all",
      "reduce",     "gather",     "scatter",        "barrier",   "send",
      "recv",       "send_recv",  "communication"};
  constexpr std::array<std::string_view, 3> kCopy = {"copy", "memcpy", "memset"};
  constexpr std::array<std::string_view, 3> kHost = {"host", "annotation", "sync"};
  const auto among = [kind](const auto& list) {
    return std::find(list.begin(), list.end(), kind) != list.end();
  };
  if (among(kCommunication)) return OpClass::Communication;
  if (among(kCopy)) return OpClass::Copy;
  return among(kHost) ? OpClass::Host : OpClass::Compute;
}

}  // namespace lockstep
