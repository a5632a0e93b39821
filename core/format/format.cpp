#include "core/format/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

/// The width of a text on the screen, in characters: continuation bytes of UTF-8 take no room.
std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

struct Unit {
  double size;
  const char* name;
};

template <std::size_t N>
std::string scaled(double value, const Unit (&units)[N]) {  // largest first
  const Unit* unit = units;
  while (unit + 1 < units + N && std::fabs(value) < unit->size) ++unit;
  return fmt::format("{:.4g} {}", value / unit->size, unit->name);
}

}  // namespace

std::string time_text(Seconds time) {
  static constexpr Unit kUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  if (time.v == 0) return "0 s";
  return scaled(time.v, kUnits);
}

std::string bytes_text(Bytes bytes) {
  static constexpr Unit kUnits[] = {{1099511627776.0, "TiB"},
                                    {1073741824.0, "GiB"},
                                    {1048576.0, "MiB"},
                                    {1024.0, "KiB"},
                                    {1, "B"}};
  return scaled(static_cast<double>(bytes.v), kUnits);
}

std::string count_text(double count) {
  std::string digits = fmt::format("{:.0f}", std::fabs(count));
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return (count <= -0.5 ? "-" : "") + digits;
}

std::string flops_text(Flops flops) {
  static constexpr Unit kUnits[] = {{1e18, "EFLOP"}, {1e15, "PFLOP"}, {1e12, "TFLOP"},
                                    {1e9, "GFLOP"},  {1e6, "MFLOP"},  {1e3, "kFLOP"},
                                    {1, "FLOP"}};
  return scaled(flops.v, kUnits);
}

std::string percent_text(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string change_text(double a, double b) {
  if (a == 0 || !std::isfinite(b / a)) return "-";
  return fmt::format("{:+.1f} %", 100 * (b / a - 1));
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (&word != &words.front()) text += separator;
    text += word;
  }
  return text;
}

TextTable::TextTable(std::vector<std::string> heading, std::size_t left) : left_(left) {
  rows_.push_back(std::move(heading));
}

void TextTable::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

std::string TextTable::text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string fill(widths[c] - columns(row[c]), ' ');
      if (c > 0) line += "  ";
      line += c < left_ ? row[c] + fill : fill + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lockstep
