#pragma once

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Writes sections and keys of a scenario file, as a user would.
class ScenarioText {
 public:
  void section(std::string_view name) { text_ += "[" + std::string(name) + "]\n"; }
  void key(std::string_view name, std::string_view word) {
    line(name, "\"" + std::string(word) + "\"");
  }
  void key(std::string_view name, long value) { line(name, std::to_string(value)); }
  /// Nothing of a value that is not known.
  void key(std::string_view name, std::optional<long> value) {
    if (value) key(name, *value);
  }
  void flag(std::string_view name, bool value) { line(name, value ? "true" : "false"); }
  void number(std::string_view name, double value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    std::string text(digits.data(), end);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    line(name, text);
  }
  void list(std::string_view name, const std::vector<long>& values) {
    std::string text;
    for (const long value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
    line(name, "[" + text + "]");
  }
  const std::string& text() const { return text_; }

 private:
  void line(std::string_view name, std::string_view value) {
    text_ += std::string(name) + " = " + std::string(value) + "\n";
  }
  std::string text_;
};

}  // namespace lockstep
