// Digest of a dataset: whether two processes, or a run and the one that it goes on with, read the
// same data.
#pragma once

#include <string>

#include "core/base/result.hpp"

namespace lockstep {

/// "synthetic" for an empty path, else for example "3 files, 1048576 B, 0f1e2d3c4b5a6978": number and
/// size of the files, and a hash of their contents in the order of their names. Of large files only
/// parts are read, spread evenly, 256 MiB in all. Error InvalidSpec if something cannot be read.
Result<std::string> dataset_digest(const std::string& path);

}  // namespace lockstep
