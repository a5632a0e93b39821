// Added tokens: tokens that tokenizer.json has beside its model, which are found in a text before
// anything else, and those that stand around a text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

class AddedTokens {
 public:
  struct Token {
    std::string content;
    std::int32_t id = -1;
    bool special = false, strips_left = false, strips_right = false;
  };

  /// Reads "added_tokens"; what is no list has none. Error Parse for an entry that is no token.
  Result<void> read(const nlohmann::json& list);
  /// Those with content, in the order of the list.
  const std::vector<Token>& all() const { return all_; }

  /// Calls on_token() for each added token of a text, the longest first where several begin, and
  /// on_text() for what lies before, between and behind them, which may be empty.
  void split(const std::string& text, const std::function<void(std::string)>& on_text,
             const std::function<void(std::int32_t)>& on_token) const;

 private:
  const Token* token_at(const std::string& text, std::size_t at) const;
  std::vector<Token> all_;
  std::map<char, std::vector<Token>> by_first_byte_;
};

/// The special tokens before and behind a text, by the steps of "post_processor".
struct TokensAround {
  std::vector<std::int32_t> before, after;
};
TokensAround tokens_around(const nlohmann::json& post_processor);

}  // namespace lockstep
