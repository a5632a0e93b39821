// Names text: where the time of a trace goes, by kernel and by call.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/format/table.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// A table of the `most` names whose self time is the largest, those of devices before those of
/// hosts: count, total, self time and its share, average and percentiles. Names that are longer
/// than the table has room for are shortened in the middle.
std::string names_text(const Trace& trace, int most, const Screen& screen);

/// The same as a list of objects, names whole, times in seconds.
nlohmann::ordered_json names_json(const Trace& trace, int most);

}  // namespace lockstep
