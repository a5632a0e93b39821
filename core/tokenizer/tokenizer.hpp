// Tokenizer: text to the ids of a model's vocabulary, and back. It reads tokenizers of byte pairs
// and BERT's of word pieces as Hugging Face's tokenizers library writes them (tokenizer.json),
// GPT-2's two files (vocab.json or encoder.json, and merges.txt or vocab.bpe), and BERT's
// vocab.txt. Without a file, tokens are the bytes of the text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// One more than the highest id.
  virtual std::int64_t vocabulary() const = 0;
  /// The ids of a text, which need not be valid UTF-8: what is not becomes U+FFFD, except where
  /// tokens are bytes. With `special`, tokens such as the one that begins a text are added as the
  /// tokenizer says.
  virtual std::vector<std::int32_t> encode(std::string_view text, bool special = false) const = 0;
  /// The bytes for which a token stands behind others; none for an unknown id. They may be a part
  /// of a character.
  virtual std::string_view piece(std::int32_t id) const = 0;
  /// The bytes that ids stand for; unknown ids stand for none. The bytes of one character may be
  /// those of several tokens.
  virtual std::string decode(const std::vector<std::int32_t>& ids) const = 0;
  /// The token that ends a text; -1 if it is not known.
  virtual std::int32_t end() const = 0;
};

std::unique_ptr<Tokenizer> byte_tokenizer();

/// Reads tokenizer.json or vocab.txt, or a folder that has one of them or GPT-2's two files. Beside
/// vocab.txt, tokenizer_config.json may say how texts are normalized. Errors name the file:
/// InvalidSpec if there is none, Parse if it is damaged, Unsupported for a kind of tokenizer, or a
/// step of one, that is not known here.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& path);
/// Whether a folder has such files.
bool has_tokenizer(const std::string& folder);

}  // namespace lockstep
