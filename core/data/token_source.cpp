#include "core/data/token_source.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/mix.hpp"
#include "core/base/result.hpp"
#include "core/data/epoch_order.hpp"
#include "core/data/token_files.hpp"

namespace lockstep {
namespace {

/// Window w is tokens [w·seq_len, (w + 1)·seq_len]: windows overlap in one token, which is the last
/// target of one and the first input of the next, so every token but the first is a target once per
/// epoch.
class FileSource final : public TokenSource {
 public:
  FileSource(std::unique_ptr<TokenFiles> files, int seq_len, std::uint64_t seed, bool reshuffle)
      : files_(std::move(files)),
        seq_len_(seq_len),
        order_((files_->size() - 1) / seq_len, seed, reshuffle) {}
  std::int64_t num_tokens() const override { return files_->size(); }
  int vocab() const override { return files_->largest_token() + 1; }
  void fill(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    const std::int64_t begin = order_(sample) * seq_len_;
    files_->read(begin, tokens);
    files_->read(begin + 1, targets);
  }

 private:
  std::unique_ptr<TokenFiles> files_;
  std::int64_t seq_len_;
  EpochOrder order_;
};

/// A random walk over a fixed cycle of the vocabulary: with probability 7/8 a token is the
/// successor of the one before, else it is uniform. The best loss is the walk's entropy, about
/// H(1/8) + log(vocab)/8 nats, far below log(vocab).
class SyntheticSource final : public TokenSource {
 public:
  SyntheticSource(int seq_len, int vocab, std::uint64_t seed, bool reshuffle,
                  DocumentEnds documents)
      : seq_len_(seq_len),
        vocab_(vocab),
        documents_(documents),
        seed_(seed),
        stride_(1 + mix64(seed) % static_cast<std::uint64_t>(std::max(1, vocab - 1))),
        order_(kWindows, seed, reshuffle) {}
  std::int64_t num_tokens() const override { return kWindows * seq_len_ + 1; }
  int vocab() const override { return vocab_; }
  void fill(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    const auto window = static_cast<std::uint64_t>(order_(sample));
    const std::uint64_t key = mix64(mix64(seed_ + 1) + window);
    const auto modulus = static_cast<std::uint64_t>(vocab_);
    std::uint64_t token = mix64(key) % modulus;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i == 0) token = ended(token, key);
      tokens[i] = static_cast<std::int32_t>(token);
      const std::uint64_t draw = mix64(key + i + 1);
      token = draw % 8 == 0 ? (draw >> 3) % modulus : (token + stride_) % modulus;
      token = ended(token, draw);
      targets[i] = static_cast<std::int32_t>(token);
    }
  }

 private:
  /// The token, or an end of a document in its place. No other token is one.
  std::uint64_t ended(std::uint64_t token, std::uint64_t key) const {
    if (documents_.token < 0) return token;
    const auto end = static_cast<std::uint64_t>(documents_.token);
    const double uniform = static_cast<double>(mix64(key ^ end) >> 11) * 0x1p-53;
    if (uniform * documents_.mean < 1) return end;
    return token != end ? token : (end + 1) % static_cast<std::uint64_t>(vocab_);
  }
  static constexpr std::int64_t kWindows = 1 << 16;
  std::int64_t seq_len_;
  int vocab_;
  DocumentEnds documents_;
  std::uint64_t seed_, stride_;
  EpochOrder order_;
};

}  // namespace

Result<std::unique_ptr<TokenSource>> open_token_source(const std::string& path, int seq_len,
                                                       int vocab, std::uint64_t seed,
                                                       bool reshuffle, DocumentEnds documents) {
  if (seq_len < 1) return invalid("seq_len must be at least 1, got " + std::to_string(seq_len));
  if (vocab < 1) return invalid("vocab must be at least 1, got " + std::to_string(vocab));
  if (path.empty()) {
    return std::unique_ptr<TokenSource>(
        std::make_unique<SyntheticSource>(seq_len, vocab, seed, reshuffle, documents));
  }
  auto files = open_token_files(path);
  if (!files) return files.error();
  const std::int64_t tokens = (*files)->size();
  if (tokens < std::int64_t{seq_len} + 1) {
    return invalid("dataset '" + path + "' has " + std::to_string(tokens) +
                   " tokens, a sequence of seq_len=" + std::to_string(seq_len) + " needs " +
                   std::to_string(seq_len + 1));
  }
  if ((*files)->are_bytes() && vocab > 256) {
    return invalid("dataset '" + path +
                   "' is text, of which each of 256 bytes is a token, and the " +
                   "model's vocabulary has " + std::to_string(vocab) +
                   " tokens: make tokens with `lockstep data " + path +
                   " --tokenizer PATH --out tokens.bin`, or train on bytes with model.vocab=256");
  }
  if ((*files)->largest_token() >= vocab) {
    return invalid("dataset '" + path + "' holds token " +
                   std::to_string((*files)->largest_token()) + ", the model's vocab is " +
                   std::to_string(vocab));
  }
  return std::unique_ptr<TokenSource>(
      std::make_unique<FileSource>(std::move(*files), seq_len, seed, reshuffle));
}

}  // namespace lockstep
