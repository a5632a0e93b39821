// A tokenizer of GPT-2's kind with few tokens.
#pragma once

#include <string>
#include <vector>

#include "core/tokenizer/utf8.hpp"

namespace lockstep::test {

using Words = std::vector<std::string>;

/// GPT-2's alphabet in the order of bytes is tokens 0 … 255; then come these merges.
inline std::string small_gpt2(const Words& merges, const std::string& rest = "") {
  std::string vocab, list;
  int id = 0;
  for (unsigned b = 0; b < 256; ++b) {
    std::string symbol;
    const bool printable =
        (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
    static unsigned next = 0;
    if (b == 0) next = 256;
    append_utf8(symbol, printable ? b : next++);
    if (symbol == "\"" || symbol == "\\") symbol = "\\" + symbol;
    vocab += (id > 0 ? ",\"" : "\"") + symbol + "\":" + std::to_string(id);
    ++id;
  }
  for (const std::string& merge : merges) {
    std::string made = merge;
    made.erase(made.find(' '), 1);
    vocab += ",\"" + made + "\":" + std::to_string(id++);
    list += (list.empty() ? "\"" : ",\"") + merge + "\"";
  }
  return "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{" +
         vocab + "},\"merges\":[" + list + "]}" + rest + "}";
}

}  // namespace lockstep::test
