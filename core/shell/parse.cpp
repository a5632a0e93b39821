#include <algorithm>
#include <optional>
#include <utility>

#include "core/shell/syntax.hpp"

namespace lockstep::shell {
namespace {

using Kind = Node::Kind;

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Result<Node> parse() {
    Node all = list({}, 0);
    if (!fault_ && at_ < text_.size()) fail("a command is expected, and not this");
    if (fault_) return *fault_;
    return all;
  }

 private:
  void fail(const std::string& what, int line = 0) {
    if (fault_) return;
    SourceSpan where{file_, line > 0 ? line : line_of(at_), line > 0 ? 1 : column_of(at_)};
    fault_ = Error{ErrorKind::Parse, "this is no shell script: " + what, std::move(where)};
  }
  int line_of(std::size_t at) {
    if (at < counted_) counted_ = 0, lines_ = 1;
    lines_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                          text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    counted_ = at;
    return lines_;
  }
  int column_of(std::size_t at) const {
    const std::size_t before = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
    return static_cast<int>(before == std::string_view::npos ? at : at - before - 1) + 1;
  }

  bool at_end() const { return at_ >= text_.size() || fault_.has_value(); }
  char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(now())) {
        ++at_;
      } else if (starts("\\\n") || starts("\\\r\n")) {
        at_ += now() == '\\' && text_[at_ + 1] == '\r' ? 3 : 2;
      } else if (now() == '#' &&
                 (at_ == 0 || is_blank(text_[at_ - 1]) ||
                  std::string_view("\n;&|()").find(text_[at_ - 1]) != std::string_view::npos)) {
        at_ = std::min(text_.size(), text_.find('\n', at_));
      } else {
        return;
      }
    }
  }
  /// Over blanks, ends of lines and comments.
  void skip_lines() {
    skip_blanks();
    while (now() == '\n' && at_ < text_.size()) {
      ++at_;
      skip_blanks();
    }
  }

  bool is_word_end(char c) const {
    return is_blank(c) || std::string_view("\n;&|<>()").find(c) != std::string_view::npos;
  }
  RawWord word() {
    RawWord word{"", line_of(at_)};
    while (at_ < text_.size() && !is_word_end(now())) {
      if (starts("\\\n")) {
        at_ += 2;
        continue;
      }
      const std::size_t end = end_of_unit(text_, at_);
      if (end == std::string_view::npos) {
        fail("quotes and expansions lie deeper in each other than " + std::to_string(kDeepest));
        return word;
      }
      const char c = now();
      const bool open = (c == '"' || c == '\'') && (end - at_ < 2 || text_[end - 1] != c);
      if (open) fail("this quote is never closed");
      if (c == '$' && end > at_ + 1 && end == text_.size() &&
          ((text_[at_ + 1] == '(' && text_[end - 1] != ')') ||
           (text_[at_ + 1] == '{' && text_[end - 1] != '}'))) {
        fail("this bracket is never closed");
      }
      word.text += text_.substr(at_, end - at_);
      at_ = end;
    }
    return word;
  }
  /// The word that begins here, which is not taken.
  std::string_view peek() {
    std::size_t end = at_;
    while (end < text_.size() && !is_word_end(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool takes(std::string_view reserved) {
    if (peek() != reserved) return false;
    at_ += reserved.size();
    return true;
  }
  void expect(std::string_view reserved, const char* what, int line) {
    skip_lines();
    if (!takes(reserved)) {
      fail(std::string(what) + " of line " + std::to_string(line) +
               " is never closed: " + std::string(reserved) + " is expected",
           line);
    }
  }

  Node list(const std::vector<std::string_view>& stops, int depth) {
    Node all{.kind = Kind::List, .line = line_of(at_)};
    if (depth > kDeepest) {
      fail("commands lie deeper in each other than " + std::to_string(kDeepest));
      return all;
    }
    while (!at_end()) {
      skip_lines();
      if (at_ >= text_.size() || now() == ')' || starts(";;") || starts(";&")) break;
      const std::string_view next = peek();
      if (std::find(stops.begin(), stops.end(), next) != stops.end()) break;
      const std::size_t before = at_;
      all.children.push_back(and_or(depth + 1));
      skip_blanks();
      if (now() == '&' && !starts("&&")) ++at_;
      if (now() == ';' && !starts(";;") && !starts(";&")) ++at_;
      if (at_ == before && !fault_) fail("a command is expected");
    }
    return all;
  }

  Node and_or(int depth) {
    Node left = pipeline(depth);
    while (!at_end()) {
      skip_blanks();
      const bool both = starts("&&");
      if (!both && !starts("||")) return left;
      at_ += 2;
      skip_lines();
      Node right = pipeline(depth);
      Node joined{.kind = both ? Kind::And : Kind::Or, .line = left.line};
      joined.text = left.text;
      joined.children.push_back(std::move(left));
      joined.children.push_back(std::move(right));
      left = std::move(joined);
      if (++joined_ > 10'000) fail("there are too many && and ||");
    }
    return left;
  }

  Node pipeline(int depth) {
    skip_blanks();
    const int line = line_of(at_);
    const std::size_t begin = at_;
    if (takes("!")) {
      Node negated{.kind = Kind::Not, .line = line};
      if (depth > kDeepest) {
        fail("commands lie too deep in each other");
        return negated;
      }
      negated.children.push_back(pipeline(depth + 1));
      negated.text = std::string(text_.substr(begin, at_ - begin));
      return negated;
    }
    std::vector<Node> parts;
    parts.push_back(command(depth));
    skip_blanks();
    while (!at_end() && now() == '|' && !starts("||")) {
      at_ += starts("|&") ? 2 : 1;
      skip_lines();
      parts.push_back(command(depth));
      skip_blanks();
    }
    if (parts.size() == 1) return std::move(parts.front());
    return {.kind = Kind::Pipeline, .line = line, .children = std::move(parts)};
  }

  Node command(int depth) {
    skip_blanks();
    Node node{.line = line_of(at_)};
    const std::size_t begin = at_;
    if (depth > kDeepest) {
      fail("commands lie deeper in each other than " + std::to_string(kDeepest));
      return node;
    }
    if (starts("((")) {
      node.kind = Kind::Arithmetic;
      const std::size_t end = end_of_nested(text_, at_ + 2, '(', ')');
      node.name =
          std::string(text_.substr(at_ + 2, end == std::string_view::npos ? end : end - at_ - 2));
      at_ = end == std::string_view::npos ? text_.size() : std::min(text_.size(), end + 2);
    } else if (now() == '(') {
      ++at_;
      node.kind = Kind::Subshell;
      node.children.push_back(list({}, depth + 1));
      close(')', node.line);
    } else if (takes("{")) {
      node.kind = Kind::Group;
      node.children.push_back(list({"}"}, depth + 1));
      expect("}", "the {", node.line);
    } else if (takes("[[")) {
      node.kind = Kind::Test;
      test(node);
    } else if (takes("if")) {
      if_command(node, depth);
    } else if (takes("for") || takes("select")) {
      for_command(node, depth);
    } else if (const bool until = peek() == "until"; takes("while") || takes("until")) {
      node.kind = Kind::While;
      node.negated = until;
      node.children.push_back(list({"do"}, depth + 1));
      expect("do", "the loop", node.line);
      node.children.push_back(list({"done"}, depth + 1));
      expect("done", "the loop", node.line);
    } else if (takes("case")) {
      case_command(node, depth);
    } else if (takes("function")) {
      skip_blanks();
      function(node, word().text, depth);
    } else {
      simple(node, depth);
    }
    std::size_t end = at_;
    while (end > begin && (is_blank(text_[end - 1]) || text_[end - 1] == '\n')) --end;
    if (node.text.empty()) node.text = std::string(text_.substr(begin, end - begin));
    redirections(node);
    return node;
  }

  void close(char bracket, int line) {
    skip_lines();
    if (now() != bracket || at_ >= text_.size()) {
      fail("the bracket of line " + std::to_string(line) + " is never closed", line);
    } else {
      ++at_;
    }
  }

  void test(Node& node) {
    while (!at_end()) {
      skip_lines();
      if (takes("]]")) return;
      RawWord next{"", line_of(at_)};
      if (starts("&&") || starts("||")) {
        next.text = text_.substr(at_, 2);
        at_ += 2;
      } else if (std::string_view("()<>|;&").find(now()) != std::string_view::npos) {
        next.text = now();
        ++at_;
      } else {
        next = word();
      }
      node.words.push_back(std::move(next));
    }
    fail("the [[ of line " + std::to_string(node.line) + " is never closed: ]] is expected",
         node.line);
  }

  void if_command(Node& node, int depth) {
    node.kind = Kind::If;
    while (!at_end()) {
      node.children.push_back(list({"then"}, depth + 1));
      expect("then", "the if", node.line);
      node.children.push_back(list({"elif", "else", "fi"}, depth + 1));
      skip_lines();
      if (takes("elif")) continue;
      if (takes("else")) node.children.push_back(list({"fi"}, depth + 1));
      break;
    }
    expect("fi", "the if", node.line);
  }

  void for_command(Node& node, int depth) {
    node.kind = Kind::For;
    skip_blanks();
    if (starts("((")) {  // counts; its body may run
      const std::size_t end = end_of_nested(text_, at_ + 2, '(', ')');
      at_ = end == std::string_view::npos ? text_.size() : std::min(text_.size(), end + 2);
    } else {
      node.name = word().text;
      skip_lines();
      if (takes("in")) {
        skip_blanks();
        while (!at_end() && now() != '\n' && now() != ';') {
          const std::size_t before = at_;
          node.words.push_back(word());
          skip_blanks();
          if (at_ == before) break;
        }
      } else {
        node.words.push_back({"\"$@\"", node.line});
      }
    }
    skip_blanks();
    if (now() == ';') ++at_;
    skip_lines();
    if (takes("{")) {
      node.children.push_back(list({"}"}, depth + 1));
      return expect("}", "the loop", node.line);
    }
    expect("do", "the loop", node.line);
    node.children.push_back(list({"done"}, depth + 1));
    expect("done", "the loop", node.line);
  }

  void case_command(Node& node, int depth) {
    node.kind = Kind::Case;
    skip_blanks();
    node.words.push_back(word());
    skip_lines();
    if (!takes("in")) return fail("in is expected behind case", node.line);
    while (!at_end()) {
      skip_lines();
      if (takes("esac")) return;
      CaseItem item;
      if (now() == '(') ++at_;
      while (!at_end()) {
        skip_blanks();
        item.patterns.push_back(word());
        skip_blanks();
        if (now() != '|') break;
        ++at_;
      }
      close(')', node.line);
      item.body.push_back(list({"esac"}, depth + 1));
      for (const std::string_view end : {";;&", ";;", ";&"}) {
        if (!starts(end)) continue;
        at_ += end.size();
        break;
      }
      node.cases.push_back(std::move(item));
    }
    fail("the case of line " + std::to_string(node.line) + " is never closed: esac is expected",
         node.line);
  }

  void function(Node& node, const std::string& name, int depth) {
    node.kind = Kind::Function;
    node.name = name;
    skip_blanks();
    if (now() == '(') {
      ++at_;
      close(')', node.line);
    }
    skip_lines();
    node.children.push_back(command(depth + 1));
  }

  /// The length of NAME, NAME[...] before = or +=; 0 if no assignment begins here.
  std::size_t assigned() const {
    std::size_t end = at_;
    if (end >= text_.size() || !is_name_start(text_[end])) return 0;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    if (end < text_.size() && text_[end] == '[') {
      end = text_.find_first_of("]\n", end);
      if (end == std::string_view::npos || text_[end] != ']') return 0;
      ++end;
    }
    const std::string_view rest = text_.substr(end);
    return rest.starts_with("=") || rest.starts_with("+=") ? end - at_ : 0;
  }

  Assignment assignment() {
    Assignment a;
    const std::size_t length = assigned();
    a.name = std::string(text_.substr(at_, length));
    if (const std::size_t bracket = a.name.find('['); bracket != std::string::npos) {
      a.index = a.name.substr(bracket + 1, a.name.size() - bracket - 2);
      a.name.resize(bracket);
    }
    at_ += length;
    a.appends = now() == '+';
    at_ += a.appends ? 2 : 1;
    if (now() != '(') {
      a.value = word();
      return a;
    }
    const int line = line_of(at_);
    ++at_;
    a.is_array = true;
    while (!at_end()) {
      skip_lines();
      if (now() == ')') break;
      const std::size_t before = at_;
      a.values.push_back(word());
      if (at_ == before && !fault_) fail("a word is expected in this list");
    }
    close(')', line);
    return a;
  }

  void simple(Node& node, int depth) {
    node.kind = Kind::Simple;
    while (!at_end()) {
      skip_blanks();
      redirections(node);
      if (at_end() || is_word_end(now())) {
        // Process substitution in the place of a file's name.
        if (now() == '(' && node.words.size() == 1 && node.assignments.empty()) {
          return function(node, std::exchange(node.words, {}).front().text, depth);
        }
        return;
      }
      const bool declares =
          !node.words.empty() &&
          (node.words.front().text == "export" || node.words.front().text == "local" ||
           node.words.front().text == "declare" || node.words.front().text == "readonly" ||
           node.words.front().text == "typeset");
      if ((node.words.empty() || declares) && assigned() > 0) {
        node.assignments.push_back(assignment());
      } else {
        node.words.push_back(word());
      }
    }
  }

  /// Files are neither read nor written; what a command reads from the script is kept.
  void redirections(Node& node) {
    while (!at_end()) {
      skip_blanks();
      std::size_t sign = at_;
      while (sign < text_.size() && text_[sign] >= '0' && text_[sign] <= '9') ++sign;
      if (text_.substr(sign).starts_with("&>")) ++sign;
      if (sign >= text_.size() || (text_[sign] != '<' && text_[sign] != '>')) return;
      const std::string_view rest = text_.substr(sign);
      if (rest.starts_with("<<<")) {
        at_ = sign + 3;
        skip_blanks();
        node.input = word().text;
        node.has_input = node.input_expands = true;
      } else if (rest.starts_with("<<")) {
        here_document(node, sign);
      } else if (rest.starts_with("<(") || rest.starts_with(">(")) {
        const std::size_t end = end_of_nested(text_, sign + 2, '(', ')');
        at_ = end == std::string_view::npos ? text_.size() : std::min(text_.size(), end + 1);
        node.words.push_back({"/dev/fd", line_of(sign)});
      } else {
        at_ = std::min(text_.size(), text_.find_first_not_of("<>&|", sign));
        skip_blanks();
        if (now() == '(') return;
        word();
      }
    }
  }

  void here_document(Node& node, std::size_t sign) {
    at_ = sign + 2;
    const bool strips = now() == '-';
    if (strips) ++at_;
    skip_blanks();
    std::string end = word().text;
    const bool quoted = end.find_first_of("\"'\\") != std::string::npos;
    std::erase_if(end, [](char c) { return c == '"' || c == '\'' || c == '\\'; });
    node.has_input = true;
    node.input_expands = !quoted;
    node.input.clear();
    // The text stands behind this line, wherever the command ends; or behind another such text.
    const std::size_t line_end = std::min(text_.size(), text_.find('\n', at_));
    const std::size_t begin = here_.first == line_end ? here_.second : line_end + 1;
    std::size_t next = begin;
    while (next < text_.size()) {
      const std::size_t line_ends = std::min(text_.size(), text_.find('\n', next));
      std::string_view line = text_.substr(next, line_ends - next);
      next = std::min(text_.size(), line_ends + 1);
      while (strips && line.starts_with('\t')) line.remove_prefix(1);
      if (line == end) break;
      node.input += std::string(line) + "\n";
    }
    here_ = {line_end, next};
    hide(begin, next);
  }
  /// Takes a here-document out of the text, whose lines keep their numbers.
  void hide(std::size_t begin, std::size_t end) {
    if (owned_.empty()) owned_ = std::string(text_);
    for (std::size_t i = begin; i < end && i < owned_.size(); ++i) {
      if (owned_[i] != '\n') owned_[i] = ' ';
    }
    text_ = owned_;
  }

  std::string_view text_;
  std::string owned_;
  const std::string& file_;
  std::size_t at_ = 0, counted_ = 0;
  int lines_ = 1, joined_ = 0;
  std::pair<std::size_t, std::size_t> here_{std::string::npos, 0};  // the last one: line, end
  std::optional<Error> fault_;
};

}  // namespace

Result<Node> parse(std::string_view text, const std::string& file) {
  return Parser(text, file).parse();
}

}  // namespace lockstep::shell
