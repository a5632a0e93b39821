#include "core/tokenizer/pair_tokenizer.hpp"

#include <utility>

#include "core/tokenizer/utf8.hpp"

namespace lockstep {

const std::array<std::string, 256>& symbols_of_bytes() {
  static const std::array<std::string, 256> list = [] {
    std::array<std::string, 256> made;
    std::uint32_t next = 256;
    for (std::uint32_t b = 0; b < 256; ++b) {
      const bool printable =
          (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
      append_utf8(made[b], printable ? b : next++);
    }
    return made;
  }();
  return list;
}

std::vector<std::int32_t> PairTokenizer::encode(std::string_view given, bool special) const {
  std::vector<std::int32_t> ids = special ? around_.before : std::vector<std::int32_t>{};
  added_.split(
      valid_utf8(given), [&](std::string text) { encode_text(std::move(text), ids); },
      [&](std::int32_t id) { ids.push_back(id); });
  if (special) ids.insert(ids.end(), around_.after.begin(), around_.after.end());
  return ids;
}

std::string_view PairTokenizer::piece(std::int32_t id) const {
  const auto found = bytes_.find(id);
  return found == bytes_.end() ? std::string_view() : found->second;
}

std::string PairTokenizer::decode(const std::vector<std::int32_t>& ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += piece(id);
  // What was put before the text, as where SentencePiece begins with a space.
  if (strips_first_space_ && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

void PairTokenizer::encode_text(std::string text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  for (const Normalize& step : normalizers_) {
    text = step.prepend + text;
    for (std::size_t at = 0; !step.from.empty();) {
      at = text.find(step.from, at);
      if (at == std::string::npos) break;
      text.replace(at, step.from.size(), step.to);
      at += step.to.size();
    }
  }
  if (adds_space_ && !text.starts_with(' ')) text = " " + text;
  split(text, 0, ids);
}

void PairTokenizer::split(std::string_view text, std::size_t step,
                          std::vector<std::int32_t>& ids) const {
  if (step == splitters_.size()) return encode_word(text, ids);
  splitters_[step].split(text, [&](std::string_view piece) { split(piece, step + 1, ids); });
}

void PairTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::string mapped;
  if (bytes_as_symbols_) {
    for (const char c : word) mapped += symbols_of_bytes()[static_cast<unsigned char>(c)];
    word = mapped;
  }
  if (whole_words_first_) {
    if (const std::int32_t id = pairs_.find(word); id >= 0) return ids.push_back(id);
  }
  std::vector<std::int32_t> symbols;
  bool unknown = false;  // whether the symbol before is unknown: several make one token
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = utf8_length(word, at);
    const std::string_view symbol = word.substr(at, length);
    at += length;
    const std::int32_t id = pairs_.find(symbol);
    if (id >= 0) {
      symbols.push_back(id);
      unknown = false;
    } else if (falls_back_to_bytes_) {
      for (const char c : symbol) symbols.push_back(byte_ids_[static_cast<unsigned char>(c)]);
      unknown = false;
    } else if (unknown_ >= 0 && !(unknown && joins_unknown_)) {
      symbols.push_back(unknown_);
      unknown = true;
    }
  }
  pairs_.merge(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace lockstep
