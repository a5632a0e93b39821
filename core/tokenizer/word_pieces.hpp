// Word pieces: BERT's tokenizer (Devlin et al. 2018; its tokenization.py). A text becomes words,
// which whitespace and punctuation part, and each word the longest tokens that it begins with, one
// after the other.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.hpp"
#include "core/tokenizer/added_tokens.hpp"
#include "core/tokenizer/tokenizer.hpp"

namespace lockstep {

class WordPieceTokenizer final : public Tokenizer {
 public:
  /// Reads the content of a tokenizer.json whose model is of type WordPiece, or BERT's vocab.txt, a
  /// token on each line; `config` is the content of tokenizer_config.json, or null. Errors are
  /// those of open_tokenizer(). Throws nlohmann::json::exception where a value has another type
  /// than its key.
  Result<void> read(const nlohmann::json& json);
  Result<void> read_vocabulary(std::istream& tokens, const nlohmann::json& config);

  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int32_t end() const override { return end_; }
  std::vector<std::int32_t> encode(std::string_view given, bool special) const override;
  /// A word with the blank before it, or a part of a word without.
  std::string_view piece(std::int32_t id) const override;
  /// Words with blanks between them: where a text had none, or other spaces, capitals or marks, is
  /// not to be known again.
  std::string decode(const std::vector<std::int32_t>& ids) const override;

 private:
  Result<void> read_normalizer(const nlohmann::json& json);
  Result<void> read_splitter(const nlohmann::json& json);
  Result<void> read_model(const nlohmann::json& model);
  void add(const std::string& token, std::int32_t id);
  std::string normalized(std::string_view text) const;
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  using Ids = std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>>;
  Ids beginnings_, continuations_;                        // the latter without their prefix
  std::unordered_map<std::int32_t, std::string> pieces_;  // what each token stands for
  AddedTokens added_;
  TokensAround around_;
  std::string prefix_ = "##";
  std::size_t longest_ = 0;  // token, in bytes
  std::size_t most_characters_ = 100;
  std::int64_t vocabulary_ = 0;
  std::int32_t unknown_ = -1, end_ = -1;
  bool cleans_ = false, parts_ideographs_ = false, strips_marks_ = false, lowers_ = false;
};

}  // namespace lockstep
