// What expand declares of a pipeline rank before it goes through the actions: units and what layers
// keep beside them.
#pragma once

#include <string_view>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// Adds a buffer of the type that its kind has.
BufferId declare_buffer(Draft& draft, Role& role, BufferKind kind, std::string_view name,
                        std::int64_t bytes, int layer = -1, Microbatch microbatch = -1);

/// Whether pipeline rank `coordinate` runs the stage, alone or with all others.
inline bool runs_stage(const Schedule& schedule, Stage stage, int coordinate) {
  return schedule.on_every_rank(stage) || schedule.rank_of_stage[stage] == coordinate;
}

/// Adds the units that the layers of pipeline rank `coordinate` use, whole. Returns the index of
/// the role's unit by Model::units; -1 if the rank has none such.
IndexVector<int, int> declare_units(Draft& draft, DraftRole& out, int coordinate);

/// Adds what layers keep beside their parameters, which is never sharded or reduced. Returns the
/// buffers by layer; invalid if the layer has none here.
IndexVector<int, BufferId> declare_statistics(Draft& draft, DraftRole& out, int coordinate);

}  // namespace lockstep
