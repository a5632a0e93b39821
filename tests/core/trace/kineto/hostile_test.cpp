// Tests what a reader of other people's files must survive: every error names its place, and
// nothing crashes.
#include <random>
#include <string>
#include <vector>

#include "core/trace/json_text.hpp"
#include "core/trace/kineto/fields.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "core/trace/kineto/names.hpp"
#include "tests/catch.hpp"
#include "tests/core/trace/sound_trace.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

const std::string kFile = LOCKSTEP_SOURCE_DIR "/tests/data/kineto/rank0.json";

Result<ImportedTrace> read_text(const TemporaryFolder& folder, const std::string& text) {
  write_bytes(folder / "bad.json", text);
  return read_kineto({folder / "bad.json"});
}

TEST_CASE("a bad trace is refused with its place and what is wrong", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& text, const std::string& message) {
    const auto read = read_text(folder, text);
    INFO(text.substr(0, 80));
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().kind == ErrorKind::Parse);
    CHECK_THAT(to_string(read.error()), ContainsSubstring("bad.json:"));
    CHECK_THAT(to_string(read.error()), ContainsSubstring(message));
  };
  refuse("", ":1:1: not a trace: The document is empty. (byte 0)");
  refuse("hello", ":1:1: not a trace: Invalid value. (byte 0)");
  refuse("{}", ": not a trace: neither a list of events nor an object with \"traceEvents\"");
  refuse("7", ": not a trace: neither a list");
  refuse("{\"traceEvents\": 5}", ":1:18: not a trace: \"traceEvents\" is not a list (byte 17)");
  refuse("{\"traceEvents\": {\"a\": []}}", "not a trace: \"traceEvents\" is not a list");
  refuse("[\n  7\n]", ":2:4: not a trace: an event is not an object (byte 5)");
  refuse("[[]]", "an event is not an object");
  refuse("[{\"a\": 1}, {}]", ": not a trace: neither a list of events");
  refuse("[\n{\"ph\": \"X\",\n \"ts\": \"now\"}]",
         ":3:13: not a trace: \"ts\" is not a time in microseconds: now (byte 26)");
  refuse("[{\"ph\": \"X\", \"ts\": null}]", "an event without \"ts\"");
  refuse("[{\"ph\": \"X\", \"ts\": [1]}]", "\"ts\" is not a time in microseconds");
  refuse("[{\"ph\": \"X\", \"ts\": 1, \"dur\": {}}]", "\"dur\" is not a time in microseconds");
  refuse("[{\"ph\": \"X\", \"ts\": 1e300}]", "\"ts\" is not a time in microseconds: 1e300");
  refuse("[{\"ph\": \"X\", \"ts\": 99999999999999999999}]", "\"ts\" is not a time");
  refuse("[{\"ph\": \"X\", \"ts\": NaN}]", "\"ts\" is not a time");
  refuse("[{\"ph\": \"X\", \"ts\": 1, \"dur\": 1e400}]", "not a trace: ");
  refuse("[{\"ph\": \"X\"}]", "an event without \"ts\"");
  refuse("[{\"ph\": \"X\", \"ts\": 0, \"dur\": 9e14}]",
         ": not a trace: it is longer than a hundred days");
  refuse("{\"baseTimeNanoseconds\": -4, \"traceEvents\": []}",
         "\"baseTimeNanoseconds\" is not a time");
  refuse("[{\"ph\": \"X\" \"ts\": 1}]",
         ":1:13: not a trace: Missing a comma or '}' after an object member.");
  refuse("[]\n[]", ":2:1: not a trace: The document root must not be followed by other values.");
  refuse(std::string(2000, '['), ":1:2: not a trace: an event is not an object (byte 1)");
  refuse("{\"a\": " + std::string(5000000, '['),
         ":1:1006: not a trace: nested deeper than 1000 levels");
  refuse("{\"a\": \"" + std::string((64 << 20) + (1 << 20), 'x'), "a value of more than 64 MiB");
  refuse(std::string("\x1f\x8b\x08\x00garbage", 11), "unexpected end of file");
}

TEST_CASE("a trace cut off anywhere keeps what came before, or is refused",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const std::string text = read_bytes(kFile);
  std::size_t kept = 0, before = 0;
  for (std::size_t size = 0; size < text.size() - 2; ++size) {
    const auto read = read_text(folder, text.substr(0, size));
    if (!read) {
      CHECK(read.error().where.has_value());
      CHECK(before == 0);
      continue;
    }
    ++kept;
    CHECK(read->trace.spans.size() >= before);
    before = read->trace.spans.size();
    bool told = false;
    for (const std::string& remark : read->remarks) {
      told |= remark.find("the file ends here, in the middle") != std::string::npos;
    }
    CHECK(told);
  }
  CHECK(kept > 1000);
  CHECK(before == 19);
}

TEST_CASE("a trace with bytes and numbers changed at random is refused or sound",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const std::string text = read_bytes(kFile);
  const std::vector<std::string> pieces = {"0",
                                           "-1",
                                           "1e18",
                                           "4503599627370496",
                                           "9223372036854775807",
                                           "null",
                                           "{}",
                                           "[]",
                                           "\"X\"",
                                           "\"B\"",
                                           "\"E\"",
                                           "\"s\"",
                                           "\"f\"",
                                           ",",
                                           "}",
                                           "]"};
  std::mt19937 random(1);  // the same on every machine, unlike the library's distributions
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int sound = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string changed = text;
    for (std::size_t change = 0; change <= below(4); ++change) {
      const std::size_t at = below(changed.size());
      switch (below(4)) {
        case 0:
          changed[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          changed.erase(at, 1 + below(20));
          break;
        case 2: {  // a value in the place of another
          const std::size_t colon = changed.find(": ", at);
          if (colon == std::string::npos) break;
          const std::size_t end = changed.find_first_of(",}\n", colon + 2);
          changed.replace(colon + 2, end - colon - 2, pieces[below(pieces.size())]);
          break;
        }
        default:
          changed.insert(at, text.substr(below(text.size()), below(80)));
      }
    }
    INFO("round " << round);
    const auto read = read_text(folder, changed);
    if (!read) {
      ++refused;
      CHECK(read.error().where.has_value());
      continue;
    }
    ++sound;
    CHECK(test::unsound(read->trace) == "");
    CHECK(read->counts.spans == static_cast<std::int64_t>(read->trace.spans.size()));
  }
  CHECK(sound > 300);
  CHECK(refused > 300);
}

TEST_CASE("more events at one time than any call stack has are refused", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  std::string text = "[";
  for (int i = 0; i < 5000; ++i) {
    text += std::string(i == 0 ? "" : ",") +
            R"({"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 0, "dur": 9})";
  }
  const auto read = read_text(folder, text + "]");
  REQUIRE_FALSE(read.ok());
  CHECK_THAT(to_string(read.error()), ContainsSubstring("more than 4096 events at one time"));
}

TEST_CASE("escapes and control characters are mended wherever a piece ends",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const std::string tail = "\", \"pid\": 1, \"tid\": 1, \"ts\": 0}]";
  // "\q" is no escape, \u0041 is A, a raw tab and newline stand in a string.
  const std::string odd = "C:\\qx \\u0041 \\\\ \\u00 \t\n\\\" end";
  for (std::size_t shift = 0; shift < 40; ++shift) {
    const std::string head = "[{\"ph\": \"X\", \"name\": \"";
    const std::string fill(JsonText::kChunk - head.size() - shift, 'x');
    const auto read = read_text(folder, head + fill + odd + tail);
    INFO((read ? "" : to_string(read.error())));
    REQUIRE(read.ok());
    REQUIRE(read->trace.names.at(0) == fill + "C:/qx A \\ /u00   \" end");
  }
}

TEST_CASE("times are read to the nanosecond, at any size", "[core][trace][kineto]") {
  using kineto::parse_time;
  CHECK(parse_time("0") == 0);
  CHECK(parse_time("12") == 12000);
  CHECK(parse_time("12.3") == 12300);
  CHECK(parse_time("4458677009853.422") == 4458677009853422);
  CHECK(parse_time("1712195495519695.8") == 1712195495519695800);
  CHECK(parse_time("-1.5") == -1500);
  CHECK(parse_time("0.0004") == 0);
  CHECK(parse_time("0.0005") == 1);
  CHECK(parse_time("0.99951") == 1000);
  CHECK(parse_time("1.5e3") == 1500000);
  CHECK_FALSE(parse_time("1e30").has_value());
  CHECK_FALSE(parse_time("99999999999999999").has_value());
  CHECK_FALSE(parse_time("NaN").has_value());
  CHECK_FALSE(parse_time("1x").has_value());
}

TEST_CASE("collectives are known by PyTorch's names and by NCCL's kernels",
          "[core][trace][kineto]") {
  using namespace kineto;  // NOLINT: the names under test
  const auto kind = [](const char* name) {
    return std::string(to_string(kind_of_collective(name)));
  };
  CHECK(kind("allreduce") == "all_reduce");
  CHECK(kind("_allgather_base") == "all_gather");
  CHECK(kind("_reduce_scatter_base") == "reduce_scatter");
  CHECK(kind("reduce_scatter_tensor_coalesced") == "reduce_scatter");
  CHECK(kind("all_to_allv") == "all_to_all");
  CHECK(kind("broadcast") == "broadcast");
  CHECK(kind("reduce") == "reduce");
  CHECK(kind("gather") == "gather");
  CHECK(kind("send") == "send");
  CHECK(kind("recv") == "recv");
  CHECK(kind("ncclDevKernel_SendRecv(ncclDevComm*)") == "send_recv");
  CHECK(kind("ncclKernel_AllReduce_RING_LL_Sum_float(reduce*)") == "all_reduce");
  CHECK(kind("wait") == "communication");
  CHECK(is_collective_kernel("ncclDevKernel_Broadcast_RING_LL"));
  CHECK(is_collective_kernel("void ncclKernel_x()"));
  CHECK_FALSE(is_collective_kernel("gemm"));
  CHECK(bytes_of_dtype("BFloat16") == 2);
  CHECK(bytes_of_dtype("Mystery") == 0);
  CHECK(parse_ranks("[0, 8, 16, ...]") == std::vector<int>{0, 8, 16});
  CHECK(parse_ranks("").empty());
  CHECK(step_of("ProfilerStep#12") == 12);
  CHECK(step_of("ProfilerStep#") == -1);
  CHECK(step_of("ProfilerStep#1x") == -1);
}

}  // namespace
}  // namespace lockstep
