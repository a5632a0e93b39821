// Splitter: cuts a text into the pieces of which byte pairs are never joined across, by the regular
// expression that belongs to a tokenizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace lockstep {

class Splitter {
 public:
  /// What becomes of a match: a piece of its own ("Isolated"), nothing ("Removed"), or a part of
  /// the piece before or after it. `matches_are_kept` is false if only what lies between matches
  /// makes pieces.
  enum class Behavior { Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous };

  /// Error Parse for an expression that PCRE2 does not understand. `pattern` is in the syntax of
  /// Oniguruma, which tokenizer.json uses; with `literal` it stands for itself.
  static Result<Splitter> make(const std::string& pattern, bool literal, Behavior behavior,
                               bool inverted);
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;
  ~Splitter();

  /// Calls piece() for each piece in turn. `text` must be valid UTF-8.
  void split(std::string_view text, const std::function<void(std::string_view)>& piece) const;

 private:
  struct Expression;
  explicit Splitter(std::unique_ptr<Expression> expression);
  std::unique_ptr<Expression> expression_;
};

/// The expression of GPT-2's encoder.py.
std::string gpt2_pattern();

}  // namespace lockstep
