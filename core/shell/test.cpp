// Conditions: what [ ... ], test and [[ ... ]] say of values that are known.
#include <fnmatch.h>

#include <algorithm>
#include <charconv>

#include "core/shell/evaluator.hpp"

namespace lockstep::shell {

class TestReader {
 public:
  TestReader(Evaluator& evaluator, const Words& words, bool doubled, int line, int depth)
      : evaluator_(evaluator), words_(words), doubled_(doubled), line_(line), depth_(depth) {}
  Truth read() {
    if (words_.empty()) return {Truth::Kind::No};
    Truth all = either(0);
    return at_ == words_.size() ? all : Truth{};
  }

 private:
  static Truth known(bool yes) { return {yes ? Truth::Kind::Yes : Truth::Kind::No}; }
  static Truth open_by(std::string_view a, std::string_view b = {}) {
    Truth truth;
    truth.causes = holes_of(a);
    for (const int hole : holes_of(b)) truth.causes.push_back(hole);
    return truth;
  }
  static Truth joined(const Truth& a, const Truth& b, bool both) {
    const Truth::Kind decides = both ? Truth::Kind::No : Truth::Kind::Yes;
    if (a.kind == decides) return a;
    if (b.kind == decides) return b;
    if (!a.open() && !b.open()) return {a.kind, a.assumed || b.assumed};
    Truth open;
    open.causes = a.causes;
    open.causes.insert(open.causes.end(), b.causes.begin(), b.causes.end());
    return open;
  }
  bool has(std::size_t n) const { return at_ + n < words_.size(); }
  const std::string& word(std::size_t n = 0) const { return words_[at_ + n]; }

  Truth either(int depth) {
    Truth left = both(depth);
    while (has(0) && word() == (doubled_ ? "||" : "-o")) {
      ++at_;
      left = joined(left, both(depth), false);
    }
    return left;
  }
  Truth both(int depth) {
    Truth left = one(depth);
    while (has(0) && word() == (doubled_ ? "&&" : "-a")) {
      ++at_;
      left = joined(left, one(depth), true);
    }
    return left;
  }
  Truth one(int depth) {
    if (!has(0) || depth > kDeepest) return {};
    if (word() == "!" && has(1)) {
      ++at_;
      Truth truth = one(depth + 1);
      if (!truth.open()) truth.kind = truth.yes() ? Truth::Kind::No : Truth::Kind::Yes;
      return truth;
    }
    if (word() == "(") {
      ++at_;
      Truth inside = either(depth + 1);
      if (has(0) && word() == ")") ++at_;
      return inside;
    }
    if (has(2) && is_binary(word(1))) {
      const std::string left = word(), sign = word(1), right = word(2);
      at_ += 3;
      return compared(left, sign, right);
    }
    if (has(1) && word().size() == 2 && word()[0] == '-') {
      const char sign = word()[1];
      const std::string value = word(1);
      at_ += 2;
      return unary(sign, value);
    }
    const std::string value = word();
    ++at_;
    return has_hole(value) ? open_by(value) : known(!value.empty());
  }
  static bool is_binary(const std::string& sign) {
    constexpr std::string_view kSigns[] = {"=",   "==",  "!=",  "-eq", "-ne", "-lt",
                                           "-le", "-gt", "-ge", "=~",  "<",   ">"};
    return std::find(std::begin(kSigns), std::end(kSigns), sign) != std::end(kSigns);
  }
  Truth unary(char sign, const std::string& value) {
    if (sign != 'n' && sign != 'z' && sign != 'v') return {};  // of files, which are not looked at
    if (sign == 'v') {
      return {evaluator_.value_of(value) ? Truth::Kind::Yes : Truth::Kind::No, true};
    }
    bool empty = value.empty();
    bool assumed = false;
    if (has_hole(value)) {
      const std::vector<int> holes = holes_of(value);
      const Hole& hole = evaluator_.script_.holes[static_cast<std::size_t>(holes.front())];
      const std::string alone = kHoleBegin + std::to_string(holes.front()) + kHoleEnd;
      if (alone == value && hole.kind == Hole::Kind::Unset) {
        empty = assumed = true;  // as ${NAME:-otherwise} takes it
      } else if (value.size() > alone.size() && holes.size() == 1) {
        empty = false;
      } else {
        return open_by(value);
      }
    }
    return {empty == (sign == 'z') ? Truth::Kind::Yes : Truth::Kind::No, assumed};
  }
  Truth compared(const std::string& left, const std::string& sign, const std::string& right) {
    if (has_hole(left) || has_hole(right)) return open_by(left, right);
    if (sign == "=~") return {};
    if (sign == "<" || sign == ">") return known(sign == "<" ? left < right : left > right);
    if (sign[0] == '-') {
      std::vector<int> causes;
      const auto a = evaluator_.computed(left, line_, depth_, causes);
      const auto b = evaluator_.computed(right, line_, depth_, causes);
      if (!a || !b) return {.causes = causes};
      return known(sign == "-eq"   ? *a == *b
                   : sign == "-ne" ? *a != *b
                   : sign == "-lt" ? *a < *b
                   : sign == "-le" ? *a <= *b
                   : sign == "-gt" ? *a > *b
                                   : *a >= *b);
    }
    const bool same = doubled_ ? fnmatch(right.c_str(), left.c_str(), 0) == 0 : left == right;
    return known(same == (sign != "!="));
  }

  Evaluator& evaluator_;
  const Words& words_;
  bool doubled_;
  int line_, depth_;
  std::size_t at_ = 0;
};

Truth Evaluator::test(const Words& words, const std::vector<RawWord>* raw, int line, int depth) {
  if (raw == nullptr) return TestReader(*this, words, false, line, depth).read();
  Words expanded;
  for (const RawWord& word : *raw) {
    const bool is_pattern =
        !expanded.empty() &&
        (expanded.back() == "==" || expanded.back() == "=" || expanded.back() == "!=");
    expanded.push_back(is_pattern ? pattern(word.text, word.line, depth + 1)
                                  : text(word.text, word.line, depth + 1));
  }
  return TestReader(*this, expanded, true, line, depth).read();
}

Truth Evaluator::condition(const Node& node, int depth) {
  if (depth > kDeepest) return {};
  switch (node.kind) {
    case Node::Kind::Test:
      return test({}, &node.words, node.line, depth);
    case Node::Kind::Not: {
      Truth truth = condition(node.children.front(), depth + 1);
      if (!truth.open()) truth.kind = truth.yes() ? Truth::Kind::No : Truth::Kind::Yes;
      return truth;
    }
    case Node::Kind::And:
    case Node::Kind::Or: {
      const bool both = node.kind == Node::Kind::And;
      Truth left = condition(node.children[0], depth + 1);
      if (!left.open() && left.yes() != both) return left;
      Truth right = condition(node.children[1], depth + 1);
      if (!left.open() && !right.open()) right.assumed |= left.assumed;
      if (!left.open()) return right;
      if (!right.open() && right.yes() != both) return right;
      left.causes.insert(left.causes.end(), right.causes.begin(), right.causes.end());
      return left;
    }
    case Node::Kind::List:
    case Node::Kind::Group:
    case Node::Kind::Subshell: {
      Truth last{Truth::Kind::Yes};
      for (const Node& child : node.children) last = condition(child, depth + 1);
      return last;
    }
    case Node::Kind::Arithmetic: {
      std::vector<int> causes;
      const auto value = computed(node.name, node.line, depth, causes);
      if (!value) return {.causes = causes};
      return {*value != 0 ? Truth::Kind::Yes : Truth::Kind::No};
    }
    case Node::Kind::Simple: {
      Words words = fields(node.words, depth + 1);
      if (words.empty()) {
        run(node, depth + 1);
        return {Truth::Kind::Yes};
      }
      if (words.front() == "[" && words.back() == "]") {
        words.erase(words.begin());
        words.pop_back();
        return test(words, nullptr, node.line, depth);
      }
      if (words.front() == "test") {
        words.erase(words.begin());
        return test(words, nullptr, node.line, depth);
      }
      if (words.front() == "true" || words.front() == ":") return {Truth::Kind::Yes};
      if (words.front() == "false") return {Truth::Kind::No};
      run(node, depth + 1);
      return {};
    }
    default:
      run(node, depth + 1);
      return {};
  }
}

}  // namespace lockstep::shell
