// What a program trains on, text or images, as one function of the global sample index.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/result.hpp"
#include "core/ir/input.hpp"

namespace lockstep {

/// Of a global sample, its inputs and targets, Samples::inputs() and Samples::targets() of them:
/// tokens and the tokens that follow, or the intensities of an image and its class. Thread-safe.
using SampleSource = std::function<void(std::int64_t sample, std::span<std::int32_t> inputs,
                                        std::span<std::int32_t> targets)>;

/// The data at `path`, or if it is empty synthetic ones, in the order of `seed`. Requires samples
/// of a kind. Errors as those of open_token_source and open_image_source.
Result<SampleSource> open_dataset(const Samples& samples, std::uint64_t seed,
                                  const std::string& path);

}  // namespace lockstep
