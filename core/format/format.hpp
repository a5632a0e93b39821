// Format: numbers and tables as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace lockstep {

std::string time_text(Seconds time);          // "12.34 ms", four digits
std::string bytes_text(Bytes bytes);          // "14.2 MiB"
std::string count_text(double count);         // "124,439,808", rounded
std::string flops_text(Flops flops);          // "1.23 TFLOP"
std::string percent_text(double fraction);    // "11.1 %"
std::string change_text(double a, double b);  // b relative to a: "+3.2 %"; "-" if a is 0

/// The words in order, with the separator between them.
std::string joined(const std::vector<std::string>& words, std::string_view separator = ", ");

/// A table whose columns are as wide as their widest cells and two spaces apart. The first `left`
/// columns are aligned to the left, the others to the right. The first row is the heading.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading, std::size_t left = 1);
  void add(std::vector<std::string> row);  // as long as the heading
  std::string text() const;                // lines, no trailing spaces

 private:
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_;
};

}  // namespace lockstep
