// Parser state: what the parsers of the program text share: the scanner, the tables read so far,
// and parts of lists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.hpp"
#include "core/ir/text/scanner.hpp"

namespace lockstep::text {

template <class Enum>
std::vector<std::string> spellings(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
  return names;
}

struct ParserState {
  ParserState(std::string_view text, std::string_view file) : in(text, file) {}

  template <class Enum>
  bool choose(const std::vector<std::string>& words, std::string_view what, Enum& out) {
    const char* start = in.mark();
    int index = 0;
    if (!in.choose(start, in.word(), words, what, index)) return false;
    out = static_cast<Enum>(index);
    return true;
  }

  /// Reads a key of a line. Each key may occur once, in any order.
  bool key(const std::vector<std::string>& words, std::uint32_t& seen, int& out) {
    const char* start = in.mark();
    const std::string_view word = in.word();
    if (!in.choose(start, word, words, "key", out)) return false;
    if ((seen >> out & 1u) != 0) return in.fail(start, Scanner::shown(word) + " stands twice");
    seen |= 1u << out;
    return true;
  }

  template <class Item>
  bool list(Item&& item) {
    do {
      if (!item()) return false;
    } while (in.take(','));
    return true;
  }

  template <class IdType>
  bool id(std::string_view prefix, IdType& out) {
    const char* start = in.mark();
    if (!in.take(prefix)) {
      return in.fail(start,
                     "expected " + std::string(prefix) + " and a number, found " + in.next_text());
    }
    if (!in.number(out.v)) return false;
    return out.v >= 0 || in.fail(start, "ids start at 0");
  }
  bool op_id(OpId& out) { return id("%", out); }
  bool buffer_id(BufferId& out) { return id("%b", out); }

  bool expect_index(const char* start, std::size_t expected, std::string_view what) {
    std::int64_t index = 0;
    if (!in.number(index)) return false;
    if (index == static_cast<std::int64_t>(expected)) return true;
    return in.fail(start, std::string(what) + " " + std::to_string(index) +
                              " is out of order: the next one is " + std::to_string(expected));
  }

  Scanner in;
  Program program;
  NameTable dims, groups, names, parameters, functions;
  const std::vector<std::string> dtypes = spellings<DType>(static_cast<int>(DType::U8) + 1);
  const std::vector<std::string> buffer_kinds = spellings<BufferKind>(kNumBufferKinds);
  const std::vector<std::string> op_kinds = spellings<OpKind>(kNumOpKinds);
  const std::vector<std::string> streams = spellings<Stream>(kNumStreams);
  const std::vector<std::string> phases = spellings<Phase>(kNumPhases);
  const std::vector<std::string> host_data = spellings<HostData>(kNumHostData);
};

/// Parse the lines that say what the program is given. Each is called after the first word of its
/// line.
bool parse_learning_rate(ParserState& state);
bool parse_loss_scale(ParserState& state);
bool parse_samples(ParserState& state);
bool parse_table(ParserState& state);

/// Parse the lines of a role. Each is called after the first word of its line, and leaves the
/// scanner after the last.
bool parse_role(ParserState& state);
bool parse_unit(ParserState& state);
/// These two are called after "%b" and "%"; `start` is where the line starts.
bool parse_buffer(ParserState& state, const char* start);
bool parse_op(ParserState& state, const char* start);

}  // namespace lockstep::text
