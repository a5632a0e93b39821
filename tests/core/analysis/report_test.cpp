#include "core/analysis/report.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"
#include "tests/integration/simulated.hpp"

namespace lockstep {
namespace {

using test::add;
using test::call;
using test::empty_world;
using test::HandMade;
using test::pipeline;

Report report_of(const HandMade& m) { return analyze(m.trace, m.program, m.scenario.cluster); }

Op transfer(OpKind kind, Stream stream) {
  Op op;
  op.kind = kind;
  op.stream = stream;
  op.target = 0;
  return op;
}

TEST_CASE("the bubble of a uniform pipeline is (p-1)/(m+p-1) of the step and (p-1)/m over ideal",
          "[core][analysis]") {
  // m forward and backward of 1 and 2 s are m (1 + 2) s of compute in a step of (m + p - 1)(1 + 2).
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 4, 8, 16}) {
      for (const bool one_f_one_b : {false, true}) {
        if (one_f_one_b && m < p) continue;
        const Report r = report_of(pipeline(p, m, 1, 2, one_f_one_b));
        INFO("p " << p << " m " << m << " 1F1B " << one_f_one_b);
        CHECK(r.step_time.v == Approx(3.0 * (m + p - 1)).epsilon(1e-12));
        CHECK(r.bubble_fraction == Approx((p - 1.0) / (m + p - 1.0)).epsilon(1e-12).margin(1e-15));
        CHECK(r.bubble_over_ideal == Approx((p - 1.0) / m).epsilon(1e-12).margin(1e-15));
      }
    }
  }
}

TEST_CASE("GPipe holds m microbatches on every rank, 1F1B at most p - s on stage s",
          "[core][analysis]") {
  const int p = 4, m = 8;
  const Report gpipe = report_of(pipeline(p, m, 1, 2, false));
  const Report one_f_one_b = report_of(pipeline(p, m, 1, 2, true));
  for (int s = 0; s < p; ++s) {
    CHECK(gpipe.ranks[s].peak_microbatches_in_flight == m);
    CHECK(one_f_one_b.ranks[s].peak_microbatches_in_flight == p - s);
  }
}

TEST_CASE("a microbatch stays in flight until its weight gradient", "[core][analysis]") {
  HandMade m = empty_world(1);
  double t = 0;
  for (const auto& [phase, mb] : std::vector<std::pair<Phase, int>>{{Phase::F, 0},
                                                                    {Phase::F, 1},
                                                                    {Phase::I, 0},
                                                                    {Phase::F, 2},
                                                                    {Phase::W, 0},
                                                                    {Phase::B, 1},
                                                                    {Phase::B, 2}}) {
    add(m, 0, call(phase, 0, mb), "compute", t, t, t + 1);
    t += 1;
  }
  CHECK(report_of(m).ranks[0].peak_microbatches_in_flight == 3);
}

TEST_CASE("a stage's span runs from its first compute to its last", "[core][analysis]") {
  const Report r = report_of(pipeline(2, 4, 1, 2, true));
  CHECK(r.ranks[0].stage_span.v == Approx(15));  // the whole step
  CHECK(r.ranks[1].stage_span.v == Approx(12));  // begins 1 s later, ends 2 s earlier
}

TEST_CASE("exposed communication is the transfer time that no compute covers", "[core][analysis]") {
  HandMade m = empty_world(2);
  for (const Rank rank : {0, 1}) {
    add(m, rank, call(Phase::F, 0, 0), "forward", 0, 0, 4);
    add(m, rank, call(Phase::B, 0, 0), "backward", 5, 5, 8);
    // Waits 1..3 for its peers, which is not transfer; 3..4 is covered, 4..5 is exposed.
    add(m, rank, transfer(OpKind::AllReduce, Stream::Reduce), "all_reduce", 1, 3, 5);
    // Two at once after the last compute: counted once, 8..10.
    add(m, rank, transfer(OpKind::AllGather, Stream::Gather), "all_gather", 8, 8, 10);
    add(m, rank, transfer(OpKind::AllReduce, Stream::Reduce), "all_reduce", 8, 8, 9);
  }
  const Report r = report_of(m);
  for (const RankReport& rank : r.ranks) {
    CHECK(rank.compute.v == Approx(7));
    CHECK(rank.exposed_comm.v == Approx(3));
    CHECK(rank.idle.v == Approx(0).margin(1e-12));
  }
  CHECK(r.exposed_comm.v == Approx(3));
  CHECK(r.bubble_fraction == Approx(0.3));
  CHECK(r.kinds.at("all_reduce").time.v == Approx(2 * (2 + 1)));
  CHECK(r.kinds.at("all_reduce").waiting.v == Approx(2 * 2));
  CHECK(r.kinds.at("all_reduce").count == 4);
}

TEST_CASE("compute, exposed communication and idle add up to the step on every rank",
          "[core][analysis]") {
  HandMade m = pipeline(4, 5, 0.3, 0.7, true);
  add(m, 3, transfer(OpKind::AllReduce, Stream::Reduce), "all_reduce", 1, 1.1, 9.05);
  const Report r = report_of(m);
  for (const RankReport& rank : r.ranks) {
    CHECK((rank.compute + rank.exposed_comm + rank.idle).v == Approx(r.step_time.v).epsilon(1e-12));
    CHECK(rank.idle.v >= 0);
  }
}

TEST_CASE("a ring sends 2(n-1)/n of an all-reduce and (n-1)/n of a gather or scatter per rank",
          "[core][analysis]") {
  for (const int n : {1, 2, 3, 4}) {
    HandMade m = empty_world(n);
    const std::int64_t full = 1200;
    for (Rank rank = 0; rank < n; ++rank) {
      Role& role = m.program.roles[rank];
      Buffer whole, shard;
      whole.bytes = {full};
      shard.bytes = {full / n};
      role.buffers = {whole, shard};
      role.args = {{0}, {1}, {0}, {0}, {1}, {0}};
      Op reduce = transfer(OpKind::AllReduce, Stream::Reduce);
      reduce.args_count = 1;
      Op gather = transfer(OpKind::AllGather, Stream::Gather);
      gather.args_begin = 1;
      gather.args_count = 2;
      Op scatter = transfer(OpKind::ReduceScatter, Stream::Reduce);
      scatter.args_begin = 3;
      scatter.args_count = 2;
      Op send = transfer(OpKind::Send, Stream::SendForward);
      send.args_begin = 5;
      send.args_count = 1;
      for (const Op& op : {reduce, gather, scatter, send}) add(m, rank, op, "comm", 0, 0, 1);
    }
    const Report r = report_of(m);
    const std::int64_t expected = full * (2 * (n - 1) + (n - 1) + (n - 1)) / n + full;
    for (const RankReport& rank : r.ranks) CHECK(rank.comm_bytes_sent.v == expected);
  }
}

TEST_CASE("MFU is model flops over what the ranks could have done", "[core][analysis]") {
  HandMade m = pipeline(4, 8, 1, 2, true);  // 33 s
  m.program.model_flops_per_step = {33e12};
  m.program.tokens_per_step = 66;
  Report r = report_of(m);
  CHECK(r.mfu == Approx(33e12 / (4 * 1e12 * 33)));
  CHECK(r.tokens_per_s == Approx(2));
  CHECK(r.images_per_s == 0);
  CHECK(r.time_to_train.v == 0);

  // Four ranks on one device that computes for two at a time have the peak of two.
  m.scenario.cluster.devices_per_node = 1;
  m.scenario.cluster.ranks_per_device = 4;
  m.scenario.cluster.device.concurrent_ranks = 2;
  CHECK(report_of(m).mfu == Approx(2 * r.mfu));
}

TEST_CASE("HFU counts what is computed a second time, and tokens cost devices by the hour",
          "[core][analysis]") {
  HandMade m = empty_world(2);
  Function again;  // 2 × 10 × 20 × 30 flops
  Kernel gemm;
  gemm.kind = KernelKind::Gemm;
  gemm.dims = {10, 20, 30, 1};
  again.kernels = {gemm};
  m.program.functions = {again};
  REQUIRE(work(again).flops.v == 12000);
  for (const Rank rank : {0, 1}) {
    add(m, rank, call(Phase::F, 0, 0), "forward", 0, 0, 1);
    add(m, rank, call(Phase::R, 0, 0), "recompute", 1, 1, 2);
  }
  m.program.model_flops_per_step = {48000};
  m.program.tokens_per_step = 4;
  m.scenario.cluster.device.dollars_per_hour = 36;
  const Report r = report_of(m);
  CHECK(r.hardware_flops_per_step.v == 72000);
  CHECK(r.hfu == Approx(1.5 * r.mfu));
  // Two devices at 0.01 $ a second for 2 s make 4 tokens.
  CHECK(r.dollars_per_billion_tokens == Approx(0.04 / 4 * 1e9));
  m.scenario.cluster.ranks_per_device = 2;
  CHECK(report_of(m).dollars_per_billion_tokens == Approx(0.02 / 4 * 1e9));
}

TEST_CASE("times and counts are means over the traced steps", "[core][analysis]") {
  HandMade m = empty_world(1);
  const OpId op = add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 2);
  m.trace.spans.push_back({0, op, 1, test::seconds(10), test::seconds(10), test::seconds(16)});
  const Report r = report_of(m);
  CHECK(r.step_time.v == Approx(4));  // of 2 and 6
  CHECK(r.ranks[0].compute.v == Approx(4));
  CHECK(r.kinds.at("forward").time.v == Approx(4));
  CHECK(r.kinds.at("forward").count == 1);
}

TEST_CASE("memory by kind is taken where most bytes are alive", "[core][analysis]") {
  HandMade m = empty_world(1);
  for (int i = 0; i < 3; ++i) add(m, 0, call(Phase::F, 0, i), "forward", i, i, i + 1);
  const auto buffer = [](BufferKind kind, std::int64_t bytes, int first, int last) {
    Buffer b;
    b.kind = kind;
    b.bytes = {bytes};
    b.set_lifetime({first}, {last});
    return b;
  };
  Buffer view = buffer(BufferKind::Activation, 500, 0, 2);
  view.set_view({0});
  m.program.roles[0].buffers = {
      buffer(BufferKind::Param, 100, -1, -1), buffer(BufferKind::Activation, 60, 0, 1),
      buffer(BufferKind::Workspace, 30, 1, 1), buffer(BufferKind::Comm, 80, 2, 2), view};
  const RankReport rank = report_of(m).ranks[0];
  CHECK(rank.peak_memory_by_kind ==
        std::map<std::string, std::int64_t>{{"param", 100}, {"activation", 60}, {"workspace", 30}});
  CHECK(rank.peak_memory.v == 1000);  // the arena
}

TEST_CASE("folded ranks take the times of the rank that stands for them", "[core][analysis]") {
  HandMade whole = empty_world(3), folded = empty_world(3);
  for (const Rank rank : {0, 1, 2}) {
    add(whole, rank, call(Phase::F, 0, 0), "forward", 0, 0, 3);
    add(folded, rank, call(Phase::F, 0, 0), "forward", 0, 0, 3);
  }
  folded.trace.same_as = {0, 0, 0};
  folded.trace.spans = {folded.trace.spans[0]};
  CHECK(report_json(report_of(folded)) == report_json(report_of(whole)));
}

TEST_CASE("a report of a trace without spans has zeros, not nonsense", "[core][analysis]") {
  const Report r = report_of(empty_world(2));
  CHECK(r.step_time.v == 0);
  CHECK(r.mfu == 0);
  CHECK(r.bubble_fraction == 0);
  CHECK(r.ranks.size() == 2);
}

TEST_CASE("a report that takes the program says what one says that keeps it", "[core][analysis]") {
  const test::Simulated s =
      test::simulate_file(test::scenario_file("tiny/gpt2-fsdp2-1f1b2.toml")).front();
  const Report kept = analyze(s.trace, s.program, s.scenario.cluster);
  CHECK(kept.ranks.front().comm_bytes_sent.v > 0);
  CHECK(!kept.ranks.front().peak_memory_by_kind.empty());
  const Report taken = analyze(s.trace, Program(s.program), s.scenario.cluster);
  CHECK(report_json(taken) == report_json(kept));
}

TEST_CASE("report.json reads back equal", "[core][analysis]") {
  HandMade m = pipeline(3, 4, 0.1, 0.7, true);
  m.program.model_flops_per_step = {1.0 / 3};
  m.trace.steps = {{0, 5.5, 1.25, 1e-3, Seconds{0.1}}, {1, std::nan(""), 2, 0, Seconds{0.1}}};
  m.program.training.model = "a \"name\"";
  const Report r = report_of(m);
  const std::string text = report_json(r);
  const Result<Report> read = parse_report(text, "report.json");
  REQUIRE(read.ok());
  CHECK(report_json(*read) == text);
  CHECK(read->losses[0] == 5.5);
  CHECK(std::isnan(read->losses[1]));
  CHECK(read->causes == r.causes);
  REQUIRE(r.causes.ranks.size() == 3);
}

TEST_CASE("report.json is JSON whatever its numbers are, and reads back", "[core][analysis]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double odd : {std::nan(""), kInfinity, -kInfinity}) {
    Report r = report_of(pipeline(2, 4, 1, 2, true));
    for (double* v : {&r.step_time.v,
                      &r.tokens_per_s,
                      &r.images_per_s,
                      &r.time_to_train.v,
                      &r.scaling_efficiency,
                      &r.model_flops_per_step.v,
                      &r.mfu,
                      &r.hardware_flops_per_step.v,
                      &r.hfu,
                      &r.dollars_per_billion_tokens,
                      &r.bubble_fraction,
                      &r.bubble_over_ideal,
                      &r.exposed_comm.v,
                      &r.ranks[0].compute.v,
                      &r.ranks[1].exposed_comm.v,
                      &r.ranks[1].idle.v,
                      &r.ranks[0].stage_span.v,
                      &r.kinds["forward"].time.v,
                      &r.kinds["forward"].waiting.v,
                      &r.causes.bubbles[0].v,
                      &r.causes.exposed_comm["all_reduce"].v,
                      &r.causes.critical_path["forward"].v,
                      &r.causes.critical_path_crossings,
                      &r.causes.ranks[1].waiting.v,
                      &r.causes.ranks[0].last_arrivals}) {
      *v = odd;
    }
    r.losses = {2.5, odd};
    r.grad_norms = {odd, odd};
    const std::string text = report_json(r);
    const auto parsed = nlohmann::json::parse(text, nullptr, false);
    REQUIRE_FALSE(parsed.is_discarded());
    CHECK(parsed["mfu"].is_null());
    CHECK(parsed["losses"] == nlohmann::json{2.5, nullptr});
    const Result<Report> read = parse_report(text, "report.json");
    REQUIRE(read.ok());
    CHECK(read->mfu == 0);  // nobody knows it
    CHECK(std::isnan(read->causes.ranks[1].waiting.v));
    CHECK(read->losses[0] == 2.5);
    CHECK(std::isnan(read->grad_norms[0]));
    CHECK(report_json(*read) == text);
  }
}

TEST_CASE("losses that are not finite are told in words", "[core][analysis]") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  CHECK(losses_remark({}).empty());
  CHECK(losses_remark({3, 2, 1}).empty());
  CHECK(losses_remark({nan}) == "not finite since step 1");
  CHECK(losses_remark({3, infinity, nan, nan}) == "not finite since step 2");
  CHECK(losses_remark({3, nan, infinity, 2, nan}) == "not finite from step 2 to 3");
}

TEST_CASE("a report of before causes were told reads all the same", "[core][analysis]") {
  Report r = report_of(pipeline(3, 4, 1, 2, true));
  const std::string text = report_json(r);
  const std::size_t first = text.find("  \"bubbles_s\""), last = text.find("  \"losses\"");
  REQUIRE(first < last);
  const Result<Report> read = parse_report(text.substr(0, first) + text.substr(last), "old.json");
  REQUIRE(read.ok());
  CHECK(read->causes == Causes());
  CHECK(read->step_time.v == r.step_time.v);
}

TEST_CASE("a file that is no report is refused with its name", "[core][analysis]") {
  for (const char* text : {"", "{", "[]", "{\"backend\": 3}", "{\"backend\": \"sim\"}"}) {
    const Result<Report> read = parse_report(text, "runs/a/report.json");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().kind == ErrorKind::Parse);
    CHECK_THAT(to_string(read.error()), ContainsSubstring("runs/a/report.json: not a report"));
  }
}

}  // namespace
}  // namespace lockstep
