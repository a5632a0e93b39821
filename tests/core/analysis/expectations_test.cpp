#include "core/analysis/expectations.hpp"

#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"

namespace lockstep {
namespace {

Report sample(const char* backend) {
  test::HandMade m = test::pipeline(2, 4, 1, 2, true);
  m.trace.backend = backend;
  if (m.trace.backend != "sim") {
    m.trace.steps = {{0, 5.5, 1, 1e-3, Seconds{15}}, {1, 5.0, 1, 1e-3, Seconds{15}}};
  }
  return analyze(m.trace, m.program, m.scenario.cluster);
}

Expectation expect(const std::string& key, double value, double relative = 0) {
  Expectation e;
  e.key = key;
  e.value = value;
  e.relative = relative;
  e.where = {"s.toml", 12, 3};
  return e;
}

std::vector<Error> check(const char* backend, const Expectation& e) {
  return check_expectations(sample(backend), {e});
}

TEST_CASE("an expectation that holds is silent", "[core][analysis]") {
  CHECK(check("sim", expect("step_time_s", 15)).empty());
  CHECK(check("sim", expect("bubble_fraction", 0.2)).empty());
  CHECK(check("sim", expect("stage_span_s.1", 12)).empty());
  CHECK(check("sim", expect("stage_span_s.-1", 12)).empty());
  CHECK(check("sim", expect("stage_span_s.max", 15)).empty());
  CHECK(check("sim", expect("peak_memory_bytes.sum", 2001)).empty());
  CHECK(check("sim", expect("kinds.forward.count", 8)).empty());
  CHECK(check("sim", expect("step_time_s", 14, 0.08)).empty());
  CHECK(check("cpu", expect("losses.-1", 5)).empty());
}

TEST_CASE("an expectation that fails says what was measured, at its line", "[core][analysis]") {
  const auto errors = check("sim", expect("step_time_s", 14, 0.05));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].kind == ErrorKind::Expectation);
  CHECK(exit_code(errors[0].kind) == 5);
  CHECK(to_string(errors[0]) == "s.toml:12:3: step_time_s is 15, expected 14 ± 0.7");
}

TEST_CASE("bounds replace value and tolerance", "[core][analysis]") {
  Expectation e = expect("step_time_s", 0);
  e.min = 10;
  CHECK(check("sim", e).empty());
  e.max = 14.5;
  const auto errors = check("sim", e);
  REQUIRE(errors.size() == 1);
  CHECK_THAT(errors[0].message, ContainsSubstring("is 15, expected at least 10 and at most 14.5"));
}

TEST_CASE("a key that the report lacks is a failure with the nearest name", "[core][analysis]") {
  const auto errors = check("sim", expect("step_tme_s", 15));
  REQUIRE(errors.size() == 1);
  CHECK_THAT(errors[0].message, ContainsSubstring("did you mean 'step_time_s'?"));
  CHECK(check("sim", expect("stage_span_s.7", 1)).size() == 1);
  CHECK(check("sim", expect("stage_span_s", 1)).size() == 1);
  CHECK(check("sim", expect("backend", 1)).size() == 1);
  CHECK(check("sim", expect("step_time_s.0", 1)).size() == 1);
}

TEST_CASE("losses are expected of backends that compute only", "[core][analysis]") {
  CHECK(check("sim", expect("losses.0", 1)).empty());
  CHECK(check("cpu", expect("losses.0", 1)).size() == 1);
  CHECK(check("cpu", expect("losses.9", 1)).size() == 1);  // the run was too short to say
}

TEST_CASE("a loss that is not a number fails every expectation", "[core][analysis]") {
  Report r = sample("cpu");
  r.losses[0] = std::nan("");
  CHECK(check_expectations(r, {expect("losses.0", 5.5, 1e9)}).size() == 1);
  Expectation bound = expect("losses.0", 0);
  bound.max = 1e300;
  CHECK(check_expectations(r, {bound}).size() == 1);
}

}  // namespace
}  // namespace lockstep
