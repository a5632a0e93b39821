#include "core/tokenizer/tokenizer.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/index_vector.hpp"
#include "core/base/read_file.hpp"
#include "core/tokenizer/pair_tokenizer.hpp"

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
    static const std::string kBytes = [] {
      std::string all;
      for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
      return all;
    }();
    return id >= 0 && id < 256 ? std::string_view(kBytes).substr(to_size(id), 1)
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
  std::ifstream file = open_file(path.string());
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
    std::ifstream file = open_file(merges->string());
    if (auto read = made->read_gpt2(json_of(*vocab), file, vocab->string()); !read) {
      return read.error();
    }
  } catch (const Json::exception& fault) {  // a value of another type than its key has
    return Error{ErrorKind::Parse, given + ": " + fault.what(), std::nullopt};
  }
  return std::unique_ptr<Tokenizer>(std::move(made));
}

}  // namespace lockstep
