#include "gui/model/run/describe.hpp"

#include <algorithm>

#include "core/format/format.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

RunPtr profile() {
  const Cancelled never{false};
  const RunPtr run = load(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/kineto", never).run;
  REQUIRE(run);
  return run;
}

SpanId first_of(const RunView& run, const std::string& kind) {
  for (SpanId i = 0; i < run.trace.spans.size(); ++i) {
    if (run.trace.names[run.lanes.op(run.trace.spans[i]).kind] == kind) return i;
  }
  FAIL("no span of kind " + kind);
  return 0;
}

std::string fact(const Facts& facts, const std::string& name) {
  const auto found = std::find_if(facts.begin(), facts.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == facts.end() ? "" : found->second;
}

TEST_CASE("the bus bandwidth of a collective is that of nccl-tests", "[gui][model]") {
  const RunPtr run = profile();
  const SpanId reduce = first_of(*run, "all_reduce");
  const Span& span = run->trace.spans[reduce];
  const double rate =
      static_cast<double>(run->lanes.op(span).bytes) / to_seconds(span.end - span.active).v;
  REQUIRE(rate > 0);
  const auto text = [](double bytes_per_s) {
    return bytes_text({static_cast<std::int64_t>(bytes_per_s)}) + "/s";
  };
  const Facts two = facts_of(*run, reduce);  // both ranks of the trace: 2 (2 - 1) / 2 = 1
  CHECK(fact(two, "Group") == "2 ranks");
  CHECK(fact(two, "Rate") == text(rate));
  CHECK(fact(two, "Bus bandwidth") == text(rate));
  const Facts eight = facts_of(*run, reduce, 8);  // the file may know of ranks that are not here
  CHECK(fact(eight, "Group") == "8 ranks");
  CHECK(fact(eight, "Bus bandwidth") == text(1.75 * rate));
  CHECK(fact(facts_of(*run, first_of(*run, "memcpy")), "Bus bandwidth").empty());
}

TEST_CASE("a kernel tells its family and the pass that it is part of", "[gui][model]") {
  const RunPtr run = profile();
  const Facts facts = facts_of(*run, first_of(*run, "backward"));
  CHECK(fact(facts, "Kind") == "matrix product");
  CHECK(fact(facts, "Part of") == "backward");
  CHECK(run->lanes.look(run->trace.spans[first_of(*run, "backward")]) == Look::Product);
}

TEST_CASE("a call of the host tells what it takes without the calls in it", "[gui][model]") {
  const RunPtr run = profile();
  for (SpanId i = 0; i < run->trace.spans.size(); ++i) {
    if (run->trace.names[run->lanes.op(run->trace.spans[i]).name] != "aten::mm") continue;
    CHECK(fact(facts_of(*run, i), "Runs for") == "60 us");
    CHECK(fact(facts_of(*run, i), "Of it itself") == "50 us");  // 10 us are its launch
    return;
  }
  FAIL("no aten::mm");
}

}  // namespace
}  // namespace lockstep::gui
