// Pair tokenizer: byte pairs with what comes before and after them, as tokenizer.json says.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.hpp"
#include "core/tokenizer/added_tokens.hpp"
#include "core/tokenizer/byte_pairs.hpp"
#include "core/tokenizer/splitter.hpp"
#include "core/tokenizer/tokenizer.hpp"

namespace lockstep {

class PairTokenizer final : public Tokenizer {
 public:
  /// Reads the content of tokenizer.json, or of GPT-2's two files, of which `path` is named in
  /// errors. Errors are those of open_tokenizer(). Throws nlohmann::json::exception where a value
  /// has another type than its key.
  Result<void> read(const nlohmann::json& json);
  Result<void> read_gpt2(const nlohmann::json& vocab, std::istream& merges,
                         const std::string& path);

  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int32_t end() const override { return end_; }
  std::vector<std::int32_t> encode(std::string_view given, bool special) const override;
  std::string_view piece(std::int32_t id) const override;
  std::string decode(const std::vector<std::int32_t>& ids) const override;

 private:
  /// A step before byte pairs are joined.
  struct Normalize {
    std::string prepend;   // put before a text that is not empty
    std::string from, to;  // every `from` becomes `to`, if `from` is not empty
  };
  void encode_text(std::string text, std::vector<std::int32_t>& ids) const;
  void split(std::string_view text, std::size_t step, std::vector<std::int32_t>& ids) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;

  Result<void> read_model(const nlohmann::json& model);
  Result<void> read_normalizer(const nlohmann::json& json);
  Result<void> read_splitter(const nlohmann::json& json);
  Result<void> read_added(const nlohmann::json& list);
  void add(const std::string& symbol, std::int32_t id);
  void note_end(const std::string& content, std::int32_t id);

  BytePairs pairs_;
  std::unordered_map<std::int32_t, std::string> bytes_;  // what each token stands for
  AddedTokens added_;
  std::vector<Normalize> normalizers_;
  std::vector<Splitter> splitters_;
  TokensAround around_;
  std::array<std::int32_t, 256> byte_ids_{};  // of <0x00> … <0xFF>
  std::int64_t vocabulary_ = 0;
  std::int32_t end_ = -1, unknown_ = -1;
  bool bytes_as_symbols_ = false;  // GPT-2's alphabet
  bool adds_space_ = false, strips_first_space_ = false;
  bool whole_words_first_ = false, falls_back_to_bytes_ = false, joins_unknown_ = false;
};

/// The printable character that stands for each byte in GPT-2's vocabulary (bytes_to_unicode in its
/// encoder.py): itself if it is printable in Latin-1, else one from U+0100 on.
const std::array<std::string, 256>& symbols_of_bytes();

}  // namespace lockstep
