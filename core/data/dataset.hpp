// What a scenario trains on, text or images, as one function of the global sample index.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Of a global sample, its inputs and targets: TrainingSpec::seq_len tokens each, or the
/// intensities of an image and its class. Thread-safe.
using SampleSource = std::function<void(std::int64_t sample, std::span<std::int32_t> inputs,
                                        std::span<std::int32_t> targets)>;

/// TrainingSpec::dataset, or the synthetic one; a relative path starts at Scenario::directory.
/// Errors as those of open_token_source and open_image_source.
Result<SampleSource> open_dataset(const Scenario& scenario);

}  // namespace lockstep
