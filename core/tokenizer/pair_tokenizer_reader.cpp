// How a pair tokenizer is read.
#include <istream>
#include <nlohmann/json.hpp>

#include "core/tokenizer/pair_tokenizer.hpp"
#include "core/tokenizer/reading.hpp"
#include "core/tokenizer/utf8.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

/// Calls visit(part) for the parts of a step of type "Sequence", or for the step itself.
template <class Visit>
Result<void> each_step(const Json& json, const char* list, Visit&& visit) {
  if (json.is_null()) return {};
  if (type_of_step(json) != "Sequence") return visit(json);
  if (!json.contains(list) || !json[list].is_array()) {
    return damaged_tokenizer(std::string("a sequence has no list '") + list + "'");
  }
  for (const Json& part : json[list]) {
    if (auto seen = each_step(part, list, visit); !seen) return seen;
  }
  return {};
}

}  // namespace

void PairTokenizer::note_end(const std::string& content, std::int32_t id) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<eos>"}) {
    if (content == name && end_ < 0) end_ = id;
  }
}

void PairTokenizer::add(const std::string& symbol, std::int32_t id) {
  pairs_.add(symbol, id);
  vocabulary_ = std::max<std::int64_t>(vocabulary_, std::int64_t{id} + 1);
  note_end(symbol, id);
}

Result<void> PairTokenizer::read(const Json& json) {
  if (!json.is_object() || !json.contains("model")) return damaged_tokenizer("there is no 'model'");
  const Json null;
  const auto part = [&](const char* key) -> const Json& {
    return json.contains(key) ? json[key] : null;
  };
  if (auto read = each_step(part("normalizer"), "normalizers",
                            [&](const Json& step) { return read_normalizer(step); });
      !read) {
    return read;
  }
  if (auto read = each_step(part("pre_tokenizer"), "pretokenizers",
                            [&](const Json& step) { return read_splitter(step); });
      !read) {
    return read;
  }
  if (auto read = read_model(json["model"]); !read) return read;
  if (auto read = read_added(part("added_tokens")); !read) return read;
  around_ = tokens_around(part("post_processor"));
  return {};
}

Result<void> PairTokenizer::read_normalizer(const Json& json) {
  const std::string type = type_of_step(json);
  if (type == "Prepend") {
    normalizers_.push_back({json.value("prepend", std::string()), "", ""});
    strips_first_space_ = true;
    return {};
  }
  if (type == "Replace" && json.contains("pattern") && json["pattern"].contains("String")) {
    normalizers_.push_back(
        {"", json["pattern"]["String"].get<std::string>(), json.value("content", std::string())});
    return {};
  }
  return unsupported_step("the normalizer " + type);
}

Result<void> PairTokenizer::read_splitter(const Json& json) {
  using Behavior = Splitter::Behavior;
  const auto keep = [&](Result<Splitter> made) -> Result<void> {
    if (!made) return made.error();
    splitters_.push_back(std::move(*made));
    return {};
  };
  const std::string type = type_of_step(json);
  if (type == "ByteLevel") {
    bytes_as_symbols_ = true;
    adds_space_ = json.value("add_prefix_space", false);
    if (!json.value("use_regex", true)) return {};
    return keep(Splitter::make(gpt2_pattern(), false, Behavior::Isolated, false));
  }
  if (type == "Digits") {
    const bool each = json.value("individual_digits", false);
    return keep(Splitter::make(each ? "\\p{N}" : "\\p{N}+", false, Behavior::Isolated, false));
  }
  if (type == "Split" && json.contains("pattern")) {
    static const std::map<std::string, Behavior> behaviors = {
        {"Isolated", Behavior::Isolated},
        {"Removed", Behavior::Removed},
        {"MergedWithPrevious", Behavior::MergedWithPrevious},
        {"MergedWithNext", Behavior::MergedWithNext},
        {"Contiguous", Behavior::Contiguous}};
    const auto behavior = behaviors.find(json.value("behavior", std::string()));
    if (behavior == behaviors.end()) return damaged_tokenizer("a split has no known behavior");
    const bool literal = json["pattern"].contains("String");
    const Json pattern = json["pattern"].value(literal ? "String" : "Regex", Json());
    if (!pattern.is_string()) return damaged_tokenizer("a split has no pattern");
    return keep(Splitter::make(pattern.get<std::string>(), literal, behavior->second,
                               json.value("invert", false)));
  }
  return unsupported_step("the pre-tokenizer " + type);
}

Result<void> PairTokenizer::read_model(const Json& model) {
  const std::string type = type_of_step(model);
  if (!type.empty() && type != "BPE") return unsupported_step("a tokenizer of type " + type);
  if (!model.contains("vocab") || !model["vocab"].is_object() || !model.contains("merges") ||
      !model["merges"].is_array()) {
    return damaged_tokenizer("the model has no 'vocab' and 'merges', as byte pairs have");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model.contains(key) && model[key].is_string() && model[key] != "") {
      return unsupported_step(std::string("a ") + key);
    }
  }
  whole_words_first_ = model.value("ignore_merges", false);
  falls_back_to_bytes_ = model.value("byte_fallback", false);
  joins_unknown_ = model.value("fuse_unk", false);
  for (const auto& [symbol, id] : model["vocab"].items()) {
    if (!is_token_id(id)) return damaged_tokenizer("the id of '" + symbol + "' is " + id.dump());
    add(symbol, id.get<std::int32_t>());
  }
  if (model.contains("unk_token") && model["unk_token"].is_string()) {
    unknown_ = pairs_.find(model["unk_token"].get<std::string>());
  }
  for (std::size_t i = 0; i < model["merges"].size(); ++i) {
    const Json& pair = model["merges"][i];
    std::string left, right;
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string()) {
      left = pair[0];
      right = pair[1];
    } else if (pair.is_string()) {
      const std::string both = pair;
      const std::size_t space = both.find(' ');
      left = both.substr(0, space);
      right = space == std::string::npos ? "" : both.substr(space + 1);
    }
    if (!pairs_.join(left, right)) {
      return damaged_tokenizer("merge " + std::to_string(i) +
                               " is not of two symbols that make a third");
    }
  }
  std::map<std::string, char, std::less<>> bytes_of_symbols;
  for (unsigned b = 0; b < 256; ++b) {
    bytes_of_symbols[symbols_of_bytes()[b]] = static_cast<char>(b);
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    byte_ids_[b] = pairs_.find(name);
    if (falls_back_to_bytes_ && byte_ids_[b] < 0) {
      return damaged_tokenizer(std::string("there is no token ") + name +
                               ", as byte_fallback needs");
    }
  }
  for (const auto& [symbol, number] : model["vocab"].items()) {
    std::string& bytes = bytes_[number.get<std::int32_t>()];
    bytes = symbol;
    if (bytes_as_symbols_) {
      bytes.clear();
      for (std::size_t at = 0; at < symbol.size();) {
        const std::size_t length = std::max<std::size_t>(1, utf8_length(symbol, at));
        const auto byte = bytes_of_symbols.find(std::string_view(symbol).substr(at, length));
        if (byte != bytes_of_symbols.end()) bytes += byte->second;
        at += length;
      }
      continue;
    }
    for (const Normalize& step : normalizers_) {  // back: "▁" to " "
      for (std::size_t at = 0; !step.to.empty();) {
        at = bytes.find(step.to, at);
        if (at == std::string::npos) break;
        bytes.replace(at, step.to.size(), step.from);
        at += step.from.size();
      }
    }
  }
  if (falls_back_to_bytes_) {
    for (unsigned b = 0; b < 256; ++b) bytes_[byte_ids_[b]] = std::string(1, static_cast<char>(b));
  }
  return {};
}

Result<void> PairTokenizer::read_added(const Json& list) {
  if (auto read = added_.read(list); !read) return read;
  for (const AddedTokens::Token& token : added_.all()) {
    vocabulary_ = std::max<std::int64_t>(vocabulary_, std::int64_t{token.id} + 1);
    note_end(token.content, token.id);
    bytes_[token.id] = token.special ? "" : token.content;
  }
  return {};
}

Result<void> PairTokenizer::read_gpt2(const Json& vocab, std::istream& merges,
                                      const std::string& path) {
  Json list = Json::array();
  std::string line;
  while (std::getline(merges, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.starts_with("#version")) continue;
    list.push_back(line);
  }
  Json added = Json::array();
  if (vocab.is_object() && vocab.contains("<|endoftext|>")) {
    added.push_back(
        {{"content", "<|endoftext|>"}, {"id", vocab["<|endoftext|>"]}, {"special", true}});
  }
  auto done = read({{"pre_tokenizer", {{"type", "ByteLevel"}}},
                    {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", std::move(list)}}},
                    {"added_tokens", std::move(added)}});
  if (!done) return damaged_tokenizer(path + ": " + done.error().message);
  return {};
}

}  // namespace lockstep
