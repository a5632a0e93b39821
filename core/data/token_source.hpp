// TokenSource: where training text comes from. Sequences are a function of the global sample index.
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
  /// Tokens [0, seq_len) of global sample `sample` to `tokens`, [1, seq_len] to `targets`.
  /// The order of samples is reshuffled every epoch by (seed, epoch), unless the source was opened
  /// without; every sample of an epoch is visited once.
  virtual void fill(std::int64_t sample, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> targets) const = 0;
};

/// `path`: a text file or a folder of them (byte-level tokens), or llm.c .bin token shards; empty:
/// a deterministic synthetic stream over `vocab` tokens that a model can learn. Errors: path not
/// found, no text, a shard with a bad header, fewer than seq_len + 1 tokens, a token >= vocab.
Result<std::unique_ptr<TokenSource>> open_token_source(const std::string& path, int seq_len,
                                                       int vocab, std::uint64_t seed,
                                                       bool reshuffle = true);

}  // namespace lockstep
