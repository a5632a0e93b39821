#include "cli/causes_text.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// A step of 10 s on two ranks: 4 s of warm-up on the second, 1 s of exposed transfers on both.
Report some_report() {
  Report r;
  r.step_time = {10};
  r.causes.bubbles = {Seconds{2}, Seconds{0.001}, Seconds{1}, Seconds{0}, Seconds{0}};
  r.causes.exposed_comm = {{"all_gather", {0.25}}, {"recv", {0.75}}, {"send", {0.0001}}};
  r.causes.critical_path = {{"backward", {6}}, {"forward", {3.5}}, {"recv", {0.5}}};
  r.causes.critical_path_crossings = 3;
  r.causes.ranks.resize(2);
  return r;
}

TEST_CASE("causes that are worth telling are a table, with what is exposed and the path", "[cli]") {
  CHECK(causes_text(some_report(), {}) ==
        "idle, mean over ranks     time  of the step\n"
        "warm-up                    2 s       20.0 %\n"
        "exposed communication      1 s       10.0 %\n"
        "all                    3.001 s       30.0 %\n"
        "\n"
        "exposed        recv 7.5 %, all_gather 2.5 %\n"
        "critical path  backward 60.0 %, forward 35.0 %, recv 5.0 %; 3 times from rank to rank\n");
}

TEST_CASE("stragglers are named where others wait for them, the worst first", "[cli]") {
  Report r = some_report();
  r.causes.ranks[0].last_arrivals = 1;
  r.causes.ranks[0].caused_wait = {0.5};
  r.causes.ranks[1].last_arrivals = 7.5;
  r.causes.ranks[1].caused_wait = {2};
  const std::string text = causes_text(r, {});
  const std::size_t first = text.find("rank 1"), second = text.find("rank 0");
  REQUIRE(first != std::string::npos);
  CHECK(first < second);
  CHECK_THAT(text, ContainsSubstring("7.5"));
  r.causes.ranks[0].caused_wait = {0.0001};
  CHECK(causes_text(r, {}).find("rank 0") == std::string::npos);
}

TEST_CASE("a step on one rank has no word on ranks; a report without spans none at all", "[cli]") {
  Report r = some_report();
  r.causes.critical_path_crossings = 0;
  CHECK(causes_text(r, {}).find("from rank to rank") == std::string::npos);
  CHECK(causes_text(Report(), {}).empty());
}

}  // namespace
}  // namespace lockstep
