#include "core/trace/kineto/fields.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::kineto {

Field event_field(std::string_view key) {
  switch (key.size()) {
    case 2:
      return key == "ph"   ? Field::Ph
             : key == "ts" ? Field::Ts
             : key == "id" ? Field::Id
                           : Field::Other;
    case 3:
      return key == "pid"   ? Field::Pid
             : key == "tid" ? Field::Tid
             : key == "dur" ? Field::Dur
             : key == "cat" ? Field::Cat
                            : Field::Other;
    case 4:
      return key == "name" ? Field::Name : key == "args" ? Field::Args : Field::Other;
    default:
      return Field::Other;
  }
}

Field args_field(std::string_view key) {
  switch (key.size()) {
    case 3:
      return key == "Seq" ? Field::Seq : Field::Other;
    case 4:
      return key == "name" ? Field::ArgName : Field::Other;
    case 5:
      return key == "bytes" ? Field::Bytes : key == "dtype" ? Field::Dtype : Field::Other;
    case 8:
      return key == "Src Rank" || key == "Dst Rank"
                 ? (key[0] == 'S' ? Field::Source : Field::Destination)
                 : Field::Other;
    case 9:
      return key == "Device Id" ? Field::DeviceId : Field::Other;
    case 11:
      return key == "correlation"   ? Field::Correlation
             : key == "Device Type" ? Field::DeviceType
                                    : Field::Other;
    case 13:
      return key == "In msg nelems" ? Field::InElements : Field::Other;
    case 14:
      return key == "Out msg nelems"   ? Field::OutElements
             : key == "Total Reserved" ? Field::TotalReserved
                                       : Field::Other;
    case 15:
      return key == "Collective name"   ? Field::Collective
             : key == "Total Allocated" ? Field::TotalAllocated
                                        : Field::Other;
    case 18:
      return key == "Process Group Name" ? Field::GroupName : Field::Other;
    case 19:
      return key == "Process Group Ranks" ? Field::GroupRanks : Field::Other;
    default:
      return Field::Other;
  }
}

std::optional<std::int64_t> parse_time(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  std::int64_t value = 0;
  int decimals = -1;  // -1: before the point
  for (const char c : digits.substr(negative ? 1 : 0)) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
    } else if (c < '0' || c > '9') {  // perhaps an exponent, NaN or Inf
      double real = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), real);
      if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
      if (!(std::fabs(real) < static_cast<double>(kLatest) / 1000)) return std::nullopt;
      return std::llround(real * 1000);
    } else if (decimals < 3) {
      if (value > kLatest / 10) return std::nullopt;
      value = value * 10 + (c - '0');
      if (decimals >= 0) ++decimals;
    } else {
      if (decimals == 3 && c >= '5') ++value;
      decimals = 4;
    }
  }
  for (int i = std::max(decimals, 0); i < 3; ++i) {
    if (value > kLatest / 10) return std::nullopt;
    value *= 10;
  }
  return negative ? -value : value;
}

}  // namespace lockstep::kineto
