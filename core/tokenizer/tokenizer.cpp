#include "core/tokenizer/tokenizer.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "core/base/index_vector.hpp"
#include "core/tokenizer/byte_pairs.hpp"
#include "core/tokenizer/splitter.hpp"
#include "core/tokenizer/utf8.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class ByteTokenizer final : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text, bool) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id >= 0 && id < 256) text += static_cast<char>(id);
    }
    return text;
  }
  std::int32_t end() const override { return -1; }
};

/// The printable character that stands for each byte in GPT-2's vocabulary (bytes_to_unicode in its
/// encoder.py): itself if it is printable in Latin-1, else one from U+0100 on.
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

/// A step before byte pairs are joined.
struct Normalize {
  std::string prepend;   // put before a text that is not empty
  std::string from, to;  // every `from` becomes `to`, if `from` is not empty
};

class PairTokenizer final : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int32_t end() const override { return end_; }

  std::vector<std::int32_t> encode(std::string_view given, bool special) const override {
    std::vector<std::int32_t> ids = special ? before_ : std::vector<std::int32_t>{};
    const std::string text = valid_utf8(given);
    // Added tokens are found first; what lies between them is text.
    std::size_t at = 0, begin = 0;
    while (at < text.size()) {
      const Added* found = added_at(text, at);
      if (found == nullptr) {
        ++at;
        continue;
      }
      std::size_t last = at, next = at + found->content.size();
      if (found->strips_left) {
        while (last > begin && text[last - 1] == ' ') --last;
      }
      if (found->strips_right) {
        while (next < text.size() && text[next] == ' ') ++next;
      }
      encode_text(text.substr(begin, last - begin), ids);
      ids.push_back(found->id);
      at = begin = next;
    }
    encode_text(text.substr(begin), ids);
    if (special) ids.insert(ids.end(), after_.begin(), after_.end());
    return ids;
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      const auto found = bytes_.find(id);
      if (found != bytes_.end()) text += found->second;
    }
    // What was put before the text, as where SentencePiece begins with a space.
    if (strips_first_space_ && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  Result<void> read(const Json& json);
  Result<void> read_gpt2(const Json& vocab, std::istream& merges, const std::string& path);

 private:
  struct Added {
    std::string content;
    std::int32_t id = -1;
    bool strips_left = false, strips_right = false;
  };

  const Added* added_at(const std::string& text, std::size_t at) const {
    const auto candidates = added_.find(text[at]);
    if (candidates == added_.end()) return nullptr;
    for (const Added& token : candidates->second) {  // the longest first
      if (text.compare(at, token.content.size(), token.content) == 0) return &token;
    }
    return nullptr;
  }

  void encode_text(std::string text, std::vector<std::int32_t>& ids) const {
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

  void split(std::string_view text, std::size_t step, std::vector<std::int32_t>& ids) const {
    if (step == splitters_.size()) return encode_word(text, ids);
    splitters_[step].split(text, [&](std::string_view piece) { split(piece, step + 1, ids); });
  }

  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
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

  Result<void> read_model(const Json& model);
  Result<void> read_normalizer(const Json& json);
  Result<void> read_splitter(const Json& json);
  Result<void> read_added(const Json& list);
  void read_template(const Json& json);
  void add(const std::string& symbol, std::int32_t id);
  void note_end(const std::string& content, std::int32_t id) {
    for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<eos>"}) {
      if (content == name && end_ < 0) end_ = id;
    }
  }

  BytePairs pairs_;
  std::unordered_map<std::int32_t, std::string> bytes_;  // what each token stands for
  std::map<char, std::vector<Added>> added_;             // by their first byte
  std::vector<Normalize> normalizers_;
  std::vector<Splitter> splitters_;
  std::vector<std::int32_t> before_, after_;  // special tokens around a text
  std::array<std::int32_t, 256> byte_ids_{};  // of <0x00> … <0xFF>
  std::int64_t vocabulary_ = 0;
  std::int32_t end_ = -1, unknown_ = -1;
  bool bytes_as_symbols_ = false;  // GPT-2's alphabet
  bool adds_space_ = false, strips_first_space_ = false;
  bool whole_words_first_ = false, falls_back_to_bytes_ = false, joins_unknown_ = false;
};

Error unsupported(const std::string& what) {
  return {ErrorKind::Unsupported, what + " is not known here", std::nullopt};
}
Error damaged(const std::string& what) { return {ErrorKind::Parse, what, std::nullopt}; }

std::string type_of(const Json& json) {
  return json.is_object() ? json.value("type", std::string()) : std::string();
}

/// Calls visit(part) for the parts of a step of type "Sequence", or for the step itself.
template <class Visit>
Result<void> each_step(const Json& json, const char* list, Visit&& visit) {
  if (json.is_null()) return {};
  if (type_of(json) != "Sequence") return visit(json);
  if (!json.contains(list) || !json[list].is_array()) {
    return damaged(std::string("a sequence has no list '") + list + "'");
  }
  for (const Json& part : json[list]) {
    if (auto seen = each_step(part, list, visit); !seen) return seen;
  }
  return {};
}

void PairTokenizer::add(const std::string& symbol, std::int32_t id) {
  pairs_.add(symbol, id);
  vocabulary_ = std::max<std::int64_t>(vocabulary_, std::int64_t{id} + 1);
  note_end(symbol, id);
}

Result<void> PairTokenizer::read(const Json& json) {
  if (!json.is_object() || !json.contains("model")) return damaged("there is no 'model'");
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
  return each_step(part("post_processor"), "processors", [&](const Json& step) -> Result<void> {
    if (type_of(step) == "TemplateProcessing") read_template(step);
    return {};
  });
}

Result<void> PairTokenizer::read_normalizer(const Json& json) {
  const std::string type = type_of(json);
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
  return unsupported("the normalizer " + type);
}

Result<void> PairTokenizer::read_splitter(const Json& json) {
  using Behavior = Splitter::Behavior;
  const auto keep = [&](Result<Splitter> made) -> Result<void> {
    if (!made) return made.error();
    splitters_.push_back(std::move(*made));
    return {};
  };
  const std::string type = type_of(json);
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
    static const std::map<std::string, Behavior> kBehaviors = {
        {"Isolated", Behavior::Isolated},
        {"Removed", Behavior::Removed},
        {"MergedWithPrevious", Behavior::MergedWithPrevious},
        {"MergedWithNext", Behavior::MergedWithNext},
        {"Contiguous", Behavior::Contiguous}};
    const auto behavior = kBehaviors.find(json.value("behavior", std::string()));
    if (behavior == kBehaviors.end()) return damaged("a split has no known behavior");
    const bool literal = json["pattern"].contains("String");
    const Json pattern = json["pattern"].value(literal ? "String" : "Regex", Json());
    if (!pattern.is_string()) return damaged("a split has no pattern");
    return keep(Splitter::make(pattern.get<std::string>(), literal, behavior->second,
                               json.value("invert", false)));
  }
  return unsupported("the pre-tokenizer " + type);
}

Result<void> PairTokenizer::read_model(const Json& model) {
  const std::string type = type_of(model);
  if (!type.empty() && type != "BPE") return unsupported("a tokenizer of type " + type);
  if (!model.contains("vocab") || !model["vocab"].is_object() || !model.contains("merges") ||
      !model["merges"].is_array()) {
    return damaged("the model has no 'vocab' and 'merges', as byte pairs have");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model.contains(key) && model[key].is_string() && model[key] != "") {
      return unsupported(std::string("a ") + key);
    }
  }
  whole_words_first_ = model.value("ignore_merges", false);
  falls_back_to_bytes_ = model.value("byte_fallback", false);
  joins_unknown_ = model.value("fuse_unk", false);
  for (const auto& [symbol, id] : model["vocab"].items()) {
    if (!id.is_number_integer()) return damaged("the id of '" + symbol + "' is no integer");
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
      return damaged("merge " + std::to_string(i) + " is not of two symbols that make a third");
    }
  }
  std::map<std::string, char, std::less<>> bytes_of_symbols;
  for (unsigned b = 0; b < 256; ++b) {
    bytes_of_symbols[symbols_of_bytes()[b]] = static_cast<char>(b);
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    byte_ids_[b] = pairs_.find(name);
    if (falls_back_to_bytes_ && byte_ids_[b] < 0) {
      return damaged(std::string("there is no token ") + name + ", as byte_fallback needs");
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
  if (!list.is_array()) return {};
  for (const Json& token : list) {
    if (!token.is_object() || !token.contains("content") || !token["content"].is_string() ||
        !token.contains("id") || !token["id"].is_number_integer()) {
      return damaged("an added token has no 'content' and 'id'");
    }
    const Added made{token["content"], token["id"], token.value("lstrip", false),
                     token.value("rstrip", false)};
    if (made.content.empty()) continue;
    vocabulary_ = std::max<std::int64_t>(vocabulary_, std::int64_t{made.id} + 1);
    note_end(made.content, made.id);
    bytes_[made.id] = token.value("special", false) ? "" : made.content;
    std::vector<Added>& same = added_[made.content[0]];
    same.push_back(made);
    std::stable_sort(same.begin(), same.end(), [](const Added& a, const Added& b) {
      return a.content.size() > b.content.size();
    });
  }
  return {};
}

void PairTokenizer::read_template(const Json& json) {
  if (!json.contains("single") || !json["single"].is_array()) return;
  bool text_seen = false;
  for (const Json& part : json["single"]) {
    if (part.contains("Sequence")) text_seen = true;
    if (!part.contains("SpecialToken")) continue;
    const std::string name = part["SpecialToken"].value("id", std::string());
    const Json tokens = json.value("special_tokens", Json::object());
    if (!tokens.contains(name) || !tokens[name].contains("ids")) continue;
    for (const Json& id : tokens[name]["ids"]) {
      if (id.is_number_integer()) (text_seen ? after_ : before_).push_back(id.get<std::int32_t>());
    }
  }
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
  if (!done) return damaged(path + ": " + done.error().message);
  return {};
}

/// The first of these files that a folder has.
std::optional<fs::path> first_of(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

Json json_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Json::parse(file, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

bool has_tokenizer(const std::string& folder) {
  return first_of(folder, {"tokenizer.json"}) ||
         (first_of(folder, {"vocab.json", "encoder.json"}) &&
          first_of(folder, {"merges.txt", "vocab.bpe"}));
}

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& given) {
  const fs::path path(given);
  auto made = std::make_unique<PairTokenizer>();
  const bool is_folder = fs::is_directory(path);
  const auto whole = is_folder ? first_of(path, {"tokenizer.json"}) : std::optional(path);
  try {
    if (whole) {
      if (!fs::is_regular_file(*whole)) return invalid(given + ": there is no such file");
      if (auto read = made->read(json_of(*whole)); !read) {
        return Error{read.error().kind, whole->string() + ": " + read.error().message,
                     std::nullopt};
      }
      return std::unique_ptr<Tokenizer>(std::move(made));
    }
    const auto vocab = first_of(path, {"vocab.json", "encoder.json"});
    const auto merges = first_of(path, {"merges.txt", "vocab.bpe"});
    if (!vocab || !merges) {
      return invalid(given +
                     ": there is no tokenizer.json, and not both of vocab.json and merges.txt");
    }
    std::ifstream file(*merges, std::ios::binary);
    if (auto read = made->read_gpt2(json_of(*vocab), file, vocab->string()); !read) {
      return read.error();
    }
  } catch (const Json::exception& fault) {  // a value of another type than its key has
    return damaged(given + ": " + fault.what());
  }
  return std::unique_ptr<Tokenizer>(std::move(made));
}

}  // namespace lockstep
