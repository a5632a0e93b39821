// EventLog: scalars by step in TensorBoard's format, events.out.tfevents.*: records with a length
// and checksums (TFRecord), each a protocol buffer of kind tensorboard.Event.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

class EventLog {
 public:
  /// Opens a new file in `folder`, which is made if it does not exist. Its name is unique for a
  /// second and a first step, and sorts behind those of earlier times, as TensorBoard expects. What
  /// earlier files say of steps from `first_step` on no longer counts there.
  static Result<EventLog> open(const std::string& folder, int first_step);
  /// Forgets what was said of steps from `step` on.
  Result<void> restart(std::int64_t step);
  /// Writes the values of a step. Error Device, for example if the disk is full.
  Result<void> append(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);

 private:
  Result<void> write(std::string_view event);
  std::string path_;
  std::ofstream file_;
};

/// CRC-32C of Castagnoli (RFC 3720), reflected.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace lockstep
