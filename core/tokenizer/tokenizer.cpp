#include "core/tokenizer/tokenizer.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/index_vector.hpp"
#include "core/base/json_depth.hpp"
#include "core/base/read_file.hpp"
#include "core/tokenizer/pair_tokenizer.hpp"
#include "core/tokenizer/word_pieces.hpp"

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
  std::string_view piece(std::int32_t id) const override {
    static const std::string all_bytes = [] {
      std::string all;
      for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
      return all;
    }();
    return id >= 0 && id < 256 ? std::string_view(all_bytes).substr(to_size(id), 1)
                               : std::string_view();
  }
  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += piece(id);
    return text;
  }
  std::int32_t end() const override { return -1; }
};

/// The first of these files that a folder has.
std::optional<fs::path> first_of(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

Json json_of(const fs::path& path) {
  const Result<std::string> text = read_file(path.string());
  if (!text || nests_too_deep(*text)) return Json(Json::value_t::discarded);
  return Json::parse(*text, nullptr, /*allow_exceptions=*/false);
}

/// A tokenizer that has been read, or the error of reading it, which names the file.
template <class T>
Result<std::unique_ptr<Tokenizer>> finished(std::unique_ptr<T> made, const Result<void>& read,
                                            const fs::path& path) {
  if (read) return std::unique_ptr<Tokenizer>(std::move(made));
  return Error{read.error().kind, path.string() + ": " + read.error().message, std::nullopt};
}

Result<std::unique_ptr<Tokenizer>> open_json(const fs::path& path) {
  const Json json = json_of(path);
  const Json* const model = json.is_object() && json.contains("model") ? &json["model"] : nullptr;
  if (model != nullptr && model->is_object() && model->contains("type") &&
      (*model)["type"] == "WordPiece") {
    auto made = std::make_unique<WordPieceTokenizer>();
    const Result<void> read = made->read(json);
    return finished(std::move(made), read, path);
  }
  auto made = std::make_unique<PairTokenizer>();
  const Result<void> read = made->read(json);
  return finished(std::move(made), read, path);
}

Result<std::unique_ptr<Tokenizer>> open_words(const fs::path& path) {
  const fs::path config = path.parent_path() / "tokenizer_config.json";
  auto made = std::make_unique<WordPieceTokenizer>();
  std::ifstream file = open_file(path.string());
  const Result<void> read =
      made->read_vocabulary(file, fs::is_regular_file(config) ? json_of(config) : Json());
  return finished(std::move(made), read, path);
}

Result<std::unique_ptr<Tokenizer>> open_pairs(const fs::path& vocab, const fs::path& merges) {
  std::ifstream file = open_file(merges.string());
  auto made = std::make_unique<PairTokenizer>();
  if (auto read = made->read_gpt2(json_of(vocab), file, vocab.string()); !read) {
    return read.error();
  }
  return std::unique_ptr<Tokenizer>(std::move(made));
}

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

bool has_tokenizer(const std::string& folder) {
  return first_of(folder, {"tokenizer.json", "vocab.txt"}) ||
         (first_of(folder, {"vocab.json", "encoder.json"}) &&
          first_of(folder, {"merges.txt", "vocab.bpe"}));
}

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& given) {
  const fs::path path(given);
  try {
    if (!fs::is_directory(path)) {
      if (!fs::is_regular_file(path)) return invalid(given + ": there is no such file");
      return path.extension() == ".txt" ? open_words(path) : open_json(path);
    }
    if (const auto whole = first_of(path, {"tokenizer.json"})) return open_json(*whole);
    const auto vocab = first_of(path, {"vocab.json", "encoder.json"});
    const auto merges = first_of(path, {"merges.txt", "vocab.bpe"});
    if (vocab && merges) return open_pairs(*vocab, *merges);
    if (const auto words = first_of(path, {"vocab.txt"})) return open_words(*words);
    return invalid(given +
                   ": there is no tokenizer.json, not both of vocab.json and merges.txt, and no "
                   "vocab.txt");
  } catch (const Json::exception& fault) {  // a value of another type than its key has
    return Error{ErrorKind::Parse, given + ": " + fault.what(), std::nullopt};
  }
}

}  // namespace lockstep
