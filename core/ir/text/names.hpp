// Names: how names are written in the program text, shared by its printer and its parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {
struct Program;
}

namespace lockstep::text {

inline constexpr std::string_view kMagic = "lockstep_program";
inline constexpr int kFormatVersion = 2;

/// A name needs no quotes if it is a letter or '_', then letters, digits, '_' and '.'.
constexpr bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_name_char(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9') || c == '.';
}

/// The number as 16 hexadecimal digits.
inline std::string hexadecimal(std::uint64_t number) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4) text[i] = "0123456789abcdef"[number & 15U];
  return text;
}

/// A dimension or scalar of a kernel as its row names it: "[name]" if it is in the text only where
/// it is not 0.
struct NumberName {
  std::string_view name;
  bool optional = false;
  explicit constexpr NumberName(std::string_view in_row)
      : name(in_row), optional(in_row.starts_with('[')) {
    if (optional) name = name.substr(1, name.size() - 2);
  }
};

/// The names of all kinds of kernels, in their order.
std::vector<std::string> kernel_names();

/// The text of a program without its lists of buffers and ops.
std::string print_without_lists(const Program& program);

/// The names of one table, with the index of each. A name that occurs twice is ambiguous, and its
/// rows are referred to by their indices ("@3").
class NameTable {
 public:
  static constexpr int kNone = -1;
  static constexpr int kAmbiguous = -2;
  void add(std::string_view name) {
    const auto [at, inserted] = index_.try_emplace(std::string(name), size());
    if (!inserted) at->second = kAmbiguous;
    names_.emplace_back(name);
  }
  int find(const std::string& name) const {
    const auto at = index_.find(name);
    return at == index_.end() ? kNone : at->second;
  }
  int size() const { return static_cast<int>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::unordered_map<std::string, int> index_;
  std::vector<std::string> names_;
};

}  // namespace lockstep::text
