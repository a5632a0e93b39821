#include "core/trace/kineto/span_source.hpp"

#include <map>

#include "core/trace/gzip_file.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

const std::string kEvents = R"({"traceEvents":[
  {"ph":"X","cat":"kernel","name":"gelu","pid":0,"tid":7,"ts":90,"dur":10,"args":{"grid":[1,1,1]}},
  {"ph":"X","cat":"kernel","name":"gemm \"a\"","pid":0,"tid":7,"ts":5,"dur":30,
   "args":{"External id":12,"grid":[256, 1, 1],"block":[128,1,1],"registers per thread":64,
           "est. achieved occupancy %":37.5,"Input Dims":[[2,3],[]],"Collective name":"none"}},
  {"ph":"B","cat":"cpu_op","name":"half","pid":1,"tid":1,"ts":1,"args":{"Ev Idx":4}},
  {"ph":"E","pid":1,"tid":1,"ts":50},
  {"ph":"X","cat":"cpu_op","name":"bare","pid":1,"tid":1,"ts":60,"dur":1}]})";

std::size_t span_named(const Trace& trace, const std::string& name) {
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    if (trace.names[trace.roles[0].ops[trace.spans[i].op].name] == name) return i;
  }
  FAIL("no span " + name);
  return 0;
}

TEST_CASE("every argument of a span is read back from its file, plain or compressed",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  write_bytes(folder / "t.json", kEvents);
  GzipWriter compressed(folder / "t.json.gz", true);
  compressed.text(kEvents);
  REQUIRE(compressed.commit().ok());
  for (const char* name : {"t.json", "t.json.gz"}) {
    INFO(name);
    const Result<ImportedTrace> imported = read_kineto({folder / name});
    REQUIRE(imported.ok());
    const Trace& t = imported->trace;
    REQUIRE(imported->sources.offsets.size() == t.spans.size());
    const auto arguments = [&](const std::string& span) {
      const Result<SpanArguments> read = read_arguments(imported->sources, t, span_named(t, span));
      INFO((read ? "" : to_string(read.error())));
      REQUIRE(read.ok());
      return *read;
    };
    CHECK(arguments("gemm \"a\"") == SpanArguments{{"Category", "kernel"},
                                                   {"External id", "12"},
                                                   {"grid", "[256, 1, 1]"},
                                                   {"block", "[128, 1, 1]"},
                                                   {"registers per thread", "64"},
                                                   {"est. achieved occupancy %", "37.5"},
                                                   {"Input Dims", "[[2, 3], []]"},
                                                   {"Collective name", "none"}});
    CHECK(arguments("gelu") == SpanArguments{{"Category", "kernel"}, {"grid", "[1, 1, 1]"}});
    CHECK(arguments("half") == SpanArguments{{"Category", "cpu_op"}, {"Ev Idx", "4"}});
    CHECK(arguments("bare") == SpanArguments{{"Category", "cpu_op"}});
  }
}

TEST_CASE("every span of a profile of eight ranks finds its own event", "[core][trace][kineto]") {
  const auto imported = read_any_trace(LOCKSTEP_SOURCE_DIR "/tests/data/kineto-fsdp8");
  REQUIRE(imported.ok());
  std::size_t with_category = 0;
  for (std::size_t i = 0; i < imported->trace.spans.size(); i += 97) {  // names are checked within
    const auto read = read_arguments(imported->sources, imported->trace, i);
    REQUIRE(read.ok());
    with_category += read->front().first == "Category" ? 1 : 0;
  }
  CHECK(with_category > 10);
}

TEST_CASE("a file that has changed since is noticed", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  write_bytes(folder / "t.json", kEvents);
  const Result<ImportedTrace> imported = read_kineto({folder / "t.json"});
  REQUIRE(imported.ok());
  write_bytes(folder / "t.json", kEvents.substr(40));
  const auto read = read_arguments(imported->sources, imported->trace, 0);
  REQUIRE_FALSE(read.ok());
  CHECK_THAT(to_string(read.error()), ContainsSubstring("has changed"));
  CHECK_FALSE(read_arguments({}, imported->trace, 0).ok());
}

TEST_CASE("what an allocator says becomes the rank's memory", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  write_bytes(folder / "t.json", R"([
    {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":10},
    {"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":12,
     "args":{"Device Type":0,"Device Id":-1,"Bytes":8,"Total Allocated":8,"Total Reserved":0}},
    {"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":16,
     "args":{"Device Type":1,"Device Id":0,"Bytes":512,"Total Allocated":512,"Total Reserved":2048}},
    {"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":14,
     "args":{"Device Type":1,"Device Id":0,"Bytes":1536,"Total Allocated":1536,"Total Reserved":2048}},
    {"ph":"i","s":"t","name":"a mark","pid":1,"tid":1,"ts":15}])");
  const Result<ImportedTrace> imported = read_kineto({folder / "t.json"});
  REQUIRE(imported.ok());
  const Trace& t = imported->trace;
  CHECK(t.memory_kinds == std::vector<std::string>{"allocated", "cached"});
  REQUIRE(t.memory.size() == 2);  // of the GPU; the host's is another memory
  CHECK(t.memory[0] == MemorySample{0, SimTime{4'000'000}, {1536, 512}});
  CHECK(t.memory[1] == MemorySample{0, SimTime{6'000'000}, {512, 1536}});
  CHECK(t.peak_memory == std::vector<std::int64_t>{2048});
  CHECK(imported->counts.not_spans == 1);
}

}  // namespace
}  // namespace lockstep
