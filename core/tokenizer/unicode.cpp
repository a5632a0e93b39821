#include "core/tokenizer/unicode.hpp"

#include <algorithm>
#include <iterator>

namespace lockstep {
namespace {

struct Base {
  std::uint32_t from, to[3];  // zeros follow the last one
};
struct Lower {
  std::uint32_t first, last, stride;
  std::int32_t distance;
};
struct Range {
  std::uint32_t first, last;
};

#include "core/tokenizer/unicode_tables.inc"

/// The run of a table in which a character lies; null if it lies in none.
template <class Run, std::size_t N>
const Run* run_of(const Run (&table)[N], std::uint32_t c) {
  const Run* const run =
      std::lower_bound(std::begin(table), std::end(table), c,
                       [](const Run& entry, std::uint32_t wanted) { return entry.last < wanted; });
  return run != std::end(table) && run->first <= c ? run : nullptr;
}

}  // namespace

bool is_space(std::uint32_t c) {
  constexpr Range kSpaces[] = {
      {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
      {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
  return run_of(kSpaces, c) != nullptr;
}

bool is_no_text(std::uint32_t c) {
  return c != '\t' && c != '\n' && c != '\r' && run_of(kNoText, c) != nullptr;
}

bool is_punctuation(std::uint32_t c) {
  const bool ascii = (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
                     (c >= '{' && c <= '~');
  return ascii || run_of(kPunctuation, c) != nullptr;
}

bool is_ideograph(std::uint32_t c) {
  constexpr Range kIdeographs[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                   {0x2b820, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  return run_of(kIdeographs, c) != nullptr;
}

std::u32string without_marks(std::uint32_t c) {
  // Hangul syllables are made of two or three letters (Unicode, chapter 3.12).
  constexpr std::uint32_t kFirst = 0xac00, kLast = 0xd7a3, kLeads = 0x1100, kVowels = 0x1161,
                          kTails = 0x11a7, kTailCount = 28, kPerLead = 21 * kTailCount;
  if (c >= kFirst && c <= kLast) {
    const std::uint32_t at = c - kFirst, tail = at % kTailCount;
    std::u32string letters{kLeads + at / kPerLead, kVowels + at % kPerLead / kTailCount};
    if (tail > 0) letters.push_back(kTails + tail);
    return letters;
  }
  if (run_of(kMarks, c) != nullptr) return {};
  const Base* const base =
      std::lower_bound(std::begin(kBases), std::end(kBases), c,
                       [](const Base& entry, std::uint32_t wanted) { return entry.from < wanted; });
  if (base == std::end(kBases) || base->from != c) return {c};
  std::u32string letters;
  for (const std::uint32_t part : base->to) {
    if (part != 0) letters.push_back(part);
  }
  return letters;
}

std::u32string lower_case(std::uint32_t c) {
  constexpr std::uint32_t kDottedI = 0x130, kDotAbove = 0x307;
  if (c == kDottedI) return {'i', kDotAbove};
  const Lower* const run = run_of(kLower, c);
  if (run == nullptr || (c - run->first) % run->stride != 0) return {c};
  return {static_cast<char32_t>(static_cast<std::int64_t>(c) + run->distance)};
}

}  // namespace lockstep
