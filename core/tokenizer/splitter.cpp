#include "core/tokenizer/splitter.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// The characters of the Unicode property White_Space, which \s means to Oniguruma. PCRE2's own \s
/// has U+180E, too.
constexpr const char* kSpaces =
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"
    "\\x{205F}\\x{3000}";

std::string with_spaces_spelled_out(const std::string& pattern) {
  std::string made;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        made += in_class ? kSpaces : std::string("[") + kSpaces + "]";
      } else if (next == 'S' && !in_class) {
        made += std::string("[^") + kSpaces + "]";
      } else {
        made += {c, next};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    made += c;
  }
  return made;
}

}  // namespace

struct Splitter::Expression {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  Behavior behavior = Behavior::Isolated;
  bool inverted = false;
  ~Expression() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

Splitter::Splitter(std::unique_ptr<Expression> expression) : expression_(std::move(expression)) {}
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;
Splitter::~Splitter() = default;

Result<Splitter> Splitter::make(const std::string& pattern, bool literal, Behavior behavior,
                                bool inverted) {
  const std::string text = literal ? pattern : with_spaces_spelled_out(pattern);
  const std::uint32_t options = PCRE2_UTF | PCRE2_UCP | (literal ? PCRE2_LITERAL : 0);
  int error = 0;
  std::size_t at = 0;
  auto made = std::make_unique<Expression>();
  made->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    literal ? options & ~std::uint32_t{PCRE2_UCP} : options, &error, &at, nullptr);
  if (made->code == nullptr) {
    char message[200];
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    return Error{ErrorKind::Parse, "the expression '" + pattern + "' is not understood: " + message,
                 std::nullopt};
  }
  pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE);  // without it, matching is slower
  made->match = pcre2_match_data_create_from_pattern(made->code, nullptr);
  made->behavior = behavior;
  made->inverted = inverted;
  return Splitter(std::move(made));
}

void Splitter::split(std::string_view text,
                     const std::function<void(std::string_view)>& piece) const {
  struct Part {
    std::string_view text;
    bool match;
  };
  std::vector<Part> parts;
  std::size_t at = 0, from = 0;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  while (from <= text.size() && pcre2_match(expression_->code, subject, text.size(), from,
                                            PCRE2_NO_UTF_CHECK, expression_->match, nullptr) > 0) {
    const std::size_t* const ends = pcre2_get_ovector_pointer(expression_->match);
    if (ends[1] <= ends[0]) {  // an empty match is none
      from = ends[1] + 1;
      while (from < text.size() && (text[from] & 0xc0) == 0x80) ++from;
      continue;
    }
    if (ends[0] > at) parts.push_back({text.substr(at, ends[0] - at), expression_->inverted});
    parts.push_back({text.substr(ends[0], ends[1] - ends[0]), !expression_->inverted});
    at = from = ends[1];
  }
  if (at < text.size()) parts.push_back({text.substr(at), expression_->inverted});

  // Neighbouring views are joined by their ends.
  const auto joined = [](std::string_view a, std::string_view b) {
    return std::string_view(a.data(), static_cast<std::size_t>(b.data() + b.size() - a.data()));
  };
  std::vector<Part> pieces;
  for (const Part& part : parts) {
    const bool after = !pieces.empty();
    const bool joins =
        after &&
        ((expression_->behavior == Behavior::MergedWithPrevious && part.match &&
          !pieces.back().match) ||
         (expression_->behavior == Behavior::MergedWithNext && !part.match &&
          pieces.back().match) ||
         (expression_->behavior == Behavior::Contiguous && part.match == pieces.back().match));
    if (joins) {
      pieces.back() = {joined(pieces.back().text, part.text), true};
    } else if (!(expression_->behavior == Behavior::Removed && part.match)) {
      pieces.push_back(part);
    }
  }
  for (const Part& part : pieces) piece(part.text);
}

std::string gpt2_pattern() {
  return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
}

}  // namespace lockstep
