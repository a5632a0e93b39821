#include "core/run_folder/event_log.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "core/base/protobuf.hpp"
#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Fields of tensorboard.Event, Summary, Summary.Value and SessionLog (tensorflow/core/util/
// event.proto, framework/summary.proto).
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr std::uint32_t kValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1;
constexpr std::uint64_t kStart = 1;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A checksum of what may hold checksums itself is masked (tensorflow/tsl/lib/hash/crc32c.h).
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8U; }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < t.size(); ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1U ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
      t[i] = crc;
    }
    return t;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xffU] ^ crc >> 8U;
  return ~crc;
}

Result<EventLog> EventLog::open(const std::string& folder, int first_step) {
  std::error_code error;
  fs::create_directories(folder, error);
  const double now = seconds_since_1970();
  EventLog log;
  log.path_ =
      (fs::path(folder) / ("events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now)) +
                           ".lockstep." + std::to_string(first_step)))
          .string();
  log.file_ = open_own_file(log.path_, Begin::Empty);
  ProtobufWriter version;
  version.real(kWallTime, now);
  version.bytes(kFileVersion, "brain.Event:2");
  if (auto written = log.write(version.text()); !written) return written.error();
  if (first_step > 0) {
    if (auto written = log.restart(first_step + 1); !written) return written.error();
  }
  return log;
}

Result<void> EventLog::restart(std::int64_t step) {
  ProtobufWriter session, event;
  session.varint(kStatus, kStart);
  event.real(kWallTime, seconds_since_1970());
  event.varint(kStep, static_cast<std::uint64_t>(step));
  event.bytes(kSessionLog, session.text());
  return write(event.text());
}

Result<void> EventLog::append(std::int64_t step,
                              const std::vector<std::pair<std::string, double>>& values) {
  ProtobufWriter summary;
  for (const auto& [tag, value] : values) {
    ProtobufWriter scalar;
    scalar.bytes(kTag, tag);
    scalar.single(kSimpleValue, static_cast<float>(value));
    summary.bytes(kValue, scalar.text());
  }
  ProtobufWriter event;
  event.real(kWallTime, seconds_since_1970());
  event.varint(kStep, static_cast<std::uint64_t>(step));
  event.bytes(kSummary, summary.text());
  return write(event.text());
}

Result<void> EventLog::write(std::string_view event) {
  ProtobufWriter length, before, after;
  length.fixed(event.size(), 8);
  before.fixed(masked(crc32c(length.text())), 4);
  after.fixed(masked(crc32c(event)), 4);
  file_ << length.text() << before.text() << event << after.text() << std::flush;
  if (file_) return {};
  file_.clear();
  return Error{ErrorKind::Device, "cannot write " + path_, std::nullopt};
}

}  // namespace lockstep
