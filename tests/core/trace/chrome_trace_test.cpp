#include "core/trace/chrome_trace.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Two pipeline stages times `dp` replicas; replicas share a role: a forward, a message to the next
/// stage, an all-reduce over the replicas.
Trace two_stages(int dp, bool folded) {
  Trace t;
  t.backend = "sim";
  t.program_hash = "0123456789abcdef";
  t.clock_uncertainty = SimTime{1234567};
  t.names = {"block.F \"quoted\"", "forward", "send forward",  "send",
             "recv forward",       "recv",    "all_reduce dp", "all_reduce"};
  t.streams = {"compute", "reduce", "send_forward", "recv_forward"};
  t.memory_kinds = {"param", "activation"};
  TraceRole first, second;
  first.ops = {{.name = 0, .kind = 1, .stream = 0, .stage = 0, .layer = 0, .microbatch = 0},
               {.name = 2,
                .kind = 3,
                .stream = 2,
                .stage = 0,
                .microbatch = 0,
                .bytes = 4096,
                .channel = 1000000,
                .seq = 0},
               {.name = 6, .kind = 7, .stream = 1, .bytes = 1 << 20, .channel = 0, .seq = 0}};
  second.ops = {
      {.name = 4,
       .kind = 5,
       .stream = 3,
       .stage = 1,
       .microbatch = 0,
       .bytes = 4096,
       .channel = 1000000,
       .seq = 0},
      {.name = 0, .kind = 1, .stream = 0, .phase = 1, .stage = 1, .layer = 1, .microbatch = 0},
      {.name = 6, .kind = 7, .stream = 1, .bytes = 1 << 20, .channel = 0, .seq = 0}};
  t.roles = {first, second};
  t.instances.resize(1);
  for (Rank r = 0; r < 2 * dp; ++r) {
    const bool late = r >= dp;
    t.rank_labels.push_back("rank " + std::to_string(r) + (late ? " (pp1)" : " (pp0)"));
    t.role_of_rank.push_back(late ? 1 : 0);
    t.instances[0].push_back(late ? dp : 0);
    t.same_as.push_back(folded ? (late ? dp : 0) : r);
    t.peak_memory.push_back(1000 + r);
  }
  const auto ps = [](std::int64_t v) { return SimTime{v}; };
  for (int step = 0; step < 2; ++step) {
    const std::int64_t at = step * 9000000;
    for (Rank r = 0; r < 2 * dp; ++r) {
      if (t.same_as[r] != r) continue;
      if (r < dp) {
        t.spans.push_back({r, {0}, step, ps(at), ps(at), ps(at + 1000001)});
        t.spans.push_back({r, {2}, step, ps(at + 5), ps(at + 8), ps(at + 7000000)});
        t.spans.push_back({r, {1}, step, ps(at + 1000001), ps(at + 1000002), ps(at + 2000000)});
      } else {
        t.spans.push_back({r, {1}, step, ps(at + 2000000), ps(at + 2000000), ps(at + 2000000)});
        t.spans.push_back({r, {2}, step, ps(at + 6), ps(at + 8), ps(at + 7000000)});
        t.spans.push_back({r, {0}, step, ps(at), ps(at + 1000002), ps(at + 2000000)});
      }
    }
  }
  for (Rank r = 0; r < 2 * dp; ++r) {
    if (t.same_as[r] != r) continue;
    t.memory.push_back({r, ps(0), {100, 0}});
    t.memory.push_back({r, ps(1), {100, 64}});
  }
  t.steps = {{0, 5.5, 1.25, 1e-3, Seconds{0.1}}, {1, 1.0 / 3.0, 2e300, 5e-324, Seconds{1e-9}}};
  return t;
}

json read_events(const std::string& path) {
  std::ifstream in(path);
  return json::parse(in).at("traceEvents");
}

TEST_CASE("a Chrome trace reads back equal to what was written", "[core][trace]") {
  const TemporaryFolder folder;
  for (const char* name : {"trace.json", "trace.json.gz"}) {
    for (const bool folded : {false, true}) {
      for (const int dp : {1, 2, 40}) {  // 80 ranks: above the limit for drawn copies
        const Trace trace = two_stages(dp, folded);
        const std::string path = folder / name;
        REQUIRE(write_chrome_trace(trace, path).ok());
        for (const auto& entry : fs::directory_iterator(folder.path)) {
          CHECK(entry.path().extension() != ".tmp");
        }
        const Result<Trace> read = read_chrome_trace(path);
        INFO((read ? "" : to_string(read.error())));
        REQUIRE(read.ok());
        CHECK(*read == trace);
      }
    }
  }
}

TEST_CASE("what is behind a trace's own events, such as copies for viewers, is not read",
          "[core][trace]") {
  const TemporaryFolder folder;
  const Trace trace = two_stages(4, true);
  const std::string path = folder / "trace.json";
  REQUIRE(write_chrome_trace(trace, path).ok());
  const std::string text = read_bytes(path);
  const std::size_t copies = text.find("(copy)");
  REQUIRE(copies != std::string::npos);
  CHECK(text.find("\"op\":", copies) == std::string::npos);
  write_bytes(path, text.substr(0, copies));
  const Result<Trace> read = read_chrome_trace(path);
  INFO((read ? "" : to_string(read.error())));
  REQUIRE(read.ok());
  CHECK(*read == trace);
  write_bytes(path, text.substr(0, text.find("\"op\":")));
  CHECK(!read_chrome_trace(path).ok());
}

TEST_CASE("a trace of steps that are not finite is JSON, and reads back", "[core][trace]") {
  const TemporaryFolder folder;
  Trace trace = two_stages(1, false);
  const double infinity = std::numeric_limits<double>::infinity();
  trace.steps = {{0, 5.5, infinity, 1e-3, Seconds{0.1}},
                 {1, std::nan(""), -infinity, 0, Seconds{1}}};
  const std::string path = folder / "trace.json";
  REQUIRE(write_chrome_trace(trace, path).ok());
  std::ifstream in(path);
  const json steps = json::parse(in).at("lockstep").at("steps");
  CHECK(steps == json{{0, 5.5, nullptr, 1e-3, 0.1}, {1, nullptr, nullptr, 0, 1}});
  const Result<Trace> read = read_chrome_trace(path);
  REQUIRE(read.ok());
  REQUIRE(read->steps.size() == 2);
  CHECK(read->steps[0].loss == 5.5);
  CHECK(std::isnan(read->steps[0].grad_norm));
  CHECK(std::isnan(read->steps[1].loss));
  CHECK(read->steps[1].time == Seconds{1});
}

TEST_CASE("times from a picosecond to a hundred days read back exactly", "[core][trace]") {
  const TemporaryFolder folder;
  Trace trace = two_stages(1, false);
  const Span first = trace.spans[0];
  for (std::int64_t ps = 1; ps < 8'000'000'000'000'000'000; ps = ps < 1000 ? ps + 1 : ps * 7 + 1) {
    trace.spans = {{first.rank, first.op, first.step, SimTime{ps}, SimTime{ps + ps / 32},
                    SimTime{ps + ps / 16}}};
    REQUIRE(write_chrome_trace(trace, folder / "t.json").ok());
    const Result<Trace> read = read_chrome_trace(folder / "t.json");
    REQUIRE(read.ok());
    REQUIRE(read->spans == trace.spans);
    if (ps > 1'000'000'000'000'000'000) break;
  }
}

TEST_CASE("an empty trace reads back equal", "[core][trace]") {
  const TemporaryFolder folder;
  REQUIRE(write_chrome_trace(Trace{}, folder / "t.json").ok());
  const Result<Trace> read = read_chrome_trace(folder / "t.json");
  REQUIRE(read.ok());
  CHECK(*read == Trace{});
}

TEST_CASE("writing the same trace twice gives the same bytes", "[core][trace]") {
  const TemporaryFolder folder;
  std::string bytes[2];
  for (int i = 0; i < 2; ++i) {
    const std::string path = folder / ("t" + std::to_string(i) + ".json.gz");
    REQUIRE(write_chrome_trace(two_stages(2, false), path).ok());
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    bytes[i] = text.str();
  }
  CHECK(bytes[0].substr(0, 2) == "\x1f\x8b");
  CHECK(bytes[0] == bytes[1]);
}

TEST_CASE("viewers find a named process per rank and a named thread per stream", "[core][trace]") {
  const TemporaryFolder folder;
  REQUIRE(write_chrome_trace(two_stages(2, false), folder / "t.json").ok());
  std::map<int, std::string> processes;
  std::map<int, int> order;
  std::map<std::pair<int, int>, std::string> threads;
  std::set<std::pair<int, int>> used;
  for (const json& e : read_events(folder / "t.json")) {
    const int pid = e["pid"];
    if (e["name"] == "process_name") processes[pid] = e["args"]["name"];
    if (e["name"] == "process_sort_index") order[pid] = e["args"]["sort_index"];
    if (e["name"] == "thread_name") threads[{pid, e["tid"]}] = e["args"]["name"];
    if (e["ph"] == "X") used.insert({pid, e["tid"]});
  }
  CHECK(processes ==
        std::map<int, std::string>{
            {0, "rank 0 (pp0)"}, {1, "rank 1 (pp0)"}, {2, "rank 2 (pp1)"}, {3, "rank 3 (pp1)"}});
  CHECK(order == std::map<int, int>{{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  for (const auto& thread : used) CHECK(threads.count(thread) == 1);
  CHECK(threads.size() == used.size());
  CHECK(threads[{2, 4}] == "recv_forward");
}

TEST_CASE("times in the file are microseconds with the trace's picoseconds", "[core][trace]") {
  const TemporaryFolder folder;
  REQUIRE(write_chrome_trace(two_stages(1, false), folder / "t.json").ok());
  std::ifstream in(folder / "t.json");
  std::ostringstream text;
  text << in.rdbuf();
  CHECK_THAT(text.str(),
             ContainsSubstring("\"ts\":1.000001,\"dur\":0.999999,\"name\":\"send forward\""));
  CHECK_THAT(text.str(), ContainsSubstring("\"wait_us\":0.000001"));
}

TEST_CASE("a flow joins each send to its receive and the members of each collective",
          "[core][trace]") {
  const TemporaryFolder folder;
  for (const bool folded : {false, true}) {  // with copies drawn, the picture is the same
    REQUIRE(write_chrome_trace(two_stages(3, folded), folder / "t.json").ok());
    std::map<int, std::vector<int>> ranks;  // by flow id, in order of appearance
    std::map<int, std::string> phases;
    std::map<int, double> last;
    for (const json& e : read_events(folder / "t.json")) {
      const std::string ph = e["ph"];
      if (ph != "s" && ph != "t" && ph != "f") continue;
      const int id = e["id"];
      CHECK(e["ts"] >= last[id]);
      last[id] = e["ts"];
      ranks[id].push_back(e["pid"]);
      phases[id] += ph;
    }
    // Per step: three messages 0->3, 1->4, 2->5 and two collectives, {0 1 2} and {3 4 5}.
    std::multiset<std::vector<int>> found;
    for (const auto& [id, path] : ranks) {
      found.insert(path);
      CHECK(phases[id] == (path.size() == 2 ? "sf" : "stf"));
    }
    const std::multiset<std::vector<int>> expected = {{0, 3}, {1, 4}, {2, 5}, {0, 1, 2}, {3, 4, 5},
                                                      {0, 3}, {1, 4}, {2, 5}, {0, 1, 2}, {3, 4, 5}};
    CHECK(found == expected);
  }
}

TEST_CASE("a memory kind that never occurs is not in the file and reads back as zero",
          "[core][trace]") {
  const TemporaryFolder folder;
  Trace trace = two_stages(1, false);
  trace.memory_kinds = {"param", "comm", "activation"};
  trace.memory = {{0, SimTime{0}, {100, 0, 0}}, {0, SimTime{5}, {100, 0, 64}}};
  REQUIRE(write_chrome_trace(trace, folder / "t.json").ok());
  for (const json& e : read_events(folder / "t.json")) {
    if (e["ph"] == "C") CHECK(e["args"].size() == 2);
  }
  const Result<Trace> read = read_chrome_trace(folder / "t.json");
  REQUIRE(read.ok());
  CHECK(read->memory == trace.memory);
}

TEST_CASE("large folded worlds hold only the ranks that have spans", "[core][trace]") {
  const TemporaryFolder folder;
  REQUIRE(write_chrome_trace(two_stages(40, true), folder / "t.json").ok());
  std::set<int> pids;
  for (const json& e : read_events(folder / "t.json")) pids.insert(int{e["pid"]});
  CHECK(pids == std::set<int>{0, 40});
}

TEST_CASE("a file that is no trace is refused with its name and the reason", "[core][trace]") {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& text, const std::string& reason) {
    const std::string path = folder / "bad.json";
    std::ofstream(path) << text;
    const Result<Trace> read = read_chrome_trace(path);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().kind == ErrorKind::Parse);
    CHECK_THAT(to_string(read.error()), ContainsSubstring("bad.json: "));
    CHECK_THAT(to_string(read.error()), ContainsSubstring(reason));
  };
  refuse("", "not a trace");
  refuse("{\"traceEvents\":[", "parse error");
  refuse("[]", "no \"lockstep\" object");
  refuse("{\"traceEvents\":[]}", "no \"lockstep\" object");
  refuse("{\"lockstep\":{\"format_version\":7}}", "format version 7");
  refuse(R"({"lockstep":{"format_version":1,"roles":[[[1,2]]]}})", "10 values");
  refuse(
      R"({"lockstep":{"format_version":1},"traceEvents":[{"ph":"X","pid":3,"ts":0,"dur":1,"args":{"op":0}}]})",
      "pid is no rank");
  refuse(R"({"lockstep":{"format_version":1},"traceEvents":[{"ph":"X","pid":0,"ts":1e99}]})",
         "\"ts\"");
  refuse(
      R"({"lockstep":{"format_version":1,"role_of_rank":[0],"same_as":[0],"roles":[[]]},"traceEvents":[{"ph":"C","pid":0,"name":"memory","ts":1,"args":{"gold":3}}]})",
      "unknown kind \"gold\"");
  const Result<Trace> missing = read_chrome_trace(folder / "missing.json");
  REQUIRE_FALSE(missing.ok());
  CHECK_THAT(to_string(missing.error()), ContainsSubstring("missing.json: No such file"));
}

TEST_CASE("a truncated gzip trace is refused", "[core][trace]") {
  const TemporaryFolder folder;
  const std::string path = folder / "t.json.gz";
  REQUIRE(write_chrome_trace(two_stages(3, false), path).ok());
  fs::resize_file(path, fs::file_size(path) / 2);
  const Result<Trace> read = read_chrome_trace(path);
  REQUIRE_FALSE(read.ok());
  CHECK_THAT(to_string(read.error()), ContainsSubstring("not a whole gzip file"));
}

TEST_CASE("a trace that cannot be written is an error that names the file", "[core][trace]") {
  const Result<void> written = write_chrome_trace(Trace{}, "/nonexistent/folder/t.json");
  REQUIRE_FALSE(written.ok());
  CHECK_THAT(to_string(written.error()), ContainsSubstring("/nonexistent/folder/t.json"));
}

}  // namespace
}  // namespace lockstep
