// ImageSource: where labelled training images come from. A function of the global sample index.
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
  /// Global sample `sample`: intensities 0 … 255 of `size` × `size` × 3, row by row, channels last,
  /// and its class. Every image is visited once per epoch.
  virtual void fill(std::int64_t sample, std::span<std::int32_t> pixels,
                    std::int32_t& label) const = 0;
};

/// `path`: a file of CIFAR-10's binary version (records of one label and 32 × 32 bytes each of red,
/// green and blue; Krizhevsky 2009), or the folder that holds its data_batch_*.bin; empty: a
/// deterministic synthetic stream, every class a pattern of its own under noise, that a model can
/// learn. Errors: path not found, a file that is not whole records, images of another size than
/// 32, a label that is not below `classes`.
Result<std::unique_ptr<ImageSource>> open_image_source(const std::string& path, int size,
                                                       int classes, std::uint64_t seed,
                                                       bool reshuffle = true);

}  // namespace lockstep
