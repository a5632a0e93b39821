#include "gui/model/run/run_view.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "gui/model/run/describe.hpp"
#include "gui/model/run/memory_model.hpp"
#include "gui/model/timeline/span_search.hpp"
#include "tests/catch.hpp"
#include "tests/gui/simulated.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("a simulation after another is the same as one by itself", "[gui][model]") {
  const std::string file =
      std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/tiny/gpt2-fsdp2-1f1b2.toml";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  const RunPtr before = simulate(text.str(), file, {}, never).run;
  REQUIRE(before);
  using Overrides = std::vector<std::string>;
  for (const Overrides& overrides :
       {Overrides{"what_if.bandwidth_factor=0.25"},
        Overrides{"what_if.straggler_rank=1", "what_if.straggler_slowdown=3.0"},
        Overrides{"parallelism.pipeline_parallel_microbatches=4"},
        Overrides{"cluster.device.memory_gb=2"}, Overrides{"parallelism.zero_stage=1"}}) {
    INFO(overrides.front());
    const RunPtr alone = simulate(text.str(), file, overrides, never).run;
    const RunPtr after = simulate(text.str(), file, overrides, never, before.get()).run;
    REQUIRE(alone);
    REQUIRE(after);
    CHECK(after->trace == alone->trace);
    CHECK(*after->program == *alone->program);
    CHECK(*after->scenario == *alone->scenario);
    CHECK(after->report->step_time == alone->report->step_time);
    CHECK(after->report->causes == alone->report->causes);
    CHECK(after->steps.size() == alone->steps.size());
    // What lowering does not read leaves the program, which is not copied.
    if (overrides.front().starts_with("what_if")) CHECK(after->program == before->program);
  }
}

TEST_CASE("what a simulation's ranks keep in memory is found out for those that are looked at",
          "[gui][model]") {
  const RunPtr run = test::simulated("tiny/gpt2-fsdp2-1f1b2.toml");
  CHECK(run->trace.memory.empty());
  const std::vector<MemorySample>& all = run->memory();
  REQUIRE(!all.empty());
  CHECK(&run->memory() == &all);
  for (Rank rank = 0; rank < run->world_size(); ++rank) {
    const MemoryModel model = make_memory_model(run, rank);
    const MemoryCurve curve = memory_curve(run->trace, rank, all);
    CHECK(std::equal(model.curve.samples.begin(), model.curve.samples.end(), curve.samples.begin(),
                     curve.samples.end()));
    CHECK(model.curve.peak == curve.peak);
    CHECK(model.curve.arena == run->trace.peak_memory[rank]);
    CHECK(model.curve.peak > 0);
    CHECK(model.curve.peak <= model.curve.arena);
  }
}

TEST_CASE("a trace is known by its content where its name does not tell", "[gui][model]") {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  const auto kind_of = [&](const std::string& name, const std::string& bytes) {
    write_bytes(folder / name, bytes);
    return kind_of_path(folder / name);
  };
  CHECK(kind_of("rank0.et", "") == FileKind::Trace);  // Chakra's
  CHECK(kind_of("trace", "{\"traceEvents\": []}") == FileKind::Trace);
  CHECK(kind_of("trace.txt", "\x1f\x8b\x08"s) == FileKind::Trace);
  CHECK(kind_of("report.db", "SQLite format 3\0"s) == FileKind::Trace);
  CHECK(kind_of("snapshot", "\x80\x04"s) == FileKind::Trace);
  CHECK(kind_of("job", "[model]\npreset = \"gpt2\"\n") == FileKind::Scenario);
  CHECK(kind_of("job.toml", "{") == FileKind::Scenario);  // and its faults are told
  CHECK(kind_of_path(folder / "missing") == FileKind::Scenario);
}

TEST_CASE("a pass under PipeDream says which version of the weights it reads", "[gui][model]") {
  const std::string file =
      std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/tiny/llama-pipedream3.toml";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  const RunPtr run = simulate(text.str(), file, {}, never).run;
  REQUIRE(run);
  const auto first = [&](const std::string& words) {
    const auto span = SpanQuery(*run, words).next(std::nullopt, true);
    REQUIRE(span);
    return *span;
  };
  const SpanId stale = first("F5 rank0");
  CHECK(run->weights_of(run->trace.spans[stale]) == WeightsRead{3, 2});
  CHECK_THAT(text_of(facts_of(*run, stale)),
             ContainsSubstring("Weights: version 3, lacks 2 earlier updates"));
  CHECK_THAT(summary(*run, stale), ContainsSubstring("weights version 3, lacks 2 earlier updates"));
  const SpanId fresh = first("F5 rank2");
  CHECK_THAT(text_of(facts_of(*run, fresh)),
             ContainsSubstring("Weights: version 5, every earlier update in it"));
  CHECK(run->weights_of(run->trace.spans[first("O5 rank0")]).updates < 0);
}

}  // namespace
}  // namespace lockstep::gui
