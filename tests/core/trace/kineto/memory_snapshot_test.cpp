#include "core/trace/kineto/memory_snapshot.hpp"

#include <filesystem>

#include "core/trace/gzip_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

const std::string kSnapshots = LOCKSTEP_SOURCE_DIR "/tests/data/memory-snapshot/";
constexpr std::int64_t kMib = 1 << 20;

TEST_CASE("a snapshot's history is told from its end backwards", "[core][trace][kineto]") {
  const Result<ImportedTrace> read = read_any_trace(kSnapshots + "snapshot-protocol4.pickle");
  INFO((read ? "" : to_string(read.error())));
  REQUIRE(read.ok());
  const Trace& t = read->trace;
  CHECK(t.backend == "memory snapshot");
  CHECK(t.rank_labels == std::vector<std::string>{"device 0"});  // device 1 has no history
  CHECK(t.memory_kinds == std::vector<std::string>{"allocated", "cached"});
  // At the end 12 MiB are in use of a segment of 20. The history adds and removes a segment of 40,
  // so that 20 were there at first; 2 MiB were added and stay, so that 10 were in use.
  const std::pair<std::int64_t, std::int64_t> expected[] = {
      // MiB allocated and cached
      {12, 8}, {12, 48}, {42, 18}, {42, 18}, {12, 48}, {12, 8}, {12, 8}, {12, 8}};
  REQUIRE(t.memory.size() == std::size(expected));
  for (std::size_t i = 0; i < t.memory.size(); ++i) {
    INFO(i);
    CHECK(t.memory[i].bytes_by_kind[0] == expected[i].first * kMib);
    CHECK(t.memory[i].bytes_by_kind[1] == expected[i].second * kMib);
  }
  CHECK(t.memory[0].time == SimTime{0});
  CHECK(t.memory[2].time == SimTime{20'000'000});
  CHECK(t.peak_memory == std::vector<std::int64_t>{60 * kMib});
  CHECK(read->remarks.front() == "out of memory after 3000 ms: 1048576 MiB were asked for");
}

TEST_CASE("the protocol of a pickle changes nothing", "[core][trace][kineto]") {
  const auto two = read_memory_snapshot(kSnapshots + "snapshot-protocol2.pickle");
  const auto four = read_memory_snapshot(kSnapshots + "snapshot-protocol4.pickle");
  REQUIRE(two.ok());
  REQUIRE(four.ok());
  CHECK(two->trace == four->trace);
}

TEST_CASE("a compressed snapshot reads the same", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  GzipWriter gzip(folder / "a.pickle.gz", true);
  gzip.text(read_bytes(kSnapshots + "snapshot-protocol4.pickle"));
  REQUIRE(gzip.commit().ok());
  const auto plain = read_any_trace(kSnapshots + "snapshot-protocol4.pickle");
  const auto compressed = read_any_trace(folder / "a.pickle.gz");
  REQUIRE(plain.ok());
  INFO((compressed ? "" : to_string(compressed.error())));
  REQUIRE(compressed.ok());
  CHECK(compressed->trace == plain->trace);
}

TEST_CASE("a pickle that calls a function is refused and not executed", "[core][trace][kineto]") {
  const auto read = read_any_trace(kSnapshots + "call.pickle");
  REQUIRE_FALSE(read.ok());
  CHECK_THAT(to_string(read.error()), ContainsSubstring("nothing of a pickle is executed"));
  CHECK_FALSE(std::filesystem::exists("executed"));
}

TEST_CASE("a pickle whose devices share one history is refused, not spread out",
          "[core][trace][kineto]") {
  using namespace std::string_literals;
  const auto text = [](const std::string& t) {
    return "X"s + static_cast<char>(t.size()) + "\0\0\0"s + t;
  };
  const auto shared = [&](int events, int devices) {
    std::string bytes = "\x80\x02}"s + text("device_traces") + "](](";
    for (int i = 0; i < events; ++i) bytes += "}";  // each an event, and the list of them is kept
    bytes += "eq\x01";
    for (int i = 1; i < devices; ++i) bytes += "h\x01";
    return bytes + "es.";
  };
  const TemporaryFolder folder;
  write_bytes(folder / "once.pickle", shared(10, 1));
  const auto once = read_any_trace(folder / "once.pickle");
  INFO((once ? "" : to_string(once.error())));
  CHECK(once.ok());
  write_bytes(folder / "often.pickle", shared(8000, 8000));  // 24 KB, and 64,000,000 events
  const auto often = read_any_trace(folder / "often.pickle");
  REQUIRE_FALSE(often.ok());
  CHECK_THAT(often.error().message, ContainsSubstring("lists the same events or blocks"));
}

TEST_CASE("a pickle without a history says how to get one", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  using namespace std::string_literals;
  write_bytes(folder / "a.pickle",
              "\x80\x02}X\x0d\x00\x00\x00"
              "device_traces]s."s);
  const auto empty = read_any_trace(folder / "a.pickle");
  REQUIRE_FALSE(empty.ok());
  CHECK_THAT(to_string(empty.error()), ContainsSubstring("_record_memory_history()"));
  write_bytes(folder / "b.pickle", "\x80\x02}."s);
  CHECK_THAT(to_string(read_any_trace(folder / "b.pickle").error()),
             ContainsSubstring("not a memory snapshot"));
}

}  // namespace
}  // namespace lockstep
