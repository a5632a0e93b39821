#include "core/trace/pickle.hpp"

#include <bit>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace lockstep {
namespace {

// A snapshot's events have a hundred bytes or so, and of each a few hundred elements are looked at.
constexpr std::int64_t kWorkPerByte = 256, kLeastWork = 1 << 20;
constexpr std::size_t kMostValues = std::size_t{1} << 28;

}  // namespace

/// The stack machine that a pickle is a program of.
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Result<Pickle> run() {
    while (fault_.empty()) {
      begin_ = at_;
      const int opcode = take();
      if (!fault_.empty()) break;
      if (opcode == '.') {
        pickle_.root_ = pop();
        pickle_.work_ = kLeastWork + kWorkPerByte * static_cast<std::int64_t>(bytes_.size());
        if (fault_.empty()) return std::move(pickle_);
        break;
      }
      execute(opcode);
      if (pickle_.values_.size() > kMostValues) fail("it has more values than any snapshot");
    }
    return Error{ErrorKind::Parse, fault_ + " (byte " + std::to_string(begin_) + ")",
                 SourceSpan{file_, 0, 0}};
  }

 private:
  using Id = Pickle::Id;
  using Type = Pickle::Type;

  void fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }
  int take() {
    if (at_ >= bytes_.size()) {
      fail("the file ends in the middle");
      return -1;
    }
    return static_cast<unsigned char>(bytes_[at_++]);
  }
  /// The next `size` bytes; empty, and a fault, if there are not so many.
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) {
      fail("the file ends in the middle");
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }
  /// An unsigned number of `size` bytes, the lowest first.
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    const std::string_view digits = take(size);
    for (std::size_t i = 0; i < digits.size(); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    }
    return value;
  }

  Id make(Type type, std::int64_t value) {
    const Id id = pickle_.values_.next();
    pickle_.values_.push_back({type, value});
    return id;
  }
  void push(Id id) { stack_.push_back(id); }
  void push_int(std::int64_t value) { push(make(Type::Int, value)); }
  void push_real(double value) {
    push(make(Type::Float, static_cast<std::int64_t>(pickle_.reals_.size())));
    pickle_.reals_.push_back(value);
  }
  void push_text(std::string_view text) {
    push(make(Type::Text, static_cast<std::int64_t>(pickle_.texts_.size())));
    pickle_.texts_.emplace_back(text);
  }
  void push_items(Type type, std::vector<Id> items) {
    push(make(type, static_cast<std::int64_t>(pickle_.items_.size())));
    pickle_.items_.push_back(std::move(items));
  }
  Id pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) {
      fail("not a pickle: it takes a value where there is none");
      return 0;
    }
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  /// What has been pushed since the last mark.
  std::vector<Id> pop_to_mark() {
    if (marks_.empty()) {
      fail("not a pickle: it ends a list that has no begin");
      return {};
    }
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Id> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<Id> pop_many(std::size_t count) {
    std::vector<Id> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  void append(Type type, const std::vector<Id>& items) {
    if (stack_.empty() || pickle_.type(stack_.back()) != type) {
      return fail("not a pickle: it adds to what is no list or dict");
    }
    if (type == Type::Dict && items.size() % 2 != 0)
      return fail("not a pickle: a key has no value");
    auto& to = pickle_.items_[to_size(pickle_.values_[stack_.back()].number)];
    to.insert(to.end(), items.begin(), items.end());
  }
  void remember(std::uint64_t place) {
    if (stack_.empty()) return fail("not a pickle: it keeps a value where there is none");
    memo_[place] = stack_.back();
  }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) return fail("not a pickle: it asks for a value that was not kept");
    push(found->second);
  }
  /// A number of `size` bytes in two's complement. Beyond 64 bits it becomes a Float.
  void push_long(std::uint64_t size) {
    const std::string_view digits = take(size);
    if (digits.size() > 8) {
      double value = 0;
      for (std::size_t i = digits.size(); i-- > 0;) {
        value = value * 256 + static_cast<unsigned char>(digits[i]);
      }
      return push_real(value);
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    }
    const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
    if (negative && digits.size() < 8) value |= ~std::uint64_t{0} << (8 * digits.size());
    push_int(static_cast<std::int64_t>(value));
  }

  void execute(int opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (take() > 5) fail("it has a protocol later than 5");
        return;
      case 0x95:  // FRAME
        take(8);
        return;
      case '(':
        return marks_.push_back(stack_.size());
      case '0':
        pop();
        return;
      case '1':
        pop_to_mark();
        return;
      case 'N':
        return push(make(Type::None, 0));
      case 0x88:
      case 0x89:
        return push(make(Type::Bool, opcode == 0x88 ? 1 : 0));
      case 'J':
        return push_int(static_cast<std::int32_t>(number(4)));
      case 'K':
        return push_int(static_cast<std::int64_t>(number(1)));
      case 'M':
        return push_int(static_cast<std::int64_t>(number(2)));
      case 0x8a:
        return push_long(number(1));
      case 0x8b:
        return push_long(number(4));
      case 'G': {
        std::uint64_t bits = 0;
        for (const char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
        return push_real(std::bit_cast<double>(bits));
      }
      case 'X':
      case 'T':
      case 'B':
        return push_text(take(number(4)));
      case 0x8c:
      case 'U':
      case 'C':
        return push_text(take(number(1)));
      case 0x8d:
      case 0x8e:
        return push_text(take(number(8)));
      case ']':
        return push_items(Type::List, {});
      case 'l':
        return push_items(Type::List, pop_to_mark());
      case ')':
        return push_items(Type::Tuple, {});
      case 't':
        return push_items(Type::Tuple, pop_to_mark());
      case 0x85:
      case 0x86:
      case 0x87:
        return push_items(Type::Tuple, pop_many(static_cast<std::size_t>(opcode - 0x84)));
      case '}':
        return push_items(Type::Dict, {});
      case 'a':
        return append(Type::List, pop_many(1));
      case 'e':
        return append(Type::List, pop_to_mark());
      case 's':
        return append(Type::Dict, pop_many(2));
      case 'u':
        return append(Type::Dict, pop_to_mark());
      case 'q':
        return remember(number(1));
      case 'r':
        return remember(number(4));
      case 0x94:
        return remember(memo_.size());
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      case 'c':   // GLOBAL
      case 0x93:  // STACK_GLOBAL
      case 'R':   // REDUCE
      case 'b':   // BUILD
      case 'i':   // INST
      case 'o':   // OBJ
      case 0x81:  // NEWOBJ
      case 0x92:  // NEWOBJ_EX
      case 0x82:  // EXT1
      case 0x83:
      case 0x84:
      case 'P':  // PERSID
      case 'Q':
        return fail(
            "it has an object of a class, or a call; only plain values are read, and nothing of a "
            "pickle is executed");
      default:
        return fail("not a pickle: no opcode " + std::to_string(opcode));
    }
  }

  std::string_view bytes_;
  const std::string& file_;
  std::size_t at_ = 0, begin_ = 0;
  std::string fault_;
  Pickle pickle_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;  // into stack_
  std::unordered_map<std::uint64_t, Id> memo_;
};

Result<Pickle> Pickle::parse(std::string_view bytes, const std::string& file) {
  return PickleMachine(bytes, file).run();
}

std::int64_t Pickle::integer(Id id, std::int64_t otherwise) const {
  if (id < 0) return otherwise;
  const Value& value = values_[id];
  if (value.type == Type::Int || value.type == Type::Bool) return value.number;
  if (value.type != Type::Float) return otherwise;
  const double real = reals_[to_size(value.number)];
  constexpr double kLargest = 9.2e18;
  return real > -kLargest && real < kLargest ? static_cast<std::int64_t>(real) : otherwise;
}

std::string_view Pickle::text(Id id) const {
  if (id < 0 || type(id) != Type::Text) return {};
  return texts_[to_size(values_[id].number)];
}

std::span<const Pickle::Id> Pickle::items(Id id) const {
  if (id < 0) return {};
  const Type t = type(id);
  if (t != Type::List && t != Type::Tuple && t != Type::Dict) return {};
  const std::vector<Id>& items = items_[to_size(values_[id].number)];
  work_ -= 1 + std::ssize(items);
  if (exhausted()) return {};
  return items;
}

Pickle::Id Pickle::find(Id dict, std::string_view key) const {
  if (dict < 0 || type(dict) != Type::Dict) return kNothing;
  const std::span<const Id> pairs = items(dict);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (text(pairs[i]) == key) return pairs[i + 1];
  }
  return kNothing;
}

}  // namespace lockstep
