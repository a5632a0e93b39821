#include "core/analysis/report.hpp"
#include "core/analysis/timeline.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

using test::pipeline;

TEST_CASE("a trace without its program tells the same times", "[core][analysis]") {
  for (const int p : {1, 2, 4}) {
    test::HandMade world = pipeline(p, 8, 1, 2, true);
    // A second step, half as fast, apart from the first.
    const Spans first = world.trace.spans;
    for (Span s : first) {
      s.step = 1;
      for (SimTime* t : {&s.begin, &s.active, &s.end}) *t = 2 * *t + test::seconds(100);
      world.trace.spans.push_back(s);
    }
    const Report whole = analyze(world.trace, world.program, world.scenario.cluster);
    const Report bare = analyze(world.trace);
    CHECK(bare.step_time.v == Approx(whole.step_time.v).epsilon(1e-12));
    CHECK(bare.bubble_fraction == Approx(whole.bubble_fraction).epsilon(1e-12).margin(1e-15));
    CHECK(bare.exposed_comm == whole.exposed_comm);
    REQUIRE(bare.ranks.size() == whole.ranks.size());
    for (std::size_t r = 0; r < bare.ranks.size(); ++r) {
      CHECK(bare.ranks[r].compute == whole.ranks[r].compute);
      CHECK(bare.ranks[r].idle == whole.ranks[r].idle);
      CHECK(bare.ranks[r].stage_span == whole.ranks[r].stage_span);
      CHECK(bare.ranks[r].peak_memory == whole.ranks[r].peak_memory);
    }
    REQUIRE(bare.kinds.size() == whole.kinds.size());
    for (const auto& [name, kind] : whole.kinds) {
      CHECK(bare.kinds.at(name).time == kind.time);
      CHECK(bare.kinds.at(name).count == kind.count);
    }
    // Time without compute is a bubble, whatever its cause is called.
    for (std::size_t r = 0; r < bare.causes.ranks.size(); ++r) {
      Seconds bubbles;
      for (const Seconds s : bare.causes.ranks[r].bubbles) bubbles += s;
      CHECK(bubbles.v == Approx((bare.step_time - bare.ranks[r].compute).v).margin(1e-9));
      CHECK(bare.causes.ranks[r].computation.v == Approx(bare.ranks[r].compute.v));
    }
  }
}

TEST_CASE("the report of a profile counts the device's work, each step once", "[core][analysis]") {
  const std::string folder = LOCKSTEP_SOURCE_DIR "/tests/data/kineto/";
  const auto imported = read_kineto({folder + "rank0.json", folder + "rank1.json"});
  REQUIRE(imported.ok());
  const Report r = analyze(imported->trace);
  const auto us = [](double t) { return Approx(t * 1e-6).epsilon(1e-9); };
  // Step 3 is 200..1100, step 4 1110..1500.4 (rank 1's last all-reduce): 1290.4 us of two steps.
  CHECK(r.step_time.v == us(645.2));
  // Rank 0: 100 + 150 + 50 in step 3, the concurrent kernel's 10 in step 4. Rank 1: 300 in step 3.
  CHECK(r.ranks[0].compute.v == us(155));
  CHECK(r.ranks[1].compute.v == us(150));
  // No compute runs beside the all-reduces: 100, 79.8 and 100 us from the last arrival on.
  CHECK(r.ranks[0].exposed_comm.v == us(139.9));
  CHECK(r.ranks[1].exposed_comm.v == us(139.9));
  CHECK(r.ranks[0].idle.v == us(645.2 - 155 - 139.9));
  CHECK(r.bubble_fraction == Approx(1 - (310 + 300) / (2 * 1290.4)).epsilon(1e-9));
  // Rank 0 waited 200, 20.2 and 0 us for the others, rank 1 0, 0 and 0.4.
  CHECK(r.kinds.at("all_reduce").waiting.v == us((200 + 20.2 + 0.4) / 2));
  CHECK(r.kinds.at("all_reduce").count == 3);
  CHECK(r.kinds.count("host") == 0);
  // An annotation over the kernels computes nothing, and the host's spans are no part of a step.
  REQUIRE(r.causes.ranks.size() == 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const RankCauses& c = r.causes.ranks[rank];
    CHECK((c.computation + c.overlapping).v == us(rank == 0 ? 155 : 150));
    CHECK(c.communication.v == us(139.9));
  }
  // Rank 1 begins two of the three all-reduces later, by 200 and by 20 us, in two steps.
  CHECK(r.causes.ranks[0].own_wait.v == us((200 + 20) / 2.0));
  CHECK(r.causes.ranks[1].own_wait.v == 0);
  CHECK(r.causes.ranks[1].caused_wait.v == us((200 + 20) / 2.0));
  CHECK(r.causes.ranks[1].last_arrivals == Approx(1));
  CHECK(r.model.empty());
  const std::string drawn = draw_timeline(imported->trace, {60, 8});
  CHECK_THAT(drawn, ContainsSubstring("F") && ContainsSubstring("B") && ContainsSubstring("O"));
}

/// Writes `events` as rank `rank` of a job of two, and reads them.
ImportedTrace import_rank(int rank, const std::string& events) {
  const TemporaryFolder folder;
  write_bytes(folder / "t.json", R"({"distributedInfo":{"rank":)" + std::to_string(rank) +
                                     R"(,"world_size":2},"traceEvents":[)" + events + "]}");
  Result<ImportedTrace> imported = read_kineto({folder / "t.json"});
  REQUIRE(imported.ok());
  return std::move(*imported);
}

// Steps 0 and 1 of a host that runs ahead: the optimizer of step 0 is still on the device when the
// copy and the first kernel of step 1 begin on other streams.
const std::string kRunsAhead = R"(
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#0","pid":1,"tid":1,"ts":0,"dur":40},
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":40,"dur":40},
  {"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":5,"dur":1,"args":{"correlation":1}},
  {"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":10,"dur":1,"args":{"correlation":2}},
  {"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":45,"dur":1,"args":{"correlation":3}},
  {"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":50,"dur":1,"args":{"correlation":4}},
  {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":20,"dur":30,"args":{"correlation":1}},
  {"ph":"X","cat":"kernel","name":"adam","pid":0,"tid":7,"ts":70,"dur":50,"args":{"correlation":2}},
  {"ph":"X","cat":"gpu_memcpy","name":"HtoD","pid":0,"tid":8,"ts":50,"dur":10,"args":{"correlation":3}},
  {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":9,"ts":60,"dur":100,"args":{"correlation":4}})";

TEST_CASE("of a device that runs behind its host, each step's parts add up to the step",
          "[core][analysis]") {
  const Report r = analyze(import_rank(0, kRunsAhead).trace);
  const auto us = [](double t) { return Approx(t * 1e-6).epsilon(1e-9); };
  // Step 0 takes 20..120, step 1 what is left of its 50..160: 40 us. Together 140 us of two steps.
  CHECK(r.step_time.v == us(70));
  CHECK(r.ranks[0].compute.v == us((30 + 100) / 2.0));  // 20..50 and 60..160
  CHECK(r.ranks[0].idle.v == us(5));                    // 50..60: a copy alone
  const RankCauses& c = r.causes.ranks[0];
  CHECK((c.computation + c.overlapping).v == us(65));
  CHECK((c.communication + c.waiting).v == 0);
  CHECK(c.other.v == us(5));
  Seconds bubbles, path;
  for (const Seconds s : r.causes.bubbles) bubbles += s;
  CHECK(bubbles.v == us(5));
  for (const auto& [kind, s] : r.causes.critical_path) path += s;
  CHECK(path.v == us(70));
}

TEST_CASE("a step without work of a device is none where another step has some",
          "[core][analysis]") {
  const Report r = analyze(import_rank(0, R"(
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":1,"tid":1,"ts":0,"dur":40},
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#5","pid":1,"tid":1,"ts":40,"dur":90},
    {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":50,"dur":30})")
                               .trace);
  CHECK(r.step_time.v == Approx(30e-6));
  CHECK(r.causes.ranks[0].computation.v == Approx(30e-6));
}

TEST_CASE("a lone trace keeps the rank that its job gave it", "[core][analysis]") {
  const Report r = analyze(import_rank(1, kRunsAhead).trace);
  REQUIRE(r.ranks.size() == 1);
  CHECK(r.ranks[0].rank == 0);
  CHECK(r.ranks[0].number == 1);
  const std::string json = report_json(r);
  CHECK_THAT(json, ContainsSubstring("\"ranks\": [\n    1\n  ]"));
  const Result<Report> read = parse_report(json, "report.json");
  REQUIRE(read.ok());
  CHECK(read->ranks[0].number == 1);
}

}  // namespace
}  // namespace lockstep
