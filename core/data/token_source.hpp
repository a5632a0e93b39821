// TokenSource: where training text comes from, as a function of the global sample index.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

/// A shuffled, endless stream of sequences of seq_len + 1 tokens. Thread-safe: const.
struct TokenSource {
  virtual ~TokenSource() = default;
  virtual std::int64_t num_tokens() const = 0;
  virtual int vocab() const = 0;  // 1 + the largest token that can occur
  /// Writes tokens [0, seq_len) of the sequence with global index `sample` to `tokens`, and tokens
  /// [1, seq_len] to `targets`. Every sequence is visited once per epoch; seed and epoch determine
  /// their order, which is the same in all epochs if the source was opened without `reshuffle`.
  virtual void fill(std::int64_t sample, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> targets) const = 0;
};

/// The token that ends a document, and the mean number of tokens of one, with that token; every
/// token is such an end with equal probability, so that lengths are geometrically distributed.
struct DocumentEnds {
  std::int32_t token = -1;  // -1: there are none
  double mean = 0;          // at least 1 if there are
};

/// Opens a text file or a folder of them (byte-level tokens), or llm.c .bin token shards. If `path`
/// is empty, the source is a deterministic synthetic stream over `vocab` tokens that a model can
/// learn. Errors: the path is not found or holds no text, a shard has a bad header, there are fewer
/// than seq_len + 1 tokens, a token is not below `vocab`, or bytes meet a vocabulary of more than
/// 256.
/// In the synthetic stream a document ends as `documents` says; files have their own ends.
Result<std::unique_ptr<TokenSource>> open_token_source(const std::string& path, int seq_len,
                                                       int vocab, std::uint64_t seed,
                                                       bool reshuffle = true,
                                                       DocumentEnds documents = {});

}  // namespace lockstep
