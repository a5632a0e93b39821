#include "core/checkpoint/layout.hpp"

#include <charconv>

namespace lockstep::checkpoint {

namespace {

/// The length of "<word><i>." at the beginning of a name; 0 if it does not begin so.
std::size_t length_of_numbered(std::string_view name, std::string_view word) {
  const std::size_t dot = name.find('.');
  if (!name.starts_with(word) || dot == std::string_view::npos) return 0;
  return parse_count(name.substr(word.size(), dot - word.size())) ? dot + 1 : 0;
}

}  // namespace

std::string_view parameter_of(std::string_view name) {
  if (const std::size_t feedback = length_of_numbered(name, "feedback"); feedback > 0) {
    return name.substr(feedback);
  }
  const std::size_t replica = length_of_numbered(name, "replica");
  name.remove_prefix(replica);
  for (std::string_view prefix : {"adam_m.", "adam_v.", "adafactor_rows.", "adafactor_columns.",
                                  "outer.", "outer_momentum.", "sketch."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return replica > 0 ? name : std::string_view{};
}

bool has_own_shape(std::string_view name) {
  name.remove_prefix(length_of_numbered(name, "replica"));
  return name.starts_with("adafactor_") || name.starts_with("sketch.");
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
