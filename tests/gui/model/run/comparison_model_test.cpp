#include "gui/model/run/comparison_model.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "tests/catch.hpp"
#include "tests/gui/simulated.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

RunPtr simulated(const std::vector<std::string>& overrides = {}) {
  return test::simulated("tiny/gpt2-fsdp2-1f1b2.toml", overrides);
}

const DifferenceTable& table_of(const ComparisonPtr& model, const std::string& title) {
  const auto found = std::find_if(model->tables.begin(), model->tables.end(),
                                  [&](const DifferenceTable& t) { return t.title == title; });
  REQUIRE(found != model->tables.end());
  return *found;
}

RunPtr hand_made(const std::string& backend, const std::string& hash) {
  Trace trace = test::empty_trace(1);
  trace.backend = backend;
  trace.program_hash = hash;
  trace.spans = {test::span(0, 0, SimTime{0}, test::kMs)};
  return make_run(backend, std::move(trace));
}

TEST_CASE("a simulation and a real run of its program are compared unless others are chosen",
          "[gui][model]") {
  const RunPtr other = hand_made("sim", "x"), sim = hand_made("sim", "y"),
               real = hand_made("cpu", "y");
  using Pair = std::pair<RunPtr, RunPtr>;
  CHECK(runs_to_compare({}, nullptr, nullptr, nullptr) == Pair{});
  CHECK(runs_to_compare({sim}, sim, nullptr, nullptr) == Pair{sim, nullptr});
  CHECK(runs_to_compare({other, real, sim}, other, nullptr, nullptr) == Pair{sim, real});
  CHECK(runs_to_compare({other, sim}, sim, nullptr, nullptr) == Pair{other, sim});
  CHECK(runs_to_compare({sim, other, real}, other, sim, nullptr) == Pair{sim, real});
  CHECK(runs_to_compare({sim, other}, other, nullptr, sim) == Pair{other, sim});
  CHECK(runs_to_compare({sim, other, real}, sim, other, sim) == Pair{other, sim});
  const RunPtr trace = hand_made("kineto", "");
  CHECK(runs_to_compare({trace, other, sim}, sim, nullptr, nullptr) == Pair{other, trace});
}

TEST_CASE("a rank's rows lead to its longest bubbles, and a thousand ranks take no minutes",
          "[gui][model]") {
  // Every rank computes three times; its second pause is the longer one, and as long as its number.
  constexpr int kRanks = 1024, kPauses = 60;
  Trace trace = test::empty_trace(kRanks);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    SimTime time{};
    for (int i = 0; i <= kPauses; ++i) {
      trace.spans.push_back(test::span(rank, i % 48, time, time + test::kMs));
      time += test::kMs + (i == 1 ? test::kMs * (rank + 2) : test::kMs);
    }
  }
  const RunPtr run = make_run("pauses", std::move(trace));
  const auto begin = std::chrono::steady_clock::now();
  const ComparisonPtr model = make_comparison(run, run);
  // With a look through all bubbles for each rank: 250 million of them.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  int found = 0;
  for (const DifferenceRow& row : table_of(model, "Ranks").rows) {
    if (!row.name.ends_with(" is idle")) continue;
    const Rank rank = std::stoi(row.name.substr(5));
    REQUIRE(row.place_a);
    REQUIRE(row.place_a->selection.range);
    CHECK(row.place_a->selection.ranks == std::vector<Rank>{rank});
    const SimTime length = row.place_a->selection.range->end - row.place_a->selection.range->begin;
    // Where the end of the step is the longest: those that end first wait for the last one.
    CHECK(length == std::max(test::kMs * (rank + 2), test::kMs * (kRanks - 1 - rank)));
    ++found;
  }
  CHECK(found == kRanks);
}

TEST_CASE("a run does not differ from itself", "[gui][model]") {
  const RunPtr run = simulated();
  const ComparisonPtr model = make_comparison(run, run);
  CHECK(model->verdict.starts_with(
      "the same program; the same order of operations; equal peak memory"));
  REQUIRE(model->tables.size() == 7);
  CHECK(model->conclusion == "A and B take equally long.");
  for (const DifferenceTable& table : model->tables) {
    INFO(table.title);
    CHECK_FALSE(table.rows.empty());
    for (const DifferenceRow& row : table.rows) {
      CHECK(row.a == row.b);
      CHECK(row.place_a == row.place_b);
    }
  }
}

TEST_CASE("rows stand worst first, and a row of a kind points at its first span", "[gui][model]") {
  const RunPtr a = simulated();
  const RunPtr b = simulated({"what_if.straggler_rank=1", "what_if.straggler_slowdown=2.0"});
  const ComparisonPtr model = make_comparison(a, b);
  const auto& kinds = table_of(model, "Kinds").rows;
  for (std::size_t i = 1; i < kinds.size(); ++i) {
    CHECK(std::abs(kinds[i - 1].a - kinds[i - 1].b) >= std::abs(kinds[i].a - kinds[i].b));
  }
  // Ranks share a device, so that others may gain some, but not all, of what the straggler loses.
  const auto backward = std::find_if(kinds.begin(), kinds.end(),
                                     [](const DifferenceRow& r) { return r.name == "backward"; });
  REQUIRE(backward != kinds.end());
  CHECK(backward->b > 1.05 * backward->a);
  REQUIRE(backward->place_b);
  const SpanId first = *backward->place_b->selection.span;
  for (const Span& span : b->trace.spans) {
    if (b->trace.names[b->lanes.op(span).kind] != "backward") continue;
    CHECK(b->trace.spans[first].begin <= span.begin);
  }
  // Rank 1 computes longer, and each rank's rows are the reports' times.
  for (const DifferenceRow& row : table_of(model, "Ranks").rows) {
    if (!row.name.ends_with(" computes")) continue;
    INFO(row.name);
    const auto rank = static_cast<std::size_t>(std::stoi(row.name.substr(5)));
    CHECK(row.a == a->report->ranks[rank].compute.v);
    CHECK(row.b == b->report->ranks[rank].compute.v);
    CHECK((rank != 1 || row.b > 1.2 * row.a));
  }

  const TableContent content = difference_content(model, 1);
  REQUIRE(content.rows == kinds.size());
  CHECK(content.columns.size() == 7);  // with counts
  CHECK(content.columns[3].key(0) == std::abs(kinds[0].b - kinds[0].a));
  CHECK(difference_content(model, 5).columns.size() == 5);
}

TEST_CASE("the causes that are shown add up to both steps", "[gui][model]") {
  const ComparisonPtr model =
      make_comparison(simulated(), simulated({"parallelism.pipeline_parallel_schedule=GPipe"}));
  Seconds a, b;
  for (const DifferenceRow& row : table_of(model, "Causes").rows) {
    a += Seconds{row.a};
    b += Seconds{row.b};
  }
  CHECK(a.v == Approx(model->step_a.v).epsilon(1e-12));
  CHECK(b.v == Approx(model->step_b.v).epsilon(1e-12));
}

TEST_CASE("of two profiles, kernels that only one has are new or gone", "[gui][model]") {
  const auto profile = [](const std::vector<std::string>& kernels) {
    Trace trace = test::empty_trace(1);
    trace.backend = "kineto";
    trace.names = {"compute"};
    trace.streams = {"stream 7"};
    SimTime at{};
    trace.roles[0].ops.clear();
    for (const std::string& kernel : kernels) {
      trace.names.push_back(kernel);
      TraceOp op;
      op.name = static_cast<std::int32_t>(trace.names.size()) - 1;
      trace.roles[0].ops.push_back(op);
      trace.spans.push_back(
          test::span(0, static_cast<int>(trace.spans.size()), at, at + test::kMs));
      at += test::kMs;
    }
    return make_run("profile", std::move(trace));
  };
  const ComparisonPtr model =
      make_comparison(profile({"gemm", "softmax"}), profile({"gemm", "flash", "flash"}));
  CHECK(model->tables[1].title == "Kernels");
  const TableContent content = difference_content(model, 1);
  std::map<std::string, std::string> change;
  for (std::size_t row = 0; row < content.rows; ++row) {
    change[content.columns[0].text(row)] = content.columns[4].text(row);
  }
  CHECK(change == std::map<std::string, std::string>{
                      {"gemm", "+0.0 %"}, {"softmax", "gone"}, {"flash", "new"}});
}

}  // namespace
}  // namespace lockstep::gui
