// Digest of a dataset: whether two processes, or a run and the one that it goes on with, read the
// same data.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "core/ir/input.hpp"

namespace lockstep {

/// "none" for a program that reads no data, "synthetic" for an empty path, else for example
/// "1048576 tokens, 0f1e2d3c4b5a6978": how much it is, and a hash of it. Of more than 2^26 tokens
/// only parts are read, spread evenly. Errors: those of open_dataset().
Result<std::string> dataset_digest(const Samples& samples, const std::string& path);

}  // namespace lockstep
