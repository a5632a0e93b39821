#include "core/data/image_source.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "core/base/read_file.hpp"
#include "core/base/result.hpp"
#include "core/data/epoch_order.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kChannels = 3;
constexpr int kCifarSize = 32;
constexpr std::int64_t kPlane = kCifarSize * kCifarSize;
constexpr std::int64_t kRecord = 1 + kChannels * kPlane;

class CifarSource final : public ImageSource {
 public:
  CifarSource(std::vector<std::uint8_t> records, std::uint64_t seed, bool reshuffle)
      : records_(std::move(records)), order_(num_images(), seed, reshuffle) {}
  std::int64_t num_images() const override {
    return static_cast<std::int64_t>(records_.size()) / kRecord;
  }
  void fill(std::int64_t sample, std::span<std::int32_t> pixels,
            std::int32_t& label) const override {
    const std::uint8_t* const record = records_.data() + order_(sample) * kRecord;
    label = record[0];
    for (std::int64_t i = 0; i < kPlane; ++i) {
      for (int c = 0; c < kChannels; ++c) {
        pixels[i * kChannels + c] = record[1 + c * kPlane + i];
      }
    }
  }

 private:
  std::vector<std::uint8_t> records_;
  EpochOrder order_;
};

/// Every class has a grid of 4 × 4 colours. An image is the grid of its class, enlarged and dimmed
/// towards grey, plus uniform noise on every element.
class SyntheticImages final : public ImageSource {
 public:
  SyntheticImages(int size, int classes, std::uint64_t seed, bool reshuffle)
      : size_(size), classes_(classes), seed_(seed), order_(kImages, seed, reshuffle) {}
  std::int64_t num_images() const override { return kImages; }
  void fill(std::int64_t sample, std::span<std::int32_t> pixels,
            std::int32_t& label) const override {
    const auto image = static_cast<std::uint64_t>(order_(sample));
    const std::uint64_t key = mix64(mix64(seed_ + 1) + image);
    label = static_cast<std::int32_t>(mix64(key) % static_cast<std::uint64_t>(classes_));
    const std::uint64_t pattern = mix64(mix64(seed_ + 2) + static_cast<std::uint64_t>(label));
    std::size_t i = 0;
    for (int y = 0; y < size_; ++y) {
      for (int x = 0; x < size_; ++x) {
        const int cell = y * kGrid / size_ * kGrid + x * kGrid / size_;
        for (int c = 0; c < kChannels; ++c, ++i) {
          const int place = cell * kChannels + c;
          const std::uint64_t drawn = mix64(pattern + static_cast<std::uint64_t>(place) + 1);
          const auto colour = static_cast<std::int32_t>(drawn % kColours);
          const auto noise = static_cast<std::int32_t>(mix64(key + i + 1) % kNoise);
          pixels[i] = 128 - (kColours + kNoise) / 2 + colour + noise;
        }
      }
    }
  }

 private:
  static constexpr std::int64_t kImages = 1 << 16;
  static constexpr int kGrid = 4, kColours = 64, kNoise = 128;  // the sum stays in 0 … 255
  int size_, classes_;
  std::uint64_t seed_;
  EpochOrder order_;
};

/// The files data_batch_*.bin of a folder in the order of their names; or `path` if it is a file.
Result<std::vector<fs::path>> files_of(const std::string& path) {
  std::error_code code;
  if (fs::is_regular_file(path, code)) return std::vector<fs::path>{path};
  if (!fs::is_directory(path, code)) {
    return invalid("dataset '" + path + "' is neither a file nor a folder");
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, code)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("data_batch") && name.ends_with(".bin")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) return invalid("dataset '" + path + "' holds no data_batch_*.bin of CIFAR-10");
  return files;
}

Result<std::vector<std::uint8_t>> read_records(const std::string& path, int classes) {
  const auto files = files_of(path);
  if (!files) return files.error();
  std::vector<std::uint8_t> records;
  for (const fs::path& file : *files) {
    std::ifstream in = open_file(file.string());
    const std::size_t begin = records.size();
    records.insert(records.end(), std::istreambuf_iterator<char>(in), {});
    const std::size_t bytes = records.size() - begin;
    if (!in || bytes == 0 || bytes % kRecord != 0) {
      return invalid("dataset '" + file.string() + "' has " + std::to_string(bytes) +
                     " bytes, which is not a number of CIFAR-10 records of " +
                     std::to_string(kRecord));
    }
    for (std::size_t at = begin; at < records.size(); at += kRecord) {
      if (records[at] < classes) continue;
      return invalid("dataset '" + file.string() + "' holds class " + std::to_string(records[at]) +
                     ", the model has " + std::to_string(classes) + " classes");
    }
  }
  return records;
}

}  // namespace

Result<std::unique_ptr<ImageSource>> open_image_source(const std::string& path, int size,
                                                       int classes, std::uint64_t seed,
                                                       bool reshuffle) {
  if (path.empty()) {
    return std::unique_ptr<ImageSource>(
        std::make_unique<SyntheticImages>(size, classes, seed, reshuffle));
  }
  if (size != kCifarSize) {
    return invalid("dataset '" + path +
                   "': CIFAR-10's images are 32 x 32, the model's image_size is " +
                   std::to_string(size));
  }
  auto records = read_records(path, classes);
  if (!records) return records.error();
  return std::unique_ptr<ImageSource>(
      std::make_unique<CifarSource>(std::move(*records), seed, reshuffle));
}

}  // namespace lockstep
