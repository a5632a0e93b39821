#include "core/format/table.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "core/format/format.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kComfortable = 32;  // of a column of words, before others go
constexpr std::size_t kLeast = 16;        // of a column of words, at the least
constexpr std::size_t kBrief = 8;         // likewise, if it is cut

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// The first `width` characters of a text, in bytes.
std::size_t bytes_of(std::string_view text, std::size_t width) {
  std::size_t at = 0;
  for (std::size_t count = 0; at < text.size(); ++at) {
    if (!continues(text[at]) && count++ == width) break;
  }
  return at;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// Whether a word is a unit, so that a number before it stays with it: "0.9 %", "16 GB,".
bool is_unit(std::string_view word) {
  static constexpr std::string_view kUnits[] = {"%",  "B",  "kB", "MB", "GB", "TB",
                                                "ns", "us", "ms", "s",  "$"};
  word = word.substr(0, word.find_last_not_of(",;.:)") + 1);
  return std::find(std::begin(kUnits), std::end(kUnits), word) != std::end(kUnits);
}

/// The parts of a line between which it may be broken, a space apart.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(line, ' ')) {
    const bool number = !words.empty() && !words.back().empty() && words.back().back() >= '0' &&
                        words.back().back() <= '9';
    if (number && is_unit(word)) {
      words.back() = {words.back().data(), words.back().size() + 1 + word.size()};
    } else {
      words.push_back(word);
    }
  }
  return words;
}

/// Breaks a line into lines of `width` characters. Words that are longer stay whole, or are cut if
/// `cut`.
std::vector<std::string> broken(std::string_view line, std::size_t width, bool cut) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  std::vector<std::string> lines(1, std::string(line.substr(0, indent)));
  bool begun = false;
  for (std::string_view word : words_of(line.substr(indent))) {
    const std::size_t room = text_width(lines.back()) + (begun ? 1 : 0) + text_width(word);
    if (begun && room > width) {
      lines.emplace_back();
      begun = false;
    }
    lines.back() += begun ? " " : "";
    while (cut && text_width(lines.back()) + text_width(word) > width) {
      const std::size_t room_left = width - std::min(width, text_width(lines.back()));
      const std::size_t bytes = bytes_of(word, std::max<std::size_t>(room_left, 1));
      lines.back() += word.substr(0, bytes);
      lines.emplace_back();
      word.remove_prefix(bytes);
    }
    lines.back() += word;
    begun = true;
  }
  return lines;
}

/// The beginning of a text that has more than `width` characters.
std::string beginning(const std::string& text, std::size_t width) {
  return text.substr(0, bytes_of(text, width - std::min<std::size_t>(width, 1))) + "…";
}

std::size_t longest_word(const std::string& text) {
  const std::size_t indent = std::min(text.find_first_not_of(' '), text.size());
  std::size_t longest = 0;
  for (const std::string_view word : words_of(std::string_view(text).substr(indent))) {
    longest = std::max(longest, text_width(word) + (longest == 0 ? indent : 0));
  }
  return longest;
}

/// What is shown of a table, and how wide its columns are.
struct Fitting {
  std::vector<std::size_t> shown;   // columns
  std::vector<std::size_t> widths;  // of these
  std::vector<std::string> gone;    // headings
};

std::size_t sum_of(const std::vector<std::size_t>& widths) {
  std::size_t sum = widths.empty() ? 0 : kGap * (widths.size() - 1);
  for (const std::size_t width : widths) sum += width;
  return sum;
}

/// Divides `room` among columns: each gets what it needs, or as much as the others that need more,
/// but not less than its longest word if there is room for all of these.
void divide(std::vector<std::size_t>& widths, std::vector<std::size_t> least, std::size_t room) {
  const std::size_t gaps = kGap * (widths.size() - 1);
  room -= std::min(room, gaps);
  if (sum_of(least) > room + gaps) std::fill(least.begin(), least.end(), 1);
  const auto level = [&](std::size_t c, std::size_t height) {
    return std::max(std::min(widths[c], height), std::min(widths[c], least[c]));
  };
  std::size_t height = 1;
  const auto sum = [&](std::size_t h) {
    std::size_t all = 0;
    for (std::size_t c = 0; c < widths.size(); ++c) all += level(c, h);
    return all;
  };
  while (height < room && sum(height + 1) <= room) ++height;
  std::size_t rest = room - std::min(room, sum(height));
  std::vector<std::size_t> divided;
  for (std::size_t c = 0; c < widths.size(); ++c) {
    divided.push_back(level(c, height));
    if (rest > 0 && divided[c] < widths[c]) {
      ++divided[c];
      --rest;
    }
  }
  widths = std::move(divided);
}

Fitting fit(const std::vector<Heading>& columns, const std::vector<std::vector<std::string>>& rows,
            std::size_t room) {
  std::vector<std::size_t> cells(columns.size(), 0), words(columns.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      cells[c] = std::max(cells[c], text_width(row[c]));
      words[c] = std::max(words[c], longest_word(row[c]));
    }
  }
  Fitting fitting;
  for (std::size_t c = 0; c < columns.size(); ++c) fitting.shown.push_back(c);
  const auto widths = [&](auto width) {
    std::vector<std::size_t> result;
    for (const std::size_t c : fitting.shown) result.push_back(width(c));
    return result;
  };
  const auto whole = [&](std::size_t c) { return std::max(cells[c], text_width(columns[c].text)); };
  // With broken headings; words may be broken down to `least`.
  const auto narrow = [&](std::size_t least) {
    return [&, least](std::size_t c) {
      const std::size_t heading = longest_word(columns[c].text);
      return columns[c].left ? std::max(std::min(cells[c], least), std::min(heading, least))
                             : std::max(cells[c], heading);
    };
  };
  fitting.widths = widths(whole);
  if (room == 0 || sum_of(fitting.widths) <= room) return fitting;
  const auto remove = [&](std::size_t place) {
    fitting.gone.push_back(columns[fitting.shown[place]].text);
    fitting.shown.erase(fitting.shown.begin() + static_cast<std::ptrdiff_t>(place));
  };
  std::set<int> turns;
  for (const Heading& column : columns) {
    if (column.goes > 0) turns.insert(column.goes);
  }
  for (const int turn : turns) {
    if (sum_of(widths(narrow(kComfortable))) <= room) break;
    for (std::size_t i = 0; i < fitting.shown.size();) {
      if (columns[fitting.shown[i]].goes == turn) {
        remove(i);
      } else {
        ++i;
      }
    }
  }
  while (sum_of(widths(narrow(kLeast))) > room) {
    std::size_t last = fitting.shown.size();
    for (std::size_t i = 1; i < fitting.shown.size(); ++i) {
      if (!columns[fitting.shown[i]].left) last = i;
    }
    if (last == fitting.shown.size()) break;
    remove(last);
  }
  fitting.widths = widths([&](std::size_t c) { return columns[c].left ? whole(c) : narrow(0)(c); });
  if (sum_of(fitting.widths) > room) {
    divide(fitting.widths, widths([&](std::size_t c) {
             return !columns[c].left ? narrow(0)(c) : columns[c].brief ? kBrief : words[c];
           }),
           room);
  }
  // Room that is left over goes to headings, from the left.
  for (std::size_t i = 0; i < fitting.shown.size(); ++i) {
    const std::size_t free = room - std::min(room, sum_of(fitting.widths));
    const std::size_t wanted = whole(fitting.shown[i]);
    if (wanted > fitting.widths[i] && wanted - fitting.widths[i] <= free) {
      fitting.widths[i] = wanted;
    }
  }
  return fitting;
}

}  // namespace

std::string emphasized(const std::string& text, std::string_view how, const Screen& screen) {
  if (!screen.color || text.empty()) return text;
  return std::string(how) + text + std::string(Emphasis::kPlain);
}

std::size_t text_width(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues));
}

std::string wrapped(const std::string& text, const Screen& screen, std::size_t indent) {
  if (screen.width <= 0) return text;
  const auto room = static_cast<std::size_t>(screen.width);
  std::string result;
  for (const std::string_view line : split(text, '\n')) {
    if (line.data() != text.data()) result += '\n';
    if (text_width(line) <= room) {
      result += line;
      continue;
    }
    // The first line has room for the indent that later ones have.
    const std::string hang(indent, ' ');
    const std::size_t width = std::max(room - std::min(room, indent), kLeast);
    const std::string first = broken(line, room, false).front();
    result += first;
    std::string_view rest = line.substr(std::min(first.size() + 1, line.size()));
    if (rest.empty()) continue;
    for (const std::string& part : broken(rest, width, false)) result += "\n" + hang + part;
  }
  return result;
}

TextTable::TextTable(std::vector<Heading> columns, std::size_t left)
    : columns_(std::move(columns)) {
  for (std::size_t c = 0; c < std::min(left, columns_.size()); ++c) columns_[c].left = true;
}

void TextTable::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

std::string TextTable::text(const Screen& screen) const {
  const Fitting fitting = fit(columns_, rows_, static_cast<std::size_t>(std::max(screen.width, 0)));
  std::string text;
  const auto add_row = [&](const std::vector<std::string>& row, bool heading) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < fitting.shown.size(); ++i) {
      const std::size_t c = fitting.shown[i];
      const std::string& cell = c < row.size() ? row[c] : "";
      const std::size_t width = fitting.widths[i];
      cells.push_back(text_width(cell) <= width ? std::vector<std::string>{cell}
                      : columns_[c].brief       ? std::vector<std::string>{beginning(cell, width)}
                                                : broken(cell, width, true));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t l = 0; l < height; ++l) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        // Headings stand on the last of their lines, other cells on the first.
        const std::size_t above = heading ? height - cells[i].size() : 0;
        const std::string part =
            l < above || l - above >= cells[i].size() ? "" : cells[i][l - above];
        const std::string fill(fitting.widths[i] - std::min(fitting.widths[i], text_width(part)),
                               ' ');
        if (i > 0) line += std::string(kGap, ' ');
        line += columns_[fitting.shown[i]].left ? part + fill : fill + part;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += (heading ? emphasized(line, Emphasis::kBold, screen) : line) + "\n";
    }
  };
  std::vector<std::string> headings;
  for (const Heading& column : columns_) headings.push_back(column.text);
  if (!joined(headings, "").empty()) add_row(headings, true);
  for (const auto& row : rows_) add_row(row, false);
  if (fitting.gone.empty()) return text;
  return text +
         wrapped("(no room for: " + joined(fitting.gone) + "; --wide shows all)\n", screen, 2);
}

}  // namespace lockstep
