// Whether the patterns of parameters to be frozen (ModelSpec::frozen) fit the model's parameters.
#pragma once

#include <vector>

#include "core/base/result.hpp"
#include "core/model/model.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// An error InvalidSpec for each pattern that no parameter of `model` has, with the nearest name,
/// and one if no parameter is left to train. `model` is build_layers() of `spec`.
std::vector<Error> faults_of_frozen(const ModelSpec& spec, const Model& model);

}  // namespace lockstep
