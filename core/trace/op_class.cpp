#include "core/trace/op_class.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {

OpClass op_class(std::string_view kind) {
  constexpr std::array<std::pair<std::string_view, OpClass>, 20> kClasses = {{
      {"all_reduce", OpClass::Collective},
      {"all_gather", OpClass::Collective},
      {"reduce_scatter", OpClass::Collective},
      {"broadcast", OpClass::Collective},
      {"all_to_all", OpClass::Collective},
      {"rotate", OpClass::Collective},
      {"reduce", OpClass::Collective},
      {"gather", OpClass::Collective},
      {"scatter", OpClass::Collective},
      {"barrier", OpClass::Collective},
      {"communication", OpClass::Collective},  // a collective of unknown kind
      {"send", OpClass::Send},
      {"recv", OpClass::Recv},
      {"send_recv", OpClass::SendRecv},
      {"copy", OpClass::Copy},
      {"memcpy", OpClass::Copy},
      {"memset", OpClass::Copy},
      {"host", OpClass::Host},
      {"annotation", OpClass::Host},
      {"sync", OpClass::Host},
  }};
  const auto* const found = std::find_if(kClasses.begin(), kClasses.end(),
                                         [kind](const auto& entry) { return entry.first == kind; });
  return found == kClasses.end() ? OpClass::Compute : found->second;
}

}  // namespace lockstep
