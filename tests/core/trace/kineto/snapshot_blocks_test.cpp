#include <map>
#include <random>

#include "core/trace/kineto/memory_snapshot.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kMib = 1 << 20;

/// Values in protocol 2 of Python's pickle.
struct Pickled {
  static std::string number(std::int64_t value) {
    std::string bytes = "\x8a\x08";
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  }
  static std::string text(const std::string& words) {
    std::string bytes = "X";
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(words.size() >> (8 * i));
    return bytes + words;
  }
  static std::string list(const std::vector<std::string>& items) {
    std::string bytes = "](";
    for (const std::string& item : items) bytes += item;
    return bytes + "e";
  }
  static std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
    std::string bytes = "}(";
    for (const auto& [key, value] : items) bytes += text(key) + value;
    return bytes + "u";
  }
};

std::string frame(const std::string& file, const std::string& name, int line) {
  return Pickled::dict({{"filename", Pickled::text(file)},
                        {"name", Pickled::text(name)},
                        {"line", Pickled::number(line)}});
}

std::string event(const std::string& action, std::int64_t address, std::int64_t bytes,
                  std::int64_t us) {
  return Pickled::dict(
      {{"action", Pickled::text(action)},
       {"addr", Pickled::number(address)},
       {"size", Pickled::number(bytes)},
       {"time_us", Pickled::number(us)},
       {"frames",
        Pickled::list({frame("/lib/torch/nn/linear.py", "forward", 114),
                       frame("/work/train.py", "step" + std::to_string(bytes / kMib), 7)})}});
}

TEST_CASE("a snapshot's blocks have the addresses, times and lines of code of its history",
          "[core][trace][kineto]") {
  const auto read =
      read_any_trace(LOCKSTEP_SOURCE_DIR "/tests/data/memory-snapshot/snapshot-protocol4.pickle");
  REQUIRE(read.ok());
  const Allocations& blocks = read->allocations;
  // A segment of 20 MiB that is there throughout, and one of 40 that comes and goes far above it.
  CHECK(blocks.extent == std::vector<std::int64_t>{60 * kMib});
  REQUIRE(blocks.list.size() == 2);
  CHECK(blocks.names == std::vector<std::string>{"forward train.py:12"});
  const SimTime us{1'000'000};
  CHECK(blocks.list[0] == Allocation{0, 0, 0, 2 * kMib, SimTime{0}, 3'000'010 * us});
  CHECK(blocks.list[1] == Allocation{0, 0, 20 * kMib, 30 * kMib, 20 * us, 30 * us});
}

TEST_CASE("blocks in use at a moment do not overlap and are what the history has allocated",
          "[core][trace][kineto]") {
  const auto seed = GENERATE(1U, 2U, 3U, 4U, 5U);
  INFO("seed " << seed);
  std::mt19937 random(seed);
  // Two segments that lie far apart; blocks of whole MiB, the first place that is free.
  constexpr std::int64_t kSegments[] = {0x7f0000000000, 0x7f8000000000};
  constexpr int kSize = 64;
  std::map<std::int64_t, std::int64_t> live;  // by address
  std::vector<std::string> events;
  const auto begun = [&] { return static_cast<std::int64_t>(1000 + 10 * events.size()); };
  const auto place = [&](std::int64_t bytes) {
    for (const std::int64_t segment : kSegments) {
      std::int64_t at = segment;
      for (const auto& [address, size] : live) {
        if (address < segment || address >= segment + kSize * kMib) continue;
        if (address - at >= bytes) return at;
        at = address + size;
      }
      if (segment + kSize * kMib - at >= bytes) return at;
    }
    return std::int64_t{-1};
  };
  live[place(3 * kMib)] = 3 * kMib;  // in use before the history and after it
  live[place(5 * kMib)] = 5 * kMib;  // freed in the history, which never allocated it
  std::int64_t first = std::prev(live.end())->first;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t bytes = (1 + static_cast<std::int64_t>(random() % 12)) * kMib;
    const std::int64_t at = place(bytes);
    if (i == 100) {
      events.push_back(event("free_completed", first, 5 * kMib, begun()));
      live.erase(first);
    } else if (at >= 0 && random() % 2 == 0) {
      events.push_back(event("alloc", at, bytes, begun()));
      live[at] = bytes;
    } else if (live.size() > 2) {
      auto gone = std::next(live.begin(), 2 + static_cast<int>(random() % (live.size() - 2)));
      if (gone->first == first) continue;
      events.push_back(event("free_completed", gone->first, gone->second, begun()));
      live.erase(gone);
    }
  }
  std::vector<std::string> segments;
  for (const std::int64_t segment : kSegments) {
    std::vector<std::string> used;
    for (const auto& [address, size] : live) {
      if (address < segment || address >= segment + kSize * kMib) continue;
      used.push_back(Pickled::dict({{"address", Pickled::number(address)},
                                    {"size", Pickled::number(size)},
                                    {"state", Pickled::text("active_allocated")}}));
    }
    segments.push_back(Pickled::dict({{"device", Pickled::number(0)},
                                      {"address", Pickled::number(segment)},
                                      {"total_size", Pickled::number(kSize * kMib)},
                                      {"blocks", Pickled::list(used)}}));
  }
  const TemporaryFolder folder;
  write_bytes(folder / "s.pickle",
              "\x80\x02" +
                  Pickled::dict({{"segments", Pickled::list(segments)},
                                 {"device_traces", Pickled::list({Pickled::list(events)})}}) +
                  ".");
  const auto read = read_any_trace(folder / "s.pickle");
  INFO((read ? "" : to_string(read.error())));
  REQUIRE(read.ok());
  const Allocations& blocks = read->allocations;
  CHECK(blocks.extent == std::vector<std::int64_t>{2 * kSize * kMib});
  REQUIRE(read->trace.memory.size() == events.size());
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {  // at the last one, all blocks end
    const MemorySample& sample = read->trace.memory[i];
    std::int64_t bytes = 0;
    std::map<std::int64_t, std::int64_t> now;  // by offset
    for (const Allocation& block : blocks.list) {
      if (block.from > sample.time || block.until <= sample.time) continue;
      now[block.offset] = block.bytes;
      bytes += block.bytes;
    }
    CHECK(bytes == sample.bytes_by_kind[0]);
    std::int64_t end = 0;
    for (const auto& [offset, size] : now) {
      CHECK(offset >= end);
      end = offset + size;
    }
    CHECK(end <= 2 * kSize * kMib);
  }
  for (const Allocation& block : blocks.list) {
    const std::string& name = blocks.names[block.asked_by];
    CHECK((name == "step" + std::to_string(block.bytes / kMib) + " train.py:7" ||
           name == "no stack was recorded"));
  }
}

}  // namespace
}  // namespace lockstep
