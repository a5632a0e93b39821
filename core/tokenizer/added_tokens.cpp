#include "core/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/tokenizer/reading.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

void read_template(const Json& json, TokensAround& around) {
  if (!json.contains("single") || !json["single"].is_array()) return;
  bool text_seen = false;
  for (const Json& part : json["single"]) {
    if (part.contains("Sequence")) text_seen = true;
    if (!part.contains("SpecialToken")) continue;
    const std::string name = part["SpecialToken"].value("id", std::string());
    const Json tokens = json.value("special_tokens", Json::object());
    if (!tokens.contains(name) || !tokens[name].contains("ids")) continue;
    for (const Json& id : tokens[name]["ids"]) {
      if (!is_token_id(id)) continue;
      (text_seen ? around.after : around.before).push_back(id.get<std::int32_t>());
    }
  }
}

}  // namespace

Result<void> AddedTokens::read(const Json& list) {
  if (!list.is_array()) return {};
  for (const Json& token : list) {
    if (!token.is_object() || !token.contains("content") || !token["content"].is_string() ||
        !token.contains("id") || !is_token_id(token["id"])) {
      return damaged_tokenizer("an added token has no 'content' and 'id', a number of a token");
    }
    const Token made{token["content"], token["id"], token.value("special", false),
                     token.value("lstrip", false), token.value("rstrip", false)};
    if (made.content.empty()) continue;
    all_.push_back(made);
    std::vector<Token>& same = by_first_byte_[made.content[0]];
    same.push_back(made);
    std::stable_sort(same.begin(), same.end(), [](const Token& a, const Token& b) {
      return a.content.size() > b.content.size();
    });
  }
  return {};
}

const AddedTokens::Token* AddedTokens::token_at(const std::string& text, std::size_t at) const {
  const auto candidates = by_first_byte_.find(text[at]);
  if (candidates == by_first_byte_.end()) return nullptr;
  for (const Token& token : candidates->second) {  // the longest first
    if (text.compare(at, token.content.size(), token.content) == 0) return &token;
  }
  return nullptr;
}

void AddedTokens::split(const std::string& text, const std::function<void(std::string)>& on_text,
                        const std::function<void(std::int32_t)>& on_token) const {
  std::size_t at = 0, begin = 0;
  while (at < text.size()) {
    const Token* found = token_at(text, at);
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
    on_text(text.substr(begin, last - begin));
    on_token(found->id);
    at = begin = next;
  }
  on_text(text.substr(begin));
}

TokensAround tokens_around(const Json& post_processor) {
  TokensAround around;
  if (!post_processor.is_object()) return around;
  const std::string type = post_processor.value("type", std::string());
  if (type == "TemplateProcessing") read_template(post_processor, around);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto note = [&](const char* key, std::vector<std::int32_t>& to) {
      const Json pair = post_processor.value(key, Json());
      if (pair.is_array() && pair.size() == 2 && is_token_id(pair[1])) {
        to.push_back(pair[1].get<std::int32_t>());
      }
    };
    note("cls", around.before);
    note("sep", around.after);
  }
  if (type == "Sequence" && post_processor.contains("processors")) {
    for (const Json& step : post_processor["processors"]) {
      const TokensAround part = tokens_around(step);
      around.before.insert(around.before.end(), part.before.begin(), part.before.end());
      around.after.insert(around.after.end(), part.after.begin(), part.after.end());
    }
  }
  return around;
}

}  // namespace lockstep
