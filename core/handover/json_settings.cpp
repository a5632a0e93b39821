#include "core/handover/json_settings.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// Counts how much of a text the parser has read, which it does not tell.
class Counted {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  Counted(const char* at, std::size_t* read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  Counted& operator++() {
    ++at_;
    if (read_ != nullptr) ++*read_;
    return *this;
  }
  Counted operator++(int) {
    Counted before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Counted& other) const { return at_ == other.at_; }
  bool operator!=(const Counted& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* read_;
};

/// What the parser calls the place of a fault, and what is expected there.
struct Expectation {
  std::string_view context, expected;
};
constexpr std::array<Expectation, 5> kExpectations = {
    {{"object separator", "a colon and a value are expected"},
     {"object key", "a key in double quotes is expected"},
     {"object", "a comma or } is expected"},
     {"array", "a comma or ] is expected"},
     {"value", "a value is expected: a number, text in double quotes, true, false, null, [ or {"}}};

class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}
  std::size_t read_bytes = 0;  // by the parser
  std::optional<Error> fault;
  JsonSettings settings;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value, true); }
  bool number_unsigned(number_unsigned_t value) override { return add(value, true); }
  bool number_float(number_float_t value, const string_t&) override { return add(value, true); }
  bool string(string_t& value) override { return add(value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const std::size_t at = next_token();
    const std::string path = path_of(name);
    const auto before = settings.places.find(path);
    if (before != settings.places.end()) {
      fault = fault_at(at, "\"" + name + "\" stands twice in one object, first in line " +
                               std::to_string(before->second.line) + ": keep one of them");
      return false;
    }
    key_ = name;
    end_ = read_bytes;
    settings.places[path] = place_of(at);  // that of its value follows
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    const std::size_t at = next_token();
    const std::string found = token_at(at);
    const std::string_view what = e.what();
    const auto between = [&](std::string_view before, std::string_view after) {
      const std::size_t begin = what.find(before);
      if (begin == std::string_view::npos) return std::string_view();
      const std::string_view rest = what.substr(begin + before.size());
      return rest.substr(0, rest.find(after));
    };
    const std::string_view context = between("while parsing ", " - ");
    const std::string_view reason = between(" - ", ";");
    std::string expected = "the number is beyond the range of numbers";
    if (what.find("; expected end of input") != std::string_view::npos) {
      expected = "the end of the file is expected";
    } else if (reason.starts_with("invalid") && !reason.starts_with("invalid literal")) {
      expected = reason;  // what is wrong with a text or a number
    } else {
      for (const Expectation& row : kExpectations) {
        if (row.context == context) expected = row.expected;
      }
    }
    fault = fault_at(at, "this is not JSON: " + found + ": " + expected + hint(found));
    return false;
  }

 private:
  struct Open {
    Json value;
    std::string path;  // "" or "name."
    std::string key;   // of this value in the one around it
  };

  bool add(Json value, bool is_number = false) {
    note_place();
    // The parser has read the character behind a number, too, unless the text ends there.
    end_ = is_number && read_bytes < text_.size() ? read_bytes - 1 : read_bytes;
    put(std::move(value), key_);
    return true;
  }
  bool open(Json value) {
    constexpr std::size_t kDeepest = 64;  // names grow with every level
    if (open_.size() >= kDeepest) {
      fault = fault_at(next_token(), "more than " + std::to_string(kDeepest) +
                                         " objects and lists lie in each other here, and a "
                                         "configuration has a few");
      return false;
    }
    note_place();
    end_ = read_bytes;
    std::string path;
    if (!open_.empty()) {
      const Open& around = open_.back();
      // Objects of a list are told apart by their places in it.
      const bool listed = around.value.is_array();
      path = (listed ? around.path + std::to_string(around.value.size()) : path_of(key_)) + ".";
    }
    open_.push_back({std::move(value), std::move(path), key_});
    return true;
  }
  bool close() {
    end_ = read_bytes;
    Open done = std::move(open_.back());
    open_.pop_back();
    put(std::move(done.value), done.key);
    return true;
  }
  void put(Json value, const std::string& key) {
    if (open_.empty()) {
      settings.values = std::move(value);
    } else if (Json& around = open_.back().value; around.is_array()) {
      around.push_back(std::move(value));
    } else {
      around[key] = std::move(value);
    }
  }
  std::string path_of(const std::string& key) const {
    return (open_.empty() ? std::string() : open_.back().path) + key;
  }
  void note_place() {
    if (open_.empty() || open_.back().value.is_array()) return;
    settings.places[path_of(key_)] = place_of(next_token());
  }

  /// Where the first token begins behind those that were taken.
  std::size_t next_token() const {
    return std::min(text_.size(), text_.find_first_not_of(" \t\r\n,:", end_));
  }
  /// What stands there, as a person would name it.
  std::string token_at(std::size_t at) const {
    constexpr std::size_t kMost = 40;
    if (at >= text_.size()) return "the end of the file";
    const std::string_view rest = text_.substr(at, kMost);
    std::size_t length = 1;
    if (rest.front() == '"') {
      length = std::min(rest.find_first_of("\"\r\n", 1), rest.size() - 1) + 1;
    } else {
      const std::size_t word = rest.find_first_of(" \t\r\n,:[]{}\"");
      length = std::max<std::size_t>(1, std::min(word, rest.size()));
    }
    std::string token(rest.substr(0, length));
    std::erase_if(token, [](char c) { return c == '\r' || c == '\n'; });
    return token;
  }
  std::string hint(const std::string& found) const {
    if (found == "}" || found == "]") {
      const std::size_t before = text_.find_last_not_of(" \t\r\n", next_token() - 1);
      if (before != std::string_view::npos && text_[before] == ',') {
        return "; the comma before it is one too many";
      }
    }
    if (found.starts_with("/") || found.starts_with("#")) return "; JSON has no comments";
    if (found == "True" || found == "False" || found == "None") {
      return "; JSON writes true, false and null";
    }
    return "";
  }
  SourceSpan place_of(std::size_t at) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t last = before.rfind('\n');
    const std::size_t begin = last == std::string_view::npos ? 0 : last + 1;
    return {file_, static_cast<int>(line), static_cast<int>(at - begin) + 1};
  }
  Error fault_at(std::size_t at, std::string message) const {
    return {ErrorKind::Parse, std::move(message), place_of(at)};
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t end_ = 0;  // of the tokens that were taken
  std::string key_;
  std::vector<Open> open_;
};

}  // namespace

Result<JsonSettings> read_json_settings(std::string_view text, const std::string& file) {
  Reader reader(text, file);
  const bool read = Json::sax_parse(Counted(text.data(), &reader.read_bytes),
                                    Counted(text.data() + text.size(), nullptr), &reader);
  if (reader.fault) return *reader.fault;
  if (!read || !reader.settings.values.is_object()) {
    return Error{ErrorKind::Parse, "an object { ... } is expected", SourceSpan{file, 1, 1}};
  }
  return std::move(reader.settings);
}

}  // namespace lockstep
