// What the quickstart says: one page, or a row for each of several runs.
#pragma once

#include <string>
#include <vector>

#include "cli/quickstart/quickstart.hpp"

namespace lockstep {

/// At most 40 lines of 80 columns. `program` is the path of lockstep, for the commands to try next,
/// and `out` the folder of the results. If the machine was busy, no differences are shown, because
/// they would tell of what else ran.
std::string quickstart_page(const Quickstart& result, const std::string& program,
                            const std::string& out);

/// A row for each run: the difference of each figure, and the cores that other programs had. The
/// last row counts, of the runs on a machine that was not busy, those within 10 %.
std::string quickstart_table(const std::vector<Quickstart>& runs);

/// Values as a line of `width` characters, each the mean of an equal part, from the lowest (▁) to
/// the highest (█). Values that are not finite are drawn as "?".
std::string curve(const std::vector<double>& values, int width);

}  // namespace lockstep
