#include "core/checkpoint/layout.hpp"

#include <algorithm>
#include <charconv>

#include "core/ir/unit.hpp"

namespace lockstep::checkpoint {

namespace {

/// The length of "<word><i>." at the beginning of a name; 0 if it does not begin so.
std::size_t length_of_numbered(std::string_view name, std::string_view word) {
  const std::size_t dot = name.find('.');
  if (!name.starts_with(word) || dot == std::string_view::npos) return 0;
  return parse_count(name.substr(word.size(), dot - word.size())) ? dot + 1 : 0;
}

/// Whether a name is "<state>.<parameter>".
bool is_of(std::string_view name, const StateRow& row) {
  return name.starts_with(row.name) && name.substr(row.name.size()).starts_with('.');
}

}  // namespace

std::string_view parameter_of(std::string_view name) {
  for (const StateRow& row : kStates) {
    const std::size_t own = row.holder == Holder::Rank ? length_of_numbered(name, row.name) : 0;
    if (own > 0) return name.substr(own);
  }
  const std::size_t replica = length_of_numbered(name, "replica");
  name.remove_prefix(replica);
  for (const StateRow& row : kStates) {
    if (!row.is_parameters() && row.holder != Holder::Rank && is_of(name, row)) {
      return name.substr(row.name.size() + 1);
    }
  }
  for (const std::string_view prefix : {kFactorRows, kFactorColumns}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return replica > 0 ? name : std::string_view{};
}

bool has_own_shape(std::string_view name) {
  name.remove_prefix(length_of_numbered(name, "replica"));
  return name.starts_with(kFactorRows) || name.starts_with(kFactorColumns) ||
         std::any_of(kStates.begin(), kStates.end(), [&](const StateRow& row) {
           return row.extent == Extent::Factors && is_of(name, row);
         });
}

const char* file_of(std::string_view tensor) {
  return parameter_of(tensor).empty() ? kModelFile : kOptimizerFile;
}

std::optional<int> parse_count(std::string_view text) {
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<int> step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  return parse_count(name.substr(kStepPrefix.size()));
}

Result<std::map<std::string, SafetensorsIndex>> lay_out_files(const StateHead& head) {
  std::map<std::string, std::map<std::string, TensorInfo>> tensors;
  tensors[kModelFile];
  tensors[kOptimizerFile];
  for (const auto& [name, info] : head.tensors) tensors[file_of(name)][name] = info;
  std::map<std::string, SafetensorsIndex> files;
  for (const auto& [file, infos] : tensors) {
    std::map<std::string, std::string> metadata = head.notes;
    metadata["step"] = std::to_string(head.step);
    auto index = lay_out(infos, metadata);
    if (!index) return index.error();
    files[file] = std::move(*index);
  }
  return files;
}

}  // namespace lockstep::checkpoint
