#include "core/checkpoint/manifest.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/hash.hpp"
#include "core/base/json_depth.hpp"
#include "core/base/mix.hpp"
#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

std::string hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::optional<std::uint64_t> from_hex(const json& value) {
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoull(text, nullptr, 16);
}

json hex_map(const std::map<std::string, std::uint64_t>& map) {
  json object = json::object();
  for (const auto& [name, number] : map) object[name] = hex(number);
  return object;
}

bool read_hex_map(const json& object, std::map<std::string, std::uint64_t>& map) {
  if (!object.is_object()) return false;
  for (const auto& [name, value] : object.items()) {
    const auto number = from_hex(value);
    if (!number) return false;
    map[name] = *number;
  }
  return true;
}

json body_of(const Manifest& m) {
  json settings = json::array();
  for (const auto& [key, value] : m.settings) settings.push_back({key, value});
  return {{"format", 1},
          {"run", m.run},
          {"version", m.version},
          {"step", m.step},
          {"samples", m.samples},
          {"settings", settings},
          {"heads", hex_map(m.heads)},
          {"tensors", hex_map(m.tensors)}};
}

/// Calls visit(element index, bits as uint64) for each element.
template <class T, class Visit>
void each_element(std::span<const std::byte> values, Visit&& visit) {
  for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) {
    T bits{};
    std::memcpy(&bits, values.data() + i * sizeof(T), sizeof(T));
    visit(static_cast<std::int64_t>(i), bits);
  }
}

template <class Visit>
void visit_bits(std::span<const std::byte> values, DType dtype, Visit&& visit) {
  switch (size_of(dtype)) {
    case 1:
      return each_element<std::uint8_t>(values, visit);
    case 2:
      return each_element<std::uint16_t>(values, visit);
    case 8:
      return each_element<std::uint64_t>(values, visit);
    default:
      return each_element<std::uint32_t>(values, visit);
  }
}

/// The bits of an element's exponent: all of them are set in an infinity and in a NaN. 0 for
/// integers.
std::uint64_t exponent_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return 0x7f800000U;
    case DType::F64:
      return 0x7ff0000000000000U;
    case DType::BF16:
      return 0x7f80U;
    case DType::F16:
      return 0x7c00U;
    default:
      return 0;
  }
}

}  // namespace

std::string print_manifest(const Manifest& manifest) {
  const json body = body_of(manifest);
  const json whole = {
      {"checksum", hex(fnv1a(body.dump(-1, ' ', false, json::error_handler_t::replace)))},
      {"manifest", body}};
  return whole.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Manifest> parse_manifest(const std::string& text, const std::string& path) {
  const auto damaged = [&](const std::string& what) {
    return Error{ErrorKind::Parse, path + ": damaged: " + what, std::nullopt};
  };
  const json whole = nests_too_deep(text) ? json() : json::parse(text, nullptr, false);
  if (!whole.is_object() || !whole.contains("manifest") || !whole.contains("checksum")) {
    return damaged("not the text of a manifest");
  }
  const json& body = whole["manifest"];
  if (from_hex(whole["checksum"]) !=
      fnv1a(body.dump(-1, ' ', false, json::error_handler_t::replace))) {
    return damaged("its checksum is not that of its text");
  }
  Manifest m;
  try {
    if (body.at("format") != 1) {
      return Error{ErrorKind::Unsupported,
                   path + ": format " + body.at("format").dump() + " is newer than this program",
                   std::nullopt};
    }
    m.run = body.at("run").get<std::string>();
    m.version = body.at("version").get<std::string>();
    m.step = body.at("step").get<int>();
    m.samples = body.at("samples").get<std::int64_t>();
    for (const json& setting : body.at("settings")) {
      m.settings.emplace_back(setting.at(0).get<std::string>(), setting.at(1).get<std::string>());
    }
    constexpr std::int64_t kMostSamples = std::int64_t{1} << 60;  // far from where sums overflow
    if (m.step < 0 || m.samples < 0 || m.samples > kMostSamples ||
        !read_hex_map(body.at("heads"), m.heads) || !read_hex_map(body.at("tensors"), m.tensors)) {
      return damaged("a number that cannot be");
    }
  } catch (const json::exception& fault) {
    return damaged(fault.what());
  }
  return m;
}

Result<Manifest> read_manifest(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.error();
  return parse_manifest(*text, path);
}

std::uint64_t checksum_of(std::span<const std::byte> values, DType dtype, std::int64_t first) {
  std::uint64_t sum = 0;
  visit_bits(values, dtype, [&](std::int64_t i, std::uint64_t bits) {
    sum += mix64(bits ^ (static_cast<std::uint64_t>(first + i + 1) * kGoldenGamma));
  });
  return sum;
}

std::optional<std::int64_t> first_not_finite(std::span<const std::byte> values, DType dtype) {
  const std::uint64_t exponent = exponent_of(dtype);
  if (exponent == 0) return std::nullopt;
  std::int64_t found = -1;
  visit_bits(values, dtype, [&](std::int64_t i, std::uint64_t bits) {
    if (found < 0 && (bits & exponent) == exponent) found = i;
  });
  if (found < 0) return std::nullopt;
  return found;
}

}  // namespace lockstep
