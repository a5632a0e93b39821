#include "core/tokenizer/word_pieces.hpp"

#include <algorithm>
#include <istream>
#include <nlohmann/json.hpp>

#include "core/tokenizer/reading.hpp"
#include "core/tokenizer/unicode.hpp"
#include "core/tokenizer/utf8.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

/// A key that may be null, which means "as another key says".
bool flag(const Json& json, const char* key, bool otherwise) {
  return json.contains(key) && json[key].is_boolean() ? json[key].get<bool>() : otherwise;
}

}  // namespace

Result<void> WordPieceTokenizer::read(const Json& json) {
  const Json null;
  const auto part = [&](const char* key) -> const Json& {
    return json.contains(key) ? json[key] : null;
  };
  if (auto read = read_normalizer(part("normalizer")); !read) return read;
  if (auto read = read_splitter(part("pre_tokenizer")); !read) return read;
  if (auto read = read_model(part("model")); !read) return read;
  if (auto read = added_.read(part("added_tokens")); !read) return read;
  for (const AddedTokens::Token& token : added_.all()) {
    vocabulary_ = std::max<std::int64_t>(vocabulary_, std::int64_t{token.id} + 1);
    pieces_[token.id] = token.special ? "" : " " + token.content;
  }
  around_ = tokens_around(part("post_processor"));
  return {};
}

Result<void> WordPieceTokenizer::read_vocabulary(std::istream& tokens, const Json& config) {
  Json vocab = Json::object(), added = Json::array();
  std::string token;
  for (std::int32_t id = 0; std::getline(tokens, token); ++id) {
    if (!token.empty() && token.back() == '\r') token.pop_back();
    if (token.empty()) continue;
    vocab[token] = id;
    for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
      if (token == special) {
        added.push_back({{"content", token}, {"id", id}, {"special", true}});
      }
    }
  }
  for (const char* needed : {"[UNK]", "[CLS]", "[SEP]"}) {
    if (!vocab.contains(needed)) {
      return damaged_tokenizer(std::string("there is no line ") + needed +
                               ", as BERT's vocabularies have");
    }
  }
  // What transformers' BertTokenizer takes where nothing is said.
  const Json said = config.is_object() ? config : Json::object();
  Json normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", flag(said, "tokenize_chinese_chars", true)},
                     {"lowercase", flag(said, "do_lower_case", true)}};
  if (said.contains("strip_accents")) normalizer["strip_accents"] = said["strip_accents"];
  const Json around = {{"type", "BertProcessing"},
                       {"cls", {"[CLS]", vocab["[CLS]"]}},
                       {"sep", {"[SEP]", vocab["[SEP]"]}}};
  const Json model = {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", std::move(vocab)}};
  return read({{"normalizer", normalizer},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
               {"post_processor", around},
               {"model", model},
               {"added_tokens", added}});
}

Result<void> WordPieceTokenizer::read_normalizer(const Json& json) {
  if (json.is_null()) return {};
  const std::string type = type_of_step(json);
  if (type != "BertNormalizer")
    return unsupported_step("the normalizer " + type + " beside word pieces");
  cleans_ = flag(json, "clean_text", true);
  parts_ideographs_ = flag(json, "handle_chinese_chars", true);
  lowers_ = flag(json, "lowercase", true);
  strips_marks_ = flag(json, "strip_accents", lowers_);
  return {};
}

Result<void> WordPieceTokenizer::read_splitter(const Json& json) {
  const std::string type = type_of_step(json);
  return type == "BertPreTokenizer"
             ? Result<void>{}
             : unsupported_step("the pre-tokenizer " + type + " beside word pieces");
}

Result<void> WordPieceTokenizer::read_model(const Json& model) {
  if (!model.contains("vocab") || !model["vocab"].is_object()) {
    return damaged_tokenizer("the model has no 'vocab'");
  }
  prefix_ = model.value("continuing_subword_prefix", prefix_);
  most_characters_ = model.value("max_input_chars_per_word", most_characters_);
  for (const auto& [token, id] : model["vocab"].items()) {
    if (!is_token_id(id)) return damaged_tokenizer("the id of '" + token + "' is " + id.dump());
    add(token, id.get<std::int32_t>());
  }
  const std::string unknown = model.value("unk_token", std::string("[UNK]"));
  const auto found = beginnings_.find(unknown);
  if (found == beginnings_.end()) {
    return damaged_tokenizer("its token for unknown words, '" + unknown + "', is not in 'vocab'");
  }
  unknown_ = found->second;
  return {};
}

void WordPieceTokenizer::add(const std::string& token, std::int32_t id) {
  vocabulary_ = std::max<std::int64_t>(vocabulary_, std::int64_t{id} + 1);
  longest_ = std::max(longest_, token.size());
  beginnings_[token] = id;
  if (token == "[SEP]") end_ = id;
  if (!token.starts_with(prefix_)) {
    pieces_[id] = " " + token;
    return;
  }
  const std::string rest = token.substr(prefix_.size());
  continuations_[rest] = id;
  pieces_[id] = rest;
}

std::vector<std::int32_t> WordPieceTokenizer::encode(std::string_view given, bool special) const {
  std::vector<std::int32_t> ids = special ? around_.before : std::vector<std::int32_t>{};
  added_.split(
      valid_utf8(given), [&](const std::string& text) { encode_text(text, ids); },
      [&](std::int32_t id) { ids.push_back(id); });
  if (special) ids.insert(ids.end(), around_.after.begin(), around_.after.end());
  return ids;
}

std::string_view WordPieceTokenizer::piece(std::int32_t id) const {
  const auto found = pieces_.find(id);
  return found == pieces_.end() ? std::string_view() : found->second;
}

std::string WordPieceTokenizer::decode(const std::vector<std::int32_t>& ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += piece(id);
  if (text.starts_with(' ')) text.erase(0, 1);
  return text;
}

/// The steps of BERT's BasicTokenizer, which work on one character at a time.
std::string WordPieceTokenizer::normalized(std::string_view text) const {
  constexpr std::uint32_t kReplacement = 0xfffd;
  std::string made;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text, at)) {
    const std::uint32_t c = utf8_at(text, at);
    if (cleans_ && (c == kReplacement || is_no_text(c))) continue;
    if (cleans_ && is_space(c)) {
      made += ' ';
      continue;
    }
    const bool parts = parts_ideographs_ && is_ideograph(c);
    if (parts) made += ' ';
    for (const char32_t base : strips_marks_ ? without_marks(c) : std::u32string{c}) {
      for (const char32_t letter : lowers_ ? lower_case(base) : std::u32string{base}) {
        append_utf8(made, letter);
      }
    }
    if (parts) made += ' ';
  }
  return made;
}

void WordPieceTokenizer::encode_text(std::string_view given, std::vector<std::int32_t>& ids) const {
  const std::string text = normalized(given);
  std::size_t begin = 0;  // of the word that is not ended yet
  const auto end_word = [&](std::size_t end) {
    if (end > begin) encode_word(std::string_view(text).substr(begin, end - begin), ids);
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t c = utf8_at(text, at);
    const std::size_t next = at + utf8_length(text, at);
    const bool space = is_space(c);
    if (space || is_punctuation(c)) {
      end_word(at);
      begin = space ? next : at;
      if (!space) end_word(next);
      begin = next;
    }
    at = next;
  }
  end_word(text.size());
}

void WordPieceTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto is_first_byte = [&](std::size_t at) {
    return at == word.size() || (static_cast<unsigned char>(word[at]) & 0xc0) != 0x80;
  };
  std::size_t characters = 0;
  for (std::size_t at = 0; at < word.size(); ++at) characters += is_first_byte(at) ? 1 : 0;
  if (characters > most_characters_) return ids.push_back(unknown_);
  const std::size_t held = ids.size();
  for (std::size_t begin = 0; begin < word.size();) {
    const Ids& known = begin == 0 ? beginnings_ : continuations_;
    std::size_t end = std::min(word.size(), begin + longest_);
    auto found = known.end();
    for (; end > begin; --end) {
      if (!is_first_byte(end)) continue;
      found = known.find(word.substr(begin, end - begin));
      if (found != known.end()) break;
    }
    if (found == known.end()) {  // then the whole word is unknown
      ids.resize(held);
      return ids.push_back(unknown_);
    }
    ids.push_back(found->second);
    begin = end;
  }
}

}  // namespace lockstep
