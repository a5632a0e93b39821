// What a program trains on, text or images, as one function of the global sample index.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/result.hpp"
#include "core/ir/input.hpp"

namespace lockstep {

/// Fills in one sample, by its global index: Samples::inputs() inputs and Samples::targets()
/// targets. They are tokens and the tokens that follow them, or the intensities of an image and its
/// class. Thread-safe.
using SampleSource = std::function<void(std::int64_t sample, std::span<std::int32_t> inputs,
                                        std::span<std::int32_t> targets)>;

/// Opens the data at `path`, or synthetic data if it is empty, in the order that `seed` gives.
/// Errors: InvalidSpec if `samples` has no kind; those of open_token_source and open_image_source.
Result<SampleSource> open_dataset(const Samples& samples, std::uint64_t seed,
                                  const std::string& path);

}  // namespace lockstep
