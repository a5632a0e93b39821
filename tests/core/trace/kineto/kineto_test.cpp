#include "core/trace/kineto/kineto.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "core/trace/chrome_trace.hpp"
#include "core/trace/gzip_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

// Two ranks of one all-reduce per backward. Times below are microseconds after the first event of
// rank 0; the file of rank 1 has all times 1000 us later, and the same base time.
const std::string kFolder = LOCKSTEP_SOURCE_DIR "/tests/data/kineto";
const std::string kAllReduce =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

TraceOp op_of(const Trace& t, const Span& s) { return t.roles[t.role_of_rank[s.rank]].ops[s.op]; }
std::string name_of(const Trace& t, const Span& s) { return t.names[op_of(t, s).name]; }

/// A span as tests write it: step, stream, kind, name, begin, active and end, for example "3 stream
/// 7 forward gemm_forward 200 200 300".
std::string text_of(const Trace& t, const Span& s) {
  const auto us = [](SimTime time) {
    std::string text = std::to_string(static_cast<double>(time.count()) / 1e6);
    while (text.ends_with('0')) text.pop_back();
    return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
  };
  const TraceOp& op = op_of(t, s);
  std::string name = name_of(t, s);
  if (name == kAllReduce) name = "nccl";
  return std::to_string(s.step) + " " + t.streams[op.stream] + " | " + t.names[op.kind] + " " +
         name + " | " + us(s.begin) + " " + us(s.active) + " " + us(s.end);
}
std::vector<std::string> texts_of(const Trace& t, Rank rank) {
  std::vector<std::string> texts;
  for (const Span& s : t.spans) {
    if (s.rank == rank) texts.push_back(text_of(t, s));
  }
  return texts;
}

ImportedTrace import(const std::vector<std::string>& files) {
  Result<ImportedTrace> imported = read_kineto(files);
  INFO((imported ? "" : to_string(imported.error())));
  REQUIRE(imported.ok());
  return std::move(*imported);
}
ImportedTrace import_text(const std::string& text) {
  const TemporaryFolder folder;
  write_bytes(folder / "t.json", text);
  return import({folder / "t.json"});
}
/// The bare list of `events`, as PyTorch's own exporter writes it.
ImportedTrace import_events(const std::string& events) { return import_text("[" + events + "]"); }

/// Checks what every Trace promises: spans are sorted, and those of a stream do not overlap.
void check_promises(const Trace& t) {
  for (std::size_t i = 1; i < t.spans.size(); ++i) {
    const Span &a = t.spans[i - 1], &b = t.spans[i];
    const auto place = [&](const Span& s) {
      return std::tuple(s.step, s.rank, op_of(t, s).stream);
    };
    REQUIRE(place(a) <= place(b));
    if (place(a) == place(b)) REQUIRE(a.end <= b.begin);
  }
  for (const Span& s : t.spans) {
    REQUIRE(s.begin <= s.active);
    REQUIRE(s.active <= s.end);
  }
  for (const Flow& f : t.flows) {
    REQUIRE(f.from < t.spans.size());
    REQUIRE(f.to < t.spans.size());
  }
}

TEST_CASE("every event of two ranks is where its profile says", "[core][trace][kineto]") {
  const ImportedTrace imported = import({kFolder + "/rank1.json", kFolder + "/rank0.json"});
  const Trace& t = imported.trace;
  check_promises(t);
  CHECK(t.backend == "kineto");
  CHECK(t.rank_labels == std::vector<std::string>{"rank 0", "rank 1"});
  CHECK(t.streams == std::vector<std::string>{"stream 7", "stream 7 (2)", "stream 20",
                                              "stream 7 annotations", "host pt_autograd_0",
                                              "host pt_autograd_0 (2)", "host python",
                                              "host python (2)", "host python (3)"});
  const std::string backward = "autograd::engine::evaluate_function: MmBackward0";
  // Kernels belong to the step that launched them. The all-reduce took rank 1 100 us and 79.8 us:
  // that long before its end all had arrived.
  CHECK(texts_of(t, 0) ==
        std::vector<std::string>{
            "3 stream 7 | forward gemm_forward | 200 200 300",
            "3 stream 7 | backward gemm_backward | 400 400 550",
            "3 stream 7 | optimizer sgd_update | 1050 1050 1100",
            "3 stream 20 | all_reduce nccl | 500 700 800",
            "3 stream 7 annotations | annotation ProfilerStep#3 | 200 200 1100",
            "3 host pt_autograd_0 | host " + backward + " | 300 300 500",
            "3 host pt_autograd_0 (2) | host cudaLaunchKernel | 320 320 330",
            "3 host pt_autograd_0 (2) | host cudaLaunchKernelExC | 450 450 455",
            "3 host python | annotation ProfilerStep#3 | 0 0 1000",
            "3 host python (2) | host aten::mm | 100 100 160",
            "3 host python (2) | annotation Optimizer.step#SGD.step | 850 850 950",
            "3 host python (3) | host cudaLaunchKernel | 120 120 130",
            "3 host python (3) | host cudaLaunchKernel | 860 860 870",
            "4 stream 7 | memcpy Memcpy HtoD (Pinned -> Device) | 1110 1110 1150",
            "4 stream 7 (2) | compute concurrent_kernel | 1120 1120 1130",
            "4 stream 20 | all_reduce nccl | 1200 1220.2 1300",
            "4 stream 20 | all_reduce nccl | 1400 1400 1500",
            "4 host python | annotation ProfilerStep#4 | 1000 1000 2000",
            "4 host python (2) | host cudaMemcpyAsync | 1010 1010 1030"});
  CHECK(texts_of(t, 1) ==
        std::vector<std::string>{"3 stream 7 | compute gemm_forward | 200 200 500",
                                 "3 stream 20 | all_reduce nccl | 700 700 800",
                                 "3 host python | annotation ProfilerStep#3 | 10 10 1000",
                                 "4 stream 20 | all_reduce nccl | 1220 1220 1299.8",
                                 "4 stream 20 | all_reduce nccl | 1400 1400.4 1500.4",
                                 "4 host python | annotation ProfilerStep#4 | 1000 1000 2000"});
}

TEST_CASE("clocks are aligned by the ends of collectives, and what is left is told",
          "[core][trace][kineto]") {
  const ImportedTrace imported = import({kFolder + "/rank0.json", kFolder + "/rank1.json"});
  // Rank 1's ends are 1000, 999.8 and 1000.4 us later: the median is taken off, the median
  // deviation of 0, 0.2 and 0.4 remains.
  CHECK(imported.trace.clock_uncertainty == SimTime{200'000});
  REQUIRE_FALSE(imported.remarks.empty());
  CHECK(imported.remarks.front() ==
        "clocks aligned by the ends of 3 collectives: corrected by at most 1000.0 us, +- 0.2 us");
}

TEST_CASE("a collective of several ranks has one channel and number, and its size",
          "[core][trace][kineto]") {
  const ImportedTrace imported = import({kFolder + "/rank0.json", kFolder + "/rank1.json"});
  const Trace& t = imported.trace;
  std::map<Rank, std::vector<std::int32_t>> numbers;
  for (const Span& s : t.spans) {
    const TraceOp& op = op_of(t, s);
    if (t.names[op.kind] != "all_reduce") {
      CHECK(op.channel == -1);
      continue;
    }
    CHECK(op.channel == 0);
    CHECK(op.bytes == 2048);  // 1024 elements of bfloat16
    numbers[s.rank].push_back(op.seq);
  }
  CHECK(numbers == std::map<Rank, std::vector<std::int32_t>>{{0, {0, 1, 2}}, {1, {0, 1, 2}}});
  CHECK(t.instances == decltype(t.instances){{0, 0}});
}

TEST_CASE("launches and backward ops are joined to what they came from", "[core][trace][kineto]") {
  const ImportedTrace imported = import({kFolder + "/rank0.json"});
  const Trace& t = imported.trace;
  std::set<std::string> flows;
  for (const Flow& f : t.flows) {
    flows.insert(t.names[f.kind] + ": " + name_of(t, t.spans[f.from]) + " -> " +
                 name_of(t, t.spans[f.to]));
  }
  CHECK(flows ==
        std::set<std::string>{
            "ac2g: cudaLaunchKernel -> gemm_forward", "ac2g: cudaLaunchKernel -> gemm_backward",
            "ac2g: cudaLaunchKernel -> sgd_update", "ac2g: cudaLaunchKernelExC -> " + kAllReduce,
            "ac2g: cudaMemcpyAsync -> Memcpy HtoD (Pinned -> Device)",
            "fwdbwd: aten::mm -> autograd::engine::evaluate_function: MmBackward0"});
  CHECK(t.flows.size() == 6);
}

TEST_CASE("what is mended or left out is counted", "[core][trace][kineto]") {
  const ImportedTrace imported = import({kFolder + "/rank0.json"});
  ImportCounts expected;
  expected.spans = 19;
  expected.overlapping = 1;    // concurrent_kernel
  expected.unbound_flows = 1;  // fwdbwd 2 has no beginning
  expected.not_spans = 1;      // Record Window End
  CHECK(imported.counts == expected);
  CHECK_THAT(imported.remarks.front(), ContainsSubstring("1 of the job's 2 ranks are here"));
}

TEST_CASE("a gzip file and a file on one line read the same", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  std::string text = read_bytes(kFolder + "/rank0.json");
  const Trace plain = import({kFolder + "/rank0.json"}).trace;
  GzipWriter zipped(folder / "r.json.gz", true);
  zipped.text(text);
  REQUIRE(zipped.commit().ok());
  CHECK(import({folder / "r.json.gz"}).trace == plain);
  text.erase(std::remove(text.begin(), text.end(), '\n'), text.end());
  write_bytes(folder / "line.json", "\xEF\xBB\xBF" + text);
  CHECK(import({folder / "line.json"}).trace == plain);
}

TEST_CASE("an imported trace survives our own file format", "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const Trace trace = import({kFolder + "/rank0.json", kFolder + "/rank1.json"}).trace;
  REQUIRE(write_chrome_trace(trace, folder / "t.json.gz").ok());
  const Result<ImportedTrace> again = read_any_trace(folder / "t.json.gz");
  REQUIRE(again.ok());
  CHECK(again->trace == trace);
}

TEST_CASE("a bare list with names for processes, as older PyTorch writes it, is read",
          "[core][trace][kineto]") {
  const ImportedTrace imported = import_events(
      R"({"name": "aten::add", "ph": "X", "ts": 1682725897235145, "dur": 12, "tid": 1, )"
      R"("pid": "CPU functions", "args": {}},)"
      R"({"name": "vector_add", "cat": "Kernel", "ph": "X", "ts": 1682725897235150.5, "dur": 3,)"
      R"( "tid": "stream 7", "pid": "CUDA functions"})");
  CHECK(texts_of(imported.trace, 0) ==
        std::vector<std::string>{"0 stream 7 | compute vector_add | 5.5 5.5 8.5",
                                 "0 CPU functions | host aten::add | 0 0 12"});
}

TEST_CASE("begin and end events are paired by time and unfinished ones end with their track",
          "[core][trace][kineto]") {
  const auto half = [](char ph, const std::string& name, int ts) {
    return R"({"ph": ")" + std::string(1, ph) + R"(", "name": ")" + name +
           R"(", "pid": 1, "tid": 1, "ts": )" + std::to_string(ts) + "},";
  };
  const ImportedTrace imported =
      import_events(half('E', "inner", 30) + half('E', "nothing", 0) + half('B', "outer", 10) +
                    half('B', "inner", 20) + half('B', "open", 40) +
                    R"({"ph": "X", "name": "last", "pid": 1, "tid": 1, "ts": 50, "dur": 5},)" +
                    R"({"ph": "X", "name": "moment", "pid": 1, "tid": 1, "ts": 52},)" +
                    R"({"ph": "X", "name": "backwards", "pid": 1, "tid": 1, "ts": 53, "dur": -1})");
  CHECK(imported.counts.unbegun == 1);
  CHECK(imported.counts.unfinished == 2);
  CHECK(imported.counts.without_duration == 2);
  std::set<std::string> spans;
  for (const Span& s : imported.trace.spans) {
    spans.insert(name_of(imported.trace, s) + " " + std::to_string(s.begin.count() / 1000000) +
                 "-" + std::to_string(s.end.count() / 1000000));
  }
  CHECK(spans == std::set<std::string>{"outer 0-45", "inner 10-20", "open 30-45", "last 40-45",
                                       "moment 42-42", "backwards 43-43"});
}

TEST_CASE("however events overlap, all are kept, disjoint on their lanes",
          "[core][trace][kineto]") {
  std::uint32_t state = 7;  // a small generator: the same events on every machine
  const auto next = [&](std::uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (const std::uint32_t window : {10U, 100U, 100000U}) {
    std::string events;
    for (int i = 0; i < 500; ++i) {
      events += std::string(i == 0 ? "" : ",") +
                R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": )" +
                std::to_string(next(window)) + R"(, "dur": )" + std::to_string(next(20)) + "}";
    }
    const ImportedTrace imported = import_events(events);
    CHECK(imported.trace.spans.size() == 500);
    check_promises(imported.trace);
    std::int64_t moved = 0;
    for (const Span& s : imported.trace.spans) moved += op_of(imported.trace, s).stream > 0;
    CHECK(imported.counts.overlapping == moved);
  }
}

/// Two files of two collectives each: all-reduces, except that rank 1's second is of kind `second`.
std::vector<std::string> without_numbers(const TemporaryFolder& folder, const std::string& second) {
  std::vector<std::string> files;
  for (const int rank : {0, 1}) {
    std::string events;
    for (int i = 0; i < 2; ++i) {
      events += std::string(i == 0 ? "" : ",") +
                R"({"ph": "X", "cat": "kernel", "name": "ncclKernel", "pid": 0, "tid": 7, "ts": )" +
                std::to_string(100 * i + 10 * rank) + R"(, "dur": )" +
                std::to_string(40 - 10 * rank) + R"(, "args": {"Collective name": ")" +
                (rank == 1 && i == 1 ? second : std::string("allreduce")) +
                R"(", "Process Group Name": "dp", "Process Group Ranks": "[4, 6, ...]"}})";
    }
    files.push_back(folder / ("rank-" + std::to_string(4 + 2 * rank) + ".json"));
    write_bytes(files.back(), "{\"baseTimeNanoseconds\": 1711964646000000000, \"traceEvents\": [" +
                                  events + "]}");
  }
  return files;
}

TEST_CASE("collectives without numbers are matched in order if the ranks agree what they are",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const ImportedTrace agreed = import(without_numbers(folder, "allreduce"));
  CHECK(agreed.counts.unmatched_collectives == 0);
  CHECK(agreed.trace.rank_labels == std::vector<std::string>{"rank 4", "rank 6"});
  CHECK(texts_of(agreed.trace, 0) ==
        std::vector<std::string>{"0 stream 7 | all_reduce ncclKernel | 0 10 40",
                                 "0 stream 7 | all_reduce ncclKernel | 100 110 140"});
  const ImportedTrace differing = import(without_numbers(folder, "allgather"));
  CHECK(differing.counts.unmatched_collectives == 4);
  for (const Span& s : differing.trace.spans) {
    CHECK(s.active == s.begin);
    CHECK(op_of(differing.trace, s).channel == -1);
  }
}

TEST_CASE("ranks without a common clock begin together, and that is said",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  for (const int rank : {0, 1}) {
    write_bytes(folder / ("r_rank" + std::to_string(rank) + ".json"),
                R"([{"ph": "X", "name": "f", "pid": 1, "tid": 1, "dur": 5, "ts": )" +
                    std::to_string(1000 * (rank + 1)) + "}]");
  }
  const Result<ImportedTrace> imported = read_any_trace(folder.path.string());
  REQUIRE(imported.ok());
  for (const Span& s : imported->trace.spans) CHECK(s.begin == SimTime{});
  REQUIRE(imported->remarks.size() == 1);
  CHECK_THAT(imported->remarks[0], ContainsSubstring("as if all began together"));
}

TEST_CASE("ranks are told by metadata, by file name, or by order, and never twice",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  const auto one = [&](const std::string& name, const std::string& info) {
    write_bytes(folder / name,
                R"({"distributedInfo": )" + info +
                    R"(, "traceEvents": [{"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 1}]})");
    return folder / name;
  };
  const auto labels = [&](const std::vector<std::string>& files) {
    return import(files).trace.rank_labels;
  };
  using List = std::vector<std::string>;
  CHECK(labels({one("a.json", R"({"rank": 9})"), one("x_rank_3.json", "{}")}) ==
        List{"rank 3", "rank 9"});
  CHECK(labels({one("b.json", "{}"), one("c.json", "{}")}) == List{"rank 0", "rank 1"});
  const auto twice =
      read_kineto({one("d.json", R"({"rank": 2})"), one("rank2.json", R"({"rank": 2})")});
  REQUIRE_FALSE(twice.ok());
  CHECK_THAT(to_string(twice.error()), ContainsSubstring("rank2.json: is of rank 2, as is "));

  const TemporaryFolder hosts;  // by order, the tenth file is the tenth rank
  for (const int host : {1, 2, 10}) {
    write_bytes(hosts / ("host_" + std::to_string(host) + ".json"),
                R"([{"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 0, "dur": )" +
                    std::to_string(host) + "}]");
  }
  const auto imported = read_any_trace(hosts.path.string());
  REQUIRE(imported.ok());
  std::vector<std::int64_t> lengths;
  for (const Span& s : imported->trace.spans) {
    lengths.push_back((s.end - s.begin).count() / 1'000'000);
  }
  CHECK(lengths == std::vector<std::int64_t>{1, 2, 10});
}

TEST_CASE("a folder may hold other JSON, which is passed over with a remark",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  write_bytes(folder / "config.json", R"({"hidden_size": 64})");
  write_bytes(folder / "notes.txt", "not JSON");
  write_bytes(folder / "plan.json", R"([{"file": "t.json", "batch_size": 32}])");  // as of sglang
  const auto empty = read_any_trace(folder.path.string());
  REQUIRE_FALSE(empty.ok());
  CHECK_THAT(to_string(empty.error()),
             ContainsSubstring(folder.path.string() + ": no trace to read: of its files, ") &&
                 ContainsSubstring("config.json is neither a list"));
  write_bytes(folder / "t.json", read_bytes(kFolder + "/rank0.json"));
  const auto imported = read_any_trace(folder.path.string());
  REQUIRE(imported.ok());
  CHECK(imported->trace.spans.size() == 19);
  CHECK_THAT(imported->remarks.front(), ContainsSubstring("config.json is neither a list"));
  CHECK_THAT(imported->remarks[1], ContainsSubstring("plan.json is neither a list"));
  CHECK(imported->trace.rank_labels.size() == 1);
}

TEST_CASE("a cancelled import ends with an error, and progress never goes back",
          "[core][trace][kineto]") {
  const TemporaryFolder folder;
  std::string events = "[";
  for (int i = 0; i < 20000; ++i) {
    events += std::string(i == 0 ? "" : ",\n") +
              R"({"ph": "X", "name": "some_function", "pid": 1, "tid": 1, "dur": 1, "ts": )" +
              std::to_string(2 * i) + "}";
  }
  write_bytes(folder / "a_rank0.json", events + "]");
  write_bytes(folder / "a_rank1.json", events + "]");
  std::vector<double> told;
  ImportOptions options;
  options.progress = [&](double fraction) { told.push_back(fraction); };
  REQUIRE(read_any_trace(folder.path.string(), options).ok());
  CHECK(told.size() > 8);
  CHECK(std::is_sorted(told.begin(), told.end()));
  CHECK(told.back() == Approx(1));
  std::atomic<bool> cancel{false};
  options.cancel = &cancel;
  options.progress = [&](double fraction) { cancel = fraction > 0.5; };
  const auto cancelled = read_any_trace(folder.path.string(), options);
  REQUIRE_FALSE(cancelled.ok());
  CHECK_THAT(to_string(cancelled.error()), ContainsSubstring("cancelled"));
}

TEST_CASE("a thread's number is the same thread, written as a number or as a string",
          "[core][trace][kineto]") {
  // As PyTorch's profiler wrote in 2020: strings in events, numbers in the flows between them.
  const ImportedTrace imported = import_events(R"(
    {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":118664,"tid":"1441273664","ts":10,"dur":5},
    {"ph":"s","cat":"async","name":"launch","id":11,"pid":118664,"tid":1441273664,"ts":10},
    {"ph":"f","cat":"async","name":"launch","id":11,"pid":0,"tid":"stream 7","ts":30,"bp":"e"},
    {"ph":"X","cat":"Kernel","name":"gemm","pid":0,"tid":"stream 7","ts":30,"dur":20})");
  const Trace& t = imported.trace;
  check_promises(t);
  CHECK(imported.counts.unbound_flows == 0);
  REQUIRE(t.flows.size() == 1);
  CHECK(name_of(t, t.spans[t.flows[0].from]) == "cudaLaunchKernel");
  CHECK(name_of(t, t.spans[t.flows[0].to]) == "gemm");
  CHECK(t.names[t.flows[0].kind] == "ac2g");
  CHECK(t.streams == std::vector<std::string>{"stream 7", "host thread"});
}

TEST_CASE("launches of 2020 are told once where correlations tell them", "[core][trace][kineto]") {
  const ImportedTrace imported = import_events(R"(
    {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":9,"tid":"7001","ts":10,"dur":5,
     "args":{"correlation":11}},
    {"ph":"s","cat":"async","name":"launch","id":11,"pid":9,"tid":7001,"ts":10},
    {"ph":"f","cat":"async","name":"launch","id":11,"pid":0,"tid":"stream 7","ts":30,"bp":"e"},
    {"ph":"X","cat":"Kernel","name":"gemm","pid":0,"tid":"stream 7","ts":30,"dur":20,
     "args":{"correlation":11}})");
  CHECK(imported.trace.flows.size() == 1);
  CHECK(imported.counts.unbound_flows == 0);
}

}  // namespace
}  // namespace lockstep
