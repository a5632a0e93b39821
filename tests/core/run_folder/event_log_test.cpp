#include "core/run_folder/event_log.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/run_folder/run_folder.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

/// The checksum bit by bit, as the polynomial's division says it.
std::uint32_t divided(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = static_cast<unsigned char>(c) >> bit & 1U;
      crc = (crc ^ in) & 1U ? crc >> 1U ^ 0x82f63b78U : crc >> 1U;
    }
  }
  return ~crc;
}

std::uint64_t number(const std::string& bytes, std::size_t at, int size) {
  std::uint64_t value = 0;
  for (int i = size; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

/// The records of a file, whose checksums are checked.
std::vector<std::string> records(const std::string& file) {
  const auto unmasked = [](std::uint64_t crc) {
    return std::rotl(static_cast<std::uint32_t>(crc) - 0xa282ead8U, 15);
  };
  std::vector<std::string> found;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t size = number(file, at, 8);
    REQUIRE(unmasked(number(file, at + 8, 4)) == divided(file.substr(at, 8)));
    found.push_back(file.substr(at + 12, size));
    REQUIRE(unmasked(number(file, at + 12 + size, 4)) == divided(found.back()));
    at += 16 + size;
  }
  return found;
}

/// The fields of a protocol buffer: numbers as they are, reals by their bits, the rest as bytes.
std::multimap<int, std::string> fields(const std::string& text) {
  std::multimap<int, std::string> found;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(text.at(at++));
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < text.size()) {
    const std::uint64_t key = varint();
    const int type = static_cast<int>(key & 7U);
    std::string value;
    if (type == 0) {
      value = std::to_string(varint());
    } else {
      REQUIRE((type == 1 || type == 2 || type == 5));
      const std::size_t size = type == 1 ? 8 : type == 5 ? 4 : varint();
      value = text.substr(at, size);
      at += size;
    }
    found.emplace(static_cast<int>(key >> 3U), value);
  }
  return found;
}

std::map<std::string, float> scalars(const std::string& event) {
  std::map<std::string, float> values;
  const auto parts_of_event = fields(event);
  const auto all = fields(parts_of_event.find(5)->second);
  for (const auto& [field, scalar] : all) {
    const auto parts = fields(scalar);
    float value = 0;
    std::memcpy(&value, parts.find(2)->second.data(), sizeof value);
    values[parts.find(1)->second] = value;
  }
  return values;
}

std::string only_file(const std::filesystem::path& folder) {
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    CHECK(path.empty());
    CHECK_THAT(entry.path().filename().string(), ContainsSubstring("events.out.tfevents."));
    path = entry.path().string();
  }
  return path;
}

TEST_CASE("the checksum is that of RFC 3720", "[core][run_folder]") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
}

TEST_CASE("TensorBoard's file begins as all of them do, and gives every value back",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  Result<EventLog> log = EventLog::open(folder / "tb", 0);
  REQUIRE(log.ok());
  REQUIRE(log->append(1, {{"loss", 5.5}, {"throughput(tps)", 1e6}}).ok());
  REQUIRE(log->append(300, {{"loss", std::nan("")}}).ok());
  const std::string file = read_bytes(only_file(folder / "tb"));
  // The first twelve bytes of any file that TensorFlow or PyTorch writes, and the field of a time.
  const std::string begin("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09", 13);
  CHECK(file.substr(0, 13) == begin);
  const auto events = records(file);
  REQUIRE(events.size() == 3);
  CHECK(fields(events[0]).find(3)->second == "brain.Event:2");
  CHECK(fields(events[1]).find(2)->second == "1");
  CHECK(scalars(events[1]) ==
        std::map<std::string, float>{{"loss", 5.5F}, {"throughput(tps)", 1e6F}});
  CHECK(fields(events[2]).find(2)->second == "300");
  CHECK(std::isnan(scalars(events[2]).at("loss")));
}

TEST_CASE("a run that goes back says so to TensorBoard, and its metrics are the same in both",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  auto metrics = MetricsLog::open(folder / "metrics.jsonl", 0, folder / "tb");
  REQUIRE(metrics.ok());
  for (const int step : {0, 1, 2, 1}) {
    StepResult result;
    result.step = step;
    result.loss = 3.0 - step;
    result.grad_norm = 0.25;
    result.lr = 0.5;
    result.time = {2.0};
    REQUIRE(metrics->append(result, 100).ok());
  }
  const auto events = records(read_bytes(only_file(folder / "tb")));
  REQUIRE(events.size() == 6);  // version, three steps, a restart, a step
  CHECK(fields(events[4]).find(2)->second == "2");
  CHECK(fields(fields(events[4]).find(7)->second).find(1)->second == "1");  // START
  CHECK(fields(events[5]).find(2)->second == "2");
  CHECK(scalars(events[5]) == std::map<std::string, float>{{"loss", 2.0F},
                                                           {"grad_norm", 0.25F},
                                                           {"lr", 0.5F},
                                                           {"time", 2.0F},
                                                           {"throughput(tps)", 50.0F}});
  CHECK(!EventLog::open("/dev/null/tb", 0).ok());
}

}  // namespace
}  // namespace lockstep
