#include "gui/model/glossary.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "gui/model/run/look.hpp"
#include "gui/model/run/summary_model.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool has_term(const std::string& term) {
  static const std::string text = lower(std::string(glossary_text()));
  return text.find("\n### " + lower(term) + "\n") != std::string::npos;
}

TEST_CASE("the glossary has every entry of the legend", "[gui][model]") {
  CHECK_FALSE(has_term("a term that nobody uses"));
  CHECK(has_term("bubble"));
  for (int i = 0; i < kNumLooks; ++i) {
    const std::string name(long_name(static_cast<Look>(i)));
    INFO(name);
    CHECK(has_term(name));
  }
}

TEST_CASE("the glossary has the parts of a step that the summary draws", "[gui][model]") {
  for (const std::string_view name : kTimePartNames) {
    if (name == "Other") continue;  // a word of the language
    INFO(name);
    CHECK(has_term(std::string(name)));
  }
}

}  // namespace
}  // namespace lockstep::gui
