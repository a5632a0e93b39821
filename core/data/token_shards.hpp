// Token shards: tokens as llm.c keeps them in a file. It begins with 256 int32, which are magic,
// version, number of tokens, and zeros; the tokens follow, as uint16 or, for vocabularies above
// 65,536, as uint32 (llm.c's dev/data/data_common.py).
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

struct ShardFormat {
  std::int32_t magic = 0, version = 0;
  std::size_t token_bytes = 0;
};
inline constexpr std::array<ShardFormat, 2> kShardFormats = {{{20240520, 1, 2}, {20240801, 7, 4}}};
inline constexpr std::size_t kShardHeaderBytes = 256 * sizeof(std::int32_t);

/// Writes one shard, which appears whole or not at all: until then it is named "PATH.new".
class ShardWriter {
 public:
  /// `token_bytes` is 2 or 4. Error Device if the file cannot be made.
  static Result<ShardWriter> create(const std::string& path, std::size_t token_bytes);
  ShardWriter(ShardWriter&& other) noexcept;
  ShardWriter& operator=(ShardWriter&&) = delete;
  ~ShardWriter();  // removes what was not finished

  /// Errors: InvalidSpec for a token that has no place in its bytes, or more than 2^31 - 1 of them;
  /// Device if the disk is full.
  Result<void> append(std::span<const std::int32_t> tokens);
  std::int64_t size() const { return size_; }  // tokens that were appended
  Result<void> finish();

 private:
  ShardWriter(std::string path, ShardFormat format);
  std::string path_, partial_;  // the latter is empty once nothing is left to remove
  ShardFormat format_;
  std::ofstream file_;
  std::int64_t size_ = 0;
};

}  // namespace lockstep
