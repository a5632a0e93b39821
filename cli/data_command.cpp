// lockstep data: token shards from texts. A text passes through in blocks, so that its size does
// not matter.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/json_depth.hpp"
#include "core/base/read_file.hpp"
#include "core/data/token_files.hpp"
#include "core/data/token_shards.hpp"
#include "core/tokenizer/tokenizer.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTextBlock = 1 << 20;  // bytes of text that are encoded together, at least

/// Whether the tokens of a text are those of its parts before and behind `cut`, as far as its
/// surroundings tell: a tokenizer that joins nothing across words gives the same there.
bool may_cut(const Tokenizer& tokenizer, std::string_view text, std::size_t cut) {
  constexpr std::size_t kAround = 256;
  const std::size_t begin = cut - std::min(cut, kAround);
  const std::string_view left = text.substr(begin, cut - begin), right = text.substr(cut, kAround);
  auto parts = tokenizer.encode(left);
  const auto second = tokenizer.encode(right);
  parts.insert(parts.end(), second.begin(), second.end());
  return parts == tokenizer.encode(text.substr(begin, left.size() + right.size()));
}

/// The last line end at which a text may be cut, in front of it; 0 if there is none near its end.
std::size_t last_cut(const Tokenizer& tokenizer, std::string_view text) {
  constexpr std::size_t kMargin = 256;  // so that what follows the cut is known
  constexpr int kTries = 64;
  std::size_t at = text.size() > kMargin ? text.size() - kMargin : 0;
  for (int i = 0; i < kTries && at > 0; ++i) {
    at = text.rfind('\n', at - 1);
    if (at == std::string_view::npos) return 0;
    const auto before = static_cast<unsigned char>(at > 0 ? text[at - 1] : ' ');
    if (std::isalnum(before) != 0 && may_cut(tokenizer, text, at)) return at;
  }
  return 0;
}

class DataCommand {
 public:
  DataCommand(const DataArguments& arguments, const Console& console)
      : arguments_(arguments), console_(console) {}

  Result<void> run() {
    auto opened = open_tokenizer(arguments_.tokenizer);
    if (!opened) return opened.error();
    tokenizer_ = std::move(*opened);
    if (auto found = find_texts(); !found) return found;
    if (auto ready = open_shards(); !ready) return ready;
    for (const fs::path& text : texts_) {
      const bool lines = text.extension() == ".jsonl";
      if (auto done = lines ? encode_lines(text) : encode_file(text); !done) return done;
    }
    if (console_.live) console_.err << "\n";
    return finish();
  }

 private:
  Result<void> find_texts() {
    for (const std::string& given : arguments_.texts) {
      if (!fs::exists(given)) return invalid("text '" + given + "' does not exist");
      if (!fs::is_directory(given)) {
        if (!fs::is_regular_file(given)) {
          return invalid("text '" + given + "' is neither a file nor a folder");
        }
        if (holds_nul(given)) return invalid("'" + given + "' is not text: it holds a NUL byte");
        texts_.emplace_back(given);
        continue;
      }
      auto files = text_files(given);
      if (!files) return files.error();
      for (const fs::path& file : *files) {
        if (!holds_nul(file)) texts_.push_back(file);
      }
    }
    for (const fs::path& text : texts_) bytes_ += static_cast<std::int64_t>(fs::file_size(text));
    if (bytes_ == 0) return invalid("there is no text in what was given");
    return {};
  }

  /// Looks at the beginning, where files that are not text have one.
  static bool holds_nul(const fs::path& path) {
    std::string begin(1 << 16, ' ');
    open_file(path.string()).read(begin.data(), static_cast<std::streamsize>(1 << 16));
    return begin.find('\0') != std::string::npos;
  }

  Result<void> open_shards() {
    const std::int64_t vocabulary = tokenizer_->vocabulary();
    std::size_t width = vocabulary > 65536 ? 4 : 2;
    if (arguments_.dtype == "uint16" && width == 4) {
      return invalid("the tokenizer has " + std::to_string(vocabulary) +
                     " tokens, of which uint16 holds 65536: leave out --dtype");
    }
    if (arguments_.dtype == "uint32") width = 4;
    dtype_ = width == 2 ? "uint16" : "uint32";
    fs::path out(arguments_.out);
    if (out.extension() != ".bin") {
      return invalid("--out '" + arguments_.out + "' must end in .bin, by which shards are known");
    }
    std::error_code ignored;
    if (out.has_parent_path()) fs::create_directories(out.parent_path(), ignored);
    paths_ = {out.string()};
    if (arguments_.validation > 0) {
      paths_.push_back((out.parent_path() / (out.stem().string() + "-validation.bin")).string());
    }
    for (const std::string& path : paths_) {
      auto shard = ShardWriter::create(path, width);
      if (!shard) return shard.error();
      shards_.push_back(std::move(*shard));
    }
    split_ = static_cast<std::int64_t>(static_cast<double>(bytes_) * (1 - arguments_.validation));
    return {};
  }

  /// The shard of what is read at present: the last part of all text is for validation.
  ShardWriter& shard() { return shards_[shards_.size() > 1 && done_ >= split_ ? 1 : 0]; }

  Result<void> encode_file(const fs::path& path) {
    std::ifstream file = open_file(path.string());
    std::string text;
    for (bool more = true; more || !text.empty();) {
      if (more) {
        const std::size_t held = text.size();
        text.resize(held + kTextBlock);
        file.read(text.data() + held, static_cast<std::streamsize>(kTextBlock));
        text.resize(held + to_size(file.gcount()));
        more = file.good();
        if (file.bad()) return invalid("cannot read '" + path.string() + "'");
      }
      const std::size_t cut = end_of_part(text, more);
      if (cut == 0) continue;  // what has no place to cut is read on
      const auto ids = tokenizer_->encode(std::string_view(text).substr(0, cut));
      if (auto wrote = shard().append(ids); !wrote) return wrote;
      done_ += static_cast<std::int64_t>(cut);
      text.erase(0, cut);
      show();
    }
    return end_text(shard());
  }

  /// JSON lines: every line is an object with a text, which ends with the line.
  Result<void> encode_lines(const fs::path& path) {
    std::ifstream file = open_file(path.string());
    std::string line;
    for (std::int64_t number = 1; std::getline(file, line); ++number) {
      ShardWriter& to = shard();  // a text lies in one shard as a whole
      done_ += static_cast<std::int64_t>(line.size()) + 1;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const auto object = nests_too_deep(line)
                              ? nlohmann::json()
                              : nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      const auto at = path.string() + ":" + std::to_string(number) + ": ";
      if (!object.is_object()) return invalid(at + "is no JSON object");
      const auto text = object.find(arguments_.field);
      if (text == object.end() || !text->is_string()) {
        std::string keys;
        for (const auto& [key, value] : object.items()) keys += (keys.empty() ? "" : ", ") + key;
        return invalid(at + "has no text under '" + arguments_.field + "', only " +
                       (keys.empty() ? "nothing" : keys) + ": name its key with --field");
      }
      const auto ids = tokenizer_->encode(text->get_ref<const std::string&>());
      if (auto wrote = to.append(ids); !wrote) return wrote;
      if (auto ended = end_text(to); !ended) return ended;
      show();
    }
    if (file.bad()) return invalid("cannot read '" + path.string() + "'");
    return {};
  }

  Result<void> end_text(ShardWriter& to) const {
    const std::int32_t end = tokenizer_->end();
    return end < 0 ? Result<void>{} : to.append({&end, 1});
  }

  /// How much of a text is encoded next; 0 if what follows must be known first.
  std::size_t end_of_part(std::string_view text, bool more) const {
    const std::int64_t left = split_ - done_;  // of what is for training
    if (shards_.size() > 1 && left > 0 && to_size(left) <= text.size()) {
      std::size_t cut = to_size(left);
      while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) ++cut;
      return cut;
    }
    return more ? last_cut(*tokenizer_, text) : text.size();
  }

  void show() {
    using Seconds = std::chrono::duration<double>;
    if (!console_.live) return;
    const double spent = Seconds(std::chrono::steady_clock::now() - begin_).count();
    const double share = static_cast<double>(done_) / static_cast<double>(bytes_);
    console_.err << fmt::format("\r{:3.0f} %, {:.1f} MB/s, {:.0f} s left ", 100 * share,
                                static_cast<double>(done_) / 1e6 / std::max(spent, 1e-9),
                                spent / std::max(share, 1e-9) * (1 - share))
                 << std::flush;
  }

  Result<void> finish() {
    nlohmann::ordered_json json = {{"texts", texts_.size()},
                                   {"bytes", bytes_},
                                   {"vocabulary", tokenizer_->vocabulary()},
                                   {"dtype", dtype_},
                                   {"shards", nlohmann::ordered_json::array()}};
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      if (auto finished = shards_[i].finish(); !finished) return finished;
      json["shards"].push_back({{"path", paths_[i]}, {"tokens", shards_[i].size()}});
      if (!arguments_.json) {
        console_.out << paths_[i] << ": " << shards_[i].size() << " tokens\n";
      }
    }
    if (arguments_.json) {
      console_.out << json_text(json);
    } else {
      console_.out << texts_.size() << " texts of " << bytes_ << " bytes, " << dtype_
                   << ", for model.vocab = " << tokenizer_->vocabulary() << " or more\n";
    }
    return {};
  }

  const DataArguments& arguments_;
  const Console& console_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<fs::path> texts_;
  std::int64_t bytes_ = 0, done_ = 0;  // of all texts
  std::int64_t split_ = 0;             // first byte that is for validation
  const char* dtype_ = "";
  std::vector<std::string> paths_;
  std::vector<ShardWriter> shards_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

int data_command(const DataArguments& arguments, const Console& console) {
  const auto done = DataCommand(arguments, console).run();
  return done ? 0 : report_error(console, done.error());
}

}  // namespace lockstep
