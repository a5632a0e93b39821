// ImageSource: where labelled training images come from, as a function of the global sample index.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

/// A shuffled, endless stream of images and their classes. Thread-safe: const.
struct ImageSource {
  virtual ~ImageSource() = default;
  virtual std::int64_t num_images() const = 0;
  /// Writes the image with global index `sample` and its class. `pixels` takes size × size × 3
  /// intensities 0 … 255, row by row, channels last. Every image is visited once per epoch.
  virtual void fill(std::int64_t sample, std::span<std::int32_t> pixels,
                    std::int32_t& label) const = 0;
};

/// Opens a file of CIFAR-10's binary version (records of one label and 32 × 32 bytes each of red,
/// green and blue; Krizhevsky 2009), or the folder that holds its data_batch_*.bin. If `path` is
/// empty, the images are a deterministic synthetic stream that a model can learn: every class is a
/// pattern of its own under noise. Errors: the path is not found, a file does not consist of whole
/// records, `size` is not 32, or a label is not below `classes`.
Result<std::unique_ptr<ImageSource>> open_image_source(const std::string& path, int size,
                                                       int classes, std::uint64_t seed,
                                                       bool reshuffle = true);

}  // namespace lockstep
