#include "core/trace/kineto/nsight.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#ifdef LOCKSTEP_HAVE_SQLITE
#include <sqlite3.h>
#endif

#include "core/trace/gzip_file.hpp"
#include "core/trace/kineto/span_source.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

#ifdef LOCKSTEP_HAVE_SQLITE

/// Makes a database with the tables of `nsys export --type sqlite` (2024.5), as far as they are
/// read, and the given rows.
std::string export_with(const TemporaryFolder& folder, const std::string& rows) {
  std::string path = folder / "report.sqlite";
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  const std::string tables = R"(
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
      contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
      demangledName INTEGER, shortName INTEGER, gridX INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
      streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
      correlationId INTEGER, nameId INTEGER);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER,
      text TEXT, textId INTEGER);
    CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);)";
  char* fault = nullptr;
  const int state = sqlite3_exec(db, (tables + rows).c_str(), nullptr, nullptr, &fault);
  INFO((fault != nullptr ? fault : ""));
  REQUIRE(state == SQLITE_OK);
  sqlite3_close(db);
  return path;
}

// Process 1 is globalPid 0x01000000: its thread 5 launches a kernel, and a copy, within a range.
const std::string kOneProcess = R"(
  INSERT INTO StringIds VALUES (1,'gemm'),(2,'cudaLaunchKernel'),(3,'cudaMemcpyAsync'),(4,'train'),
    (5,'python'),(6,'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)');
  INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000,5000,0,1,7,11,16777216,1,1,64),
    (5000,9000,0,1,20,13,16777216,6,6,24);
  INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (6000,7000,0,7,12,16777216,4096,1);
  INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000,1200,16777221,11,2),
    (1300,1400,16777221,12,3),(1500,1600,16777221,13,2);
  INSERT INTO NVTX_EVENTS VALUES (900,8000,59,16777221,NULL,4),(950,NULL,34,16777221,'mark',NULL);
  INSERT INTO ThreadNames VALUES (5,0,16777221);)";

TEST_CASE("kernels, copies, calls and ranges of an export of Nsight Systems are spans",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const Result<ImportedTrace> read = read_any_trace(export_with(folder, kOneProcess));
  INFO((read ? "" : to_string(read.error())));
  REQUIRE(read.ok());
  const Trace& t = read->trace;
  CHECK(t.backend == "nsys");
  CHECK(t.streams ==
        std::vector<std::string>{"stream 7", "stream 20", "host python", "host python (2)"});
  std::vector<std::string> spans;
  for (const Span& s : t.spans) {
    const TraceOp& op = t.roles[0].ops[s.op];
    spans.push_back(t.streams[op.stream] + " " + t.names[op.kind] + " " +
                    t.names[op.name].substr(0, 16) + " " +
                    std::to_string(s.begin.count() / 1000 + 900) + " " +
                    std::to_string(s.end.count() / 1000 + 900));
  }
  CHECK(spans == std::vector<std::string>{"stream 7 compute gemm 2000 5000",
                                          "stream 7 memcpy Memcpy HtoD 6000 7000",
                                          "stream 20 all_reduce ncclDevKernel_Al 5000 9000",
                                          "host python annotation train 900 8000",
                                          "host python (2) host cudaLaunchKernel 1000 1200",
                                          "host python (2) host cudaMemcpyAsync 1300 1400",
                                          "host python (2) host cudaLaunchKernel 1500 1600"});
  REQUIRE(t.flows.size() == 3);  // launches, by correlation
  CHECK(t.names[t.roles[0].ops[t.spans[t.flows[0].to].op].name] == "gemm");
  CHECK(t.roles[0].ops[t.spans[1].op].bytes == 4096);
}

TEST_CASE("the arguments of a span of an export are the columns of its row",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const std::string path = export_with(folder, kOneProcess);
  const Result<ImportedTrace> read = read_any_trace(path);
  REQUIRE(read.ok());
  const auto of = [&](std::size_t span) {
    return read_arguments(read->sources, read->trace, span);
  };
  REQUIRE(of(0).ok());
  CHECK(*of(0) == SpanArguments{{"Table", "CUPTI_ACTIVITY_KIND_KERNEL"},
                                {"deviceId", "0"},
                                {"contextId", "1"},
                                {"streamId", "7"},
                                {"correlationId", "11"},
                                {"globalPid", "16777216"},
                                {"demangledName", "gemm"},
                                {"shortName", "gemm"},
                                {"gridX", "64"}});
  REQUIRE(of(1).ok());
  CHECK(of(1)->back() == std::pair<std::string, std::string>{"copyKind", "1"});
  REQUIRE(of(3).ok());  // a range, whose empty text is left out
  CHECK(*of(3) == SpanArguments{{"Table", "NVTX_EVENTS"},
                                {"eventType", "59"},
                                {"globalTid", "16777221"},
                                {"textId", "train"}});
  CHECK(of(4)->back() == std::pair<std::string, std::string>{"nameId", "cudaLaunchKernel"});

  std::filesystem::remove(path);
  export_with(folder,
              "INSERT INTO StringIds VALUES (1,'other');"
              "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1,2,0,1,7,1,1,1,1,1);");
  CHECK_THAT(to_string(of(0).error()), ContainsSubstring("open it again"));
  CHECK_FALSE(of(1).ok());
}

TEST_CASE("two processes of one export are two ranks on one clock", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const Result<ImportedTrace> read = read_any_trace(export_with(
      folder,
      kOneProcess +
          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (4000,6000,1,1,7,1,33554432,1,1,64);"));
  REQUIRE(read.ok());
  CHECK(read->trace.rank_labels == std::vector<std::string>{"rank 0", "rank 1"});
  const Span& second = read->trace.spans.back();
  CHECK(second.rank == 1);
  CHECK((second.begin - read->trace.spans.front().begin).count() == 2000 * 1000);
}

TEST_CASE("a database that is no export, and a report that is not exported, say what to do",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const std::string path = folder / "other.sqlite";
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  sqlite3_exec(db, "CREATE TABLE t (a);", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  CHECK_THAT(to_string(read_any_trace(path).error()),
             ContainsSubstring("not an export of Nsight Systems"));
  write_bytes(folder / "cut.sqlite", std::string("SQLite format 3\0garbage", 23));
  CHECK_FALSE(read_any_trace(folder / "cut.sqlite").ok());

  const std::string whole = read_bytes(export_with(folder, kOneProcess));
  for (const double part : {0.1, 0.5, 0.9}) {  // it is one of nsys, but not all of it
    write_bytes(
        folder / "half.sqlite",
        whole.substr(0, static_cast<std::size_t>(part * static_cast<double>(whole.size()))));
    CHECK_THAT(to_string(read_any_trace(folder / "half.sqlite").error()),
               ContainsSubstring("cut off: it has "));
  }
  std::string damaged = whole;
  std::fill(damaged.begin() + 100, damaged.begin() + 4096, '\xff');  // its list of tables
  write_bytes(folder / "damaged.sqlite", damaged);
  CHECK_THAT(to_string(read_any_trace(folder / "damaged.sqlite").error()),
             ContainsSubstring("malformed (if it was damaged, export it again)"));
  GzipWriter gzip(folder / "report.sqlite.gz", true);
  gzip.text(whole);
  REQUIRE(gzip.commit().ok());
  CHECK_THAT(to_string(read_any_trace(folder / "report.sqlite.gz").error()),
             ContainsSubstring("gunzip it"));
}

TEST_CASE("a view that never ends, and texts that multiply, are not read",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const std::string endless = export_with(folder, kOneProcess + R"(
        DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;
        CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(x) AS
          (SELECT 0 UNION ALL SELECT x + 1 FROM n) SELECT x AS start, x AS end, 0 AS deviceId,
          0 AS streamId, 0 AS correlationId, 0 AS globalPid, 1 AS demangledName FROM n;)");
  const auto read = read_any_trace(endless);
  INFO((read ? "" : to_string(read.error())));
  CHECK(read.ok());  // what is in tables
  const TemporaryFolder other;
  const std::string many = export_with(other, kOneProcess + R"(
        CREATE TABLE texts AS SELECT * FROM StringIds;
        DROP TABLE StringIds;
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds SELECT * FROM texts;
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3000)
          INSERT INTO StringIds SELECT 77, 'k' FROM n;
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3000)
          INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId,
            globalPid, demangledName) SELECT x, x + 1, 0, 7, x, 16777216, 77 FROM n;)");
  const auto spread = read_any_trace(many);
  REQUIRE_FALSE(spread.ok());
  CHECK_THAT(to_string(spread.error()), ContainsSubstring("more work than an export of its size"));
}

TEST_CASE(
    "a launch of a CUDA graph is a span of the device, and that its kernels are not told is said",
    "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const std::string path = export_with(folder, kOneProcess + R"(
        CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER,
          graphId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,
          globalPid INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (9000,20000,0,3,1,7,14,16777216);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1700,1800,16777221,14,2);)");
  const Result<ImportedTrace> read = read_any_trace(path);
  INFO((read ? "" : to_string(read.error())));
  REQUIRE(read.ok());
  const Trace& t = read->trace;
  const auto found = std::find_if(t.spans.begin(), t.spans.end(), [&](const Span& s) {
    return t.names[t.roles[0].ops[s.op].name] == "CUDA graph 3";
  });
  REQUIRE(found != t.spans.end());
  const Span graph = *found;
  CHECK(t.streams[t.roles[0].ops[graph.op].stream] == "stream 7");
  CHECK(t.names[t.roles[0].ops[graph.op].kind] == "compute");
  CHECK((graph.end - graph.begin).count() == 11000 * 1000);
  CHECK(t.flows.size() == 4);  // its launch, too
  CHECK_THAT(read->remarks.back(), ContainsSubstring("1 launch of a CUDA graph is one span") &&
                                       ContainsSubstring("--cuda-graph-trace=node"));
  const auto index = static_cast<std::size_t>(std::distance(t.spans.begin(), found));
  const auto arguments = read_arguments(read->sources, t, index);
  REQUIRE(arguments.ok());
  CHECK(arguments->front().second == "CUPTI_ACTIVITY_KIND_GRAPH_TRACE");
}

TEST_CASE("a folder of exports, one for each rank, is one run on the machines' clocks",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const auto add = [&](const std::string& name, int session_ns) {
    const TemporaryFolder one;
    const std::string time =
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);"
        "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (" +
        std::to_string(1'700'000'000'000'000'000 + session_ns) + ");";
    std::filesystem::copy(export_with(one, kOneProcess + time), folder / name);
  };
  add("report.10.sqlite", 7000);
  add("report.9.sqlite", 0);
  const Result<ImportedTrace> read = read_any_trace(folder.path.string());
  INFO((read ? "" : to_string(read.error())));
  REQUIRE(read.ok());
  const Trace& t = read->trace;
  CHECK(t.backend == "nsys");
  CHECK(t.rank_labels == std::vector<std::string>{"rank 0", "rank 1"});
  // 9 comes before 10, and its session began 7 us before the other's.
  CHECK((t.spans.range(0, 1).front().begin - t.spans.range(0, 0).front().begin).count() ==
        7000 * 1000);
  const std::size_t of_second = t.spans.range(0, 1).first();
  CHECK(read_arguments(read->sources, t, of_second).ok());
}

#else

TEST_CASE("without SQLite an export says what is missing", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.sqlite", std::string("SQLite format 3\0", 16));
  CHECK_THAT(to_string(read_any_trace(folder / "a.sqlite").error()),
             ContainsSubstring("libsqlite3-dev"));
}

#endif

TEST_CASE("a report of Nsight Systems says how it is exported", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.nsys-rep", "x");
  CHECK_THAT(to_string(read_any_trace(folder / "a.nsys-rep").error()),
             ContainsSubstring("nsys export --type sqlite"));
}

}  // namespace
}  // namespace lockstep
