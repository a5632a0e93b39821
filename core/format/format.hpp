// Format: numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace lockstep {

std::string time_text(Seconds time);  // "12.34 ms", four digits
std::string bytes_text(Bytes bytes);  // "14.2 MB"; 1 GB is 10⁹ bytes
/// Between which values 8 of 10 runs lie, as factors of what is simulated (LikelyFactors):
/// "10.41 to 14.42 ms in 8 of 10 runs".
std::string likely_text(Seconds simulated, double least, double most);
std::string likely_text(Bytes simulated, double least, double most);
std::string count_text(double count);         // "124,439,808", rounded
std::string flops_text(Flops flops);          // "1.23 TFLOP"
std::string percent_text(double fraction);    // "11.1 %"
std::string change_text(double a, double b);  // b relative to a: "+3.2 %"; "-" if a is 0

/// The words in order, with the separator between them.
std::string joined(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace lockstep
