#include "core/data/digest.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "core/base/mix.hpp"
#include "core/data/image_source.hpp"
#include "core/data/token_files.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kTokensAtATime = 1 << 16;  // tokens that are read at a time
constexpr std::int64_t kMostBlocks = 1 << 10;
constexpr std::int64_t kMostImages = 1 << 12;

class Hash {
 public:
  void add(std::span<const std::int32_t> values) {
    for (const std::int32_t value : values) {
      hash_ = mix64(hash_ ^ static_cast<std::uint32_t>(value));
    }
  }
  std::string text(std::int64_t count, const char* unit) const {
    char text[64];
    std::snprintf(text, sizeof text, "%lld %s, %016llx", static_cast<long long>(count), unit,
                  static_cast<unsigned long long>(hash_));
    return text;
  }

 private:
  std::uint64_t hash_ = 0;
};

Result<std::string> images_digest(const Samples& samples, const std::string& path) {
  const auto images = open_image_source(path, static_cast<int>(samples.length),
                                        static_cast<int>(samples.classes), 0, false);
  if (!images) return images.error();
  Hash hash;
  const std::int64_t count = (*images)->num_images();
  std::vector<std::int32_t> pixels(static_cast<std::size_t>(samples.inputs())), label(1);
  const std::int64_t stride = std::max<std::int64_t>(1, count / kMostImages);
  for (std::int64_t i = 0; i < count; i += stride) {
    (*images)->fill(i, pixels, label[0]);
    hash.add(pixels);
    hash.add(label);
  }
  return hash.text(count, "images");
}

}  // namespace

Result<std::string> dataset_digest(const Samples& samples, const std::string& path) {
  if (samples.kind == SampleKind::None) return std::string("none");
  if (path.empty()) return std::string("synthetic");
  if (samples.kind == SampleKind::Images) return images_digest(samples, path);
  const auto tokens = open_token_files(path);
  if (!tokens) return tokens.error();
  const std::int64_t size = (*tokens)->size();
  const std::int64_t blocks = std::min(kMostBlocks, (size + kTokensAtATime - 1) / kTokensAtATime);
  Hash hash;
  std::vector<std::int32_t> block;
  try {
    for (std::int64_t i = 0; i < blocks; ++i) {
      const bool all = blocks < kMostBlocks;
      const std::int64_t at =
          all ? i * kTokensAtATime
              : static_cast<std::int64_t>(static_cast<double>(size - kTokensAtATime) /
                                          static_cast<double>(blocks - 1) * static_cast<double>(i));
      block.resize(static_cast<std::size_t>(std::min(kTokensAtATime, size - at)));
      (*tokens)->read(at, block);
      hash.add(block);
    }
  } catch (const std::exception& fault) {
    return invalid(fault.what());
  }
  return hash.text(size, "tokens");
}

}  // namespace lockstep
