// Keys and numbers of a Kineto event as they are written. Internal to core/trace/kineto.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace lockstep::kineto {

/// The keys of an event and of its "args" that the import reads.
enum class Field : std::uint8_t {
  Other,
  Ph,
  Name,
  Cat,
  Pid,
  Tid,
  Ts,
  Dur,
  Id,
  Args,
  ArgName,
  Correlation,
  Bytes,
  Collective,
  InElements,
  OutElements,
  Dtype,
  GroupName,
  GroupRanks,
  Seq,
  Source,
  Destination,
  DeviceType,
  DeviceId,
  TotalAllocated,
  TotalReserved
};

Field event_field(std::string_view key);
Field args_field(std::string_view key);

/// Microseconds, as written, in nanoseconds, rounded. Nothing if `digits` is not a number, or
/// beyond ±kLatest.
inline constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max() / 4;  // 2043
std::optional<std::int64_t> parse_time(std::string_view digits);

template <class T>
T parse_integer(std::string_view digits, T otherwise) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size() ? value : otherwise;
}

}  // namespace lockstep::kineto
