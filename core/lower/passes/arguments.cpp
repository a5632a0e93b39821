#include "core/lower/passes/arguments.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/ir/parts.hpp"

namespace lockstep {
namespace {

using Named = std::pair<std::string_view, Argument::What>;
constexpr std::array kNamed = {Named{"statistics", Argument::Statistics},
                               Named{"x", Argument::X},
                               Named{"dy", Argument::Dy},
                               Named{"y", Argument::Y},
                               Named{"dx", Argument::Dx},
                               Named{"ws", Argument::Workspace},
                               Named{"loss", Argument::Loss},
                               Named{"saved", Argument::Kept},
                               Named{"saved_input", Argument::Kept},
                               Named{"recomputed", Argument::Kept},
                               Named{"recomputed_input", Argument::Kept},
                               Named{"stash", Argument::Kept}};

/// The layer's unit for which it has the name `prefix` with the unit's suffix; -1 if there is none.
int unit_of(std::string_view name, std::string_view prefix, const Layer& layer) {
  if (!name.starts_with(prefix)) return -1;
  const auto used = std::find_if(
      layer.units.begin(), layer.units.end(),
      [&](const LayerUnit& unit) { return name.substr(prefix.size()) == unit.suffix; });
  return used == layer.units.end() ? -1 : static_cast<int>(used - layer.units.begin());
}

}  // namespace

Argument argument_of(const Formal& formal, const Layer& layer, const FunctionBuilder& functions,
                     TensorTables& tables) {
  Argument argument;
  const TensorPart part = part_of(formal.name);
  argument.bytes = Bytes{formal.bytes.v * part.count};
  argument.part = part.index;
  argument.parts = part.count;
  argument.name = part.tensor;
  argument.written = formal.access == Access::Write;
  for (const auto& [prefix, what] :
       {Named{"w", Argument::Parameters}, Named{"gw", Argument::Gradient}}) {
    argument.what = what;
    argument.index = unit_of(argument.name, prefix, layer);
    if (argument.index >= 0) return argument;
  }
  if (const auto data = host_data_of(argument.name)) {
    argument.what = Argument::Data;
    argument.data = *data;
    return argument;
  }
  const auto named = std::find_if(kNamed.begin(), kNamed.end(),
                                  [&](const Named& row) { return row.first == argument.name; });
  argument.what = named == kNamed.end() ? Argument::Communicated : named->second;
  if (argument.what == Argument::Kept || argument.what == Argument::Communicated) {
    argument.index =
        tables.try_emplace(argument.name, static_cast<int>(tables.size())).first->second;
  }
  if (argument.what == Argument::Communicated) {
    const bool kept = functions.outlives_part(argument.name);
    argument.kind = kept ? BufferKind::Activation : BufferKind::Comm;
    argument.dtype = functions.dtype_of(argument.name);
  }
  return argument;
}

}  // namespace lockstep
