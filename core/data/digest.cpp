#include "core/data/digest.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/base/hash.hpp"
#include "core/base/mix.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBudget = std::int64_t{256} << 20;  // bytes that are read of all files
constexpr std::int64_t kBlock = 1 << 16;

Result<std::vector<fs::path>> files_below(const std::string& path) {
  std::error_code code;
  std::vector<fs::path> files;
  if (fs::is_regular_file(path, code)) return std::vector<fs::path>{path};
  for (fs::recursive_directory_iterator at(path, code), end; !code && at != end;
       at.increment(code)) {
    if (at->is_regular_file(code)) files.push_back(at->path());
  }
  if (code) return invalid("dataset '" + path + "': " + code.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<std::string> dataset_digest(const std::string& path) {
  if (path.empty()) return std::string("synthetic");
  const auto files = files_below(path);
  if (!files) return files.error();
  const std::int64_t share = std::max(
      kBlock, kBudget / std::max<std::int64_t>(1, static_cast<std::int64_t>(files->size())));
  std::uint64_t hash = 0;
  std::int64_t total = 0;
  std::string block;
  for (const fs::path& file : *files) {
    std::ifstream in(file, std::ios::binary | std::ios::ate);
    const auto size = static_cast<std::int64_t>(in.tellg());
    if (!in || size < 0) return invalid("dataset: cannot read '" + file.string() + "'");
    total += size;
    hash = mix64(hash ^ static_cast<std::uint64_t>(size));
    const std::int64_t blocks = (std::min(size, share) + kBlock - 1) / kBlock;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t at = size <= share ? i * kBlock : i * ((size - kBlock) / std::max<std::int64_t>(1, blocks - 1));
      block.resize(static_cast<std::size_t>(std::min(kBlock, size - at)));
      in.seekg(at);
      if (!in.read(block.data(), static_cast<std::streamsize>(block.size()))) {
        return invalid("dataset: cannot read '" + file.string() + "'");
      }
      hash = mix64(hash ^ fnv1a(block));
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return std::to_string(files->size()) + (files->size() == 1 ? " file, " : " files, ") +
         std::to_string(total) + " B, " + text;
}

}  // namespace lockstep
