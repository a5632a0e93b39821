// Format: numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace lockstep {

std::string time_text(Seconds time);               // "12.34 ms", four digits
std::string range_text(Seconds from, Seconds to);  // "10.41 to 14.42 ms"
std::string range_text(Bytes from, Bytes to);
std::string bytes_text(Bytes bytes);          // "14.2 MB"; 1 GB is 10⁹ bytes
std::string count_text(double count);         // "124,439,808", rounded
std::string flops_text(Flops flops);          // "1.23 TFLOP"
std::string percent_text(double fraction);    // "11.1 %"
std::string change_text(double a, double b);  // b relative to a: "+3.2 %"; "-" if a is 0

/// The words in order, with the separator between them.
std::string joined(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace lockstep
