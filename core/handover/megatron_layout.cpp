#include "core/handover/megatron_layout.hpp"

#include <cctype>
#include <optional>

namespace lockstep {
namespace {

constexpr std::size_t kLongest = 1 << 16;

/// `layout` without its factors and brackets; nothing if it is none, or is longer than any model.
std::optional<std::string> unfolded(std::string_view layout) {
  std::vector<std::string> open{""};  // what stands before each bracket that is open, and behind it
  std::string last;                   // what a factor repeats
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const char c = layout[i];
    if (c == ',' || c == ' ') continue;
    if (c == '(') {
      open.back() += last;
      last.clear();
      open.emplace_back();
    } else if (c == ')') {
      if (open.size() < 2) return std::nullopt;
      last = open.back() + last;
      open.pop_back();
    } else if (c == '*') {
      std::size_t times = 0;
      while (i + 1 < layout.size() &&
             std::isdigit(static_cast<unsigned char>(layout[i + 1])) != 0) {
        times = times * 10 + static_cast<std::size_t>(layout[++i] - '0');
        if (times > kLongest) return std::nullopt;
      }
      if (times * last.size() > kLongest) return std::nullopt;
      std::string repeated;
      for (std::size_t n = 0; n < times; ++n) repeated += last;
      open.back() += repeated;
      last.clear();
    } else {
      open.back() += last;
      last = c;
    }
    if (open.back().size() > kLongest) return std::nullopt;
  }
  if (open.size() != 1) return std::nullopt;
  return open.back() + last;
}

}  // namespace

std::string_view foreign_subject(std::string_view program) {
  struct Subject {
    std::string_view begin, subject;
  };
  constexpr Subject kSubjects[] = {
      {"pretrain_t5", "an encoder and a decoder"},
      {"pretrain_vision", "images by labels, or other images"},
      {"pretrain_vlm", "images beside text"},
      {"pretrain_mimo", "images beside text"},
      {"pretrain_ict", "two encoders that find texts"},
      {"pretrain_retro", "a decoder that looks up texts"},
      {"pretrain_realm", "two encoders that find texts"},
      {"pretrain_mamba", "state space layers"},
      {"pretrain_hybrid", "state space layers"},
  };
  for (const Subject& row : kSubjects) {
    if (program.starts_with(row.begin)) return row.subject;
  }
  return {};
}

bool trains_nothing(std::string_view program) {
  for (const std::string_view part : {"generat", "inference", "preprocess", "analyze", "evaluate",
                                      "evalharness", "convert", "quantize", "prompt"}) {
    if (program.find(part) != std::string_view::npos) return true;
  }
  return false;
}

std::vector<std::int64_t> blocks_of_layout(std::string_view layout) {
  const std::optional<std::string> whole = unfolded(layout);
  if (!whole || whole->find('|') == std::string::npos) return {};
  std::vector<std::int64_t> blocks{0};
  for (const char c : *whole) {
    if (c == '|') {
      blocks.push_back(0);
    } else if (c == 't') {
      ++blocks.back();
    } else if (c != 'E' && c != 'L') {
      return {};
    }
  }
  return blocks;
}

std::vector<std::int64_t> blocks_beside(std::int64_t blocks, std::int64_t stages,
                                        bool counts_embedding, bool counts_output) {
  const std::int64_t all = blocks + (counts_embedding ? 1 : 0) + (counts_output ? 1 : 0);
  if (stages < 1 || stages > static_cast<std::int64_t>(kLongest) || all % stages != 0) return {};
  std::vector<std::int64_t> list(static_cast<std::size_t>(stages), all / stages);
  if (counts_embedding) --list.front();
  if (counts_output) --list.back();
  return list;
}

}  // namespace lockstep
