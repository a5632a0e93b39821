// Compares docs/refused.md with the sources: under "<!--refused core/a.cpp-->" stands every message
// by which this file refuses a combination, with "…" for values. LOCKSTEP_UPDATE_DOCS=1
// (scripts/docs-figures) writes the messages into the page.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = LOCKSTEP_SOURCE_DIR;

/// Files whose refusals the page leaves out: their beginnings, by the kinds that it names.
const std::vector<std::string> kLeftOut = {
    // what this binary or machine lacks
    "api/", "backends/backends.cpp", "backends/cuda/toolkit/", "backends/cuda/driver.hpp",
    "backends/mpi/", "core/trace/kineto/", "cli/calibrate_command.cpp",
    // files of other tools
    "core/weights/", "core/tokenizer/", "core/checkpoint/", "core/hugging_face/",
    "cli/model_source.cpp",
    // guards of the library's interfaces, which no scenario reaches
    "core/run/device.hpp", "core/run/backend.hpp", "core/run/state_transfer.cpp",
    "core/generate/decoder.cpp", "core/scenario/edit_text.cpp", "backends/local/collectives.cpp",
    // no refusals: what becomes of them
    "core/base/result", "core/plan/best_first.cpp", "cli/console.cpp",
    "core/spec/validate/faults.hpp"};

/// The end of the expression at `at`: a ',', ';' or closing bracket that is not inside of it.
std::size_t end_of_expression(const std::string& text, std::size_t at) {
  for (int depth = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      for (++at; text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
    } else if (c == '(' || c == '{' || c == '[') {
      ++depth;
    } else if (c == ')' || c == '}' || c == ']') {
      if (depth-- == 0) break;
    } else if (depth == 0 && (c == ',' || c == ';')) {
      break;
    }
  }
  return at;
}

/// The expressions of a list that begins at `at` and ends with a bracket.
std::vector<std::string> arguments(const std::string& text, std::size_t at) {
  std::vector<std::string> found;
  for (;; ++at) {
    const std::size_t end = end_of_expression(text, at);
    found.push_back(text.substr(at, end - at));
    if (end >= text.size() || text[end] != ',') return found;
    at = end;
  }
}

/// An expression's text: literals, variables that `before` defines, and "…" for other values.
std::string value_of(const std::string& expression, const std::string& before) {
  std::string value;
  const auto append = [&](const std::string& part) {
    const std::string dots = "…";
    if (part != dots || !value.ends_with(dots)) value += part;
  };
  const std::regex token(R"re("((?:[^"\\]|\\.)*)"|[A-Za-z_][\w.:]*(\([^"]*?\))*|\?|.)re");
  const std::string text = std::regex_replace(expression, std::regex(R"(\s+)"), " ");
  for (std::sregex_iterator at(text.begin(), text.end(), token), end; at != end; ++at) {
    const std::string word = at->str();
    if (word[0] == '"') {
      append(std::regex_replace((*at)[1].str(), std::regex(R"(\\")"), "\""));
    } else if (word == ":") {
      value += " or ";
    } else if (word == "?") {
      value.clear();  // what decides between two literals
    } else if (std::isalpha(static_cast<unsigned char>(word[0])) != 0 && word != "std::string") {
      const std::size_t defined = before.rfind(" " + word + " = ");
      const std::size_t begin = defined + word.size() + 4;
      append(defined == std::string::npos
                 ? "…"
                 : value_of(before.substr(begin, end_of_expression(before, begin) - begin),
                            before.substr(0, defined)));
    }
  }
  return value;
}

/// The refusals of a source, as rows of the page, in their order.
std::vector<std::string> refusals(const std::string& source) {
  std::vector<std::string> rows;
  const std::regex call(R"((faults\.refuse|unsupported)\((?!const )|ErrorKind::Unsupported\b)");
  for (std::sregex_iterator at(source.begin(), source.end(), call), end; at != end; ++at) {
    const auto position = static_cast<std::size_t>(at->position());
    const std::size_t end_of_another = source.rfind("\n}\n", position);
    const std::size_t function = end_of_another == std::string::npos ? 0 : end_of_another;
    const std::string before = source.substr(function, position - function);
    std::string key, message;
    if (at->str() == "faults.refuse(") {
      const auto given = arguments(source, position + at->str().size());
      key = value_of(given.at(0), before);
      message = value_of(given.at(1), before);
    } else if (at->str() == "unsupported(") {
      message = value_of(arguments(source, position + at->str().size()).at(0), before);
    } else if (source[position - 1] == '{') {
      message = value_of(arguments(source, position).at(1), before);
    } else {  // the last argument of a call, whose message stands before it
      const std::size_t statement = source.find_last_of(";{}", position) + 1;
      const auto given = arguments(source, source.find('(', statement) + 1);
      message = value_of(given.at(given.size() - 2), before);
    }
    if (message.find(' ') == std::string::npos) continue;  // a helper, which is told the message
    const bool known = key.find('.') != std::string::npos && !key.ends_with("…");
    const std::string row = "- " + (known ? "`" + key + "`: " : "") + message;
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
  }
  return rows;
}

/// The page with the rows that its files have now.
std::string rendered(const std::string& page, std::vector<std::string>& files) {
  std::istringstream in(page);
  std::string out;
  bool rows = false;
  for (std::string line; std::getline(in, line);) {
    if (rows && line.starts_with("- ")) continue;
    rows = line.starts_with("<!--refused ");
    out += line + "\n";
    if (!rows) continue;
    files.push_back(line.substr(12, line.find("-->") - 12));
    for (const std::string& row : refusals(read_bytes((kRoot / files.back()).string()))) {
      out += row + "\n";
    }
    rows = true;
  }
  return out;
}

}  // namespace

TEST_CASE("docs/refused.md has every refusal of the sources in their words", "[docs]") {
  const fs::path path = kRoot / "docs/refused.md";
  const std::string page = read_bytes(path.string());
  std::vector<std::string> shown;
  const std::string now = rendered(page, shown);
  if (std::getenv("LOCKSTEP_UPDATE_DOCS") != nullptr) return write_bytes(path.string(), now);
  CHECK((page == now));  // scripts/docs-figures writes it

  std::vector<std::string> missing;
  for (const char* folder : {"api", "backends", "cli", "core", "gui", "python"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), kRoot).string();
      if (!std::regex_search(name, std::regex(R"(\.(cpp|cu)$|\.hpp$)"))) continue;
      const bool left_out = std::any_of(kLeftOut.begin(), kLeftOut.end(),
                                        [&](const auto& begin) { return name.starts_with(begin); });
      if (left_out || std::find(shown.begin(), shown.end(), name) != shown.end()) continue;
      if (!refusals(read_bytes(entry.path().string())).empty()) missing.push_back(name);
    }
  }
  CHECK(missing == std::vector<std::string>{});
}

TEST_CASE("a refusal is read from a source with its key, variables and values", "[docs]") {
  const std::string source =
      "void f() {\n  const std::string key = \"a.b\", given = \"b=\" + std::to_string(b);\n"
      "  faults.refuse(key, given + \" and \"\n                \"(\\\"c\\\"): \" + name(x, y) + "
      "\" at most\");\n"
      "  faults.add(key, given + \" is negative\");\n"
      "  faults.refuse(one ? \"a.c\" : \"a.d\", \"no c, no d\");\n}\n"
      "Error g() {\n  return Error{ErrorKind::Unsupported, \"backend '\" + key + \"' has none\", "
      "{}};\n}\n"
      "void h() {\n  add(at(1), \"too long: \" + std::to_string(n), ErrorKind::Unsupported);\n}\n";
  CHECK(refusals(source) == std::vector<std::string>{"- `a.b`: b=… and (\"c\"): … at most",
                                                     "- `a.c or a.d`: no c, no d",
                                                     "- backend '…' has none", "- too long: …"});
}
