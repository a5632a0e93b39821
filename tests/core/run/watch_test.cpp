#include "core/run/watch.hpp"

#include <cstdlib>

#include "core/run/process.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

using Duration = Lookout::Duration;

std::string name_of(int i) { return "process " + std::to_string(i); }

Pulse pulse(std::uint64_t progress, bool running, bool waiting, bool idle) {
  Pulse pulse;
  pulse.progress = progress;
  pulse.running = running;
  pulse.waiting = waiting;
  pulse.idle = idle;
  return pulse;
}

/// A lookout of process 0, whose looks come `since` apart, and the others' beats before each.
struct Looks {
  Lookout lookout{0, 3, Duration(10)};
  double time = 0;
  /// Looks until somebody is found, for at most 100 s. `beats` gives the pulses of 1 and 2; one
  /// whose progress is 0 is not sent.
  std::string until_found(double since, const Pulse& own, const std::vector<Pulse>& beats) {
    while (time < 100) {
      time += since;
      for (int peer = 1; peer <= 2; ++peer) {
        const Pulse& beat = beats[static_cast<std::size_t>(peer) - 1];
        if (beat.progress > 0) lookout.heard(peer, beat);
      }
      if (const auto found = lookout.look(Duration(since), own, name_of); !found) {
        return found.error().message;
      }
    }
    return "";
  }
};

}  // namespace

TEST_CASE("a silent process is found two intervals before the timeout", "[core][run]") {
  Looks looks;
  CHECK(looks.lookout.interval() == Duration(1));
  const Pulse busy = pulse(1, true, false, false);
  const std::string found = looks.until_found(1, busy, {busy, Pulse{}});
  CHECK_THAT(found, ContainsSubstring("process 2 is silent: nothing has come from it for 9.0 s") &&
                        ContainsSubstring("LOCKSTEP_TIMEOUT_SECONDS"));
  CHECK(looks.time == 9);  // the first look after more than 8 s
  CHECK(looks.lookout.silent(2));
  CHECK_FALSE(looks.lookout.silent(1));
}

TEST_CASE("a process that was itself stopped or starved does not blame the others", "[core][run]") {
  const Pulse busy = pulse(1, true, false, false);
  Looks stopped;  // for a minute; what the others sent meanwhile is read only afterwards
  CHECK(stopped.lookout.look(Duration(60), busy, name_of).ok());
  CHECK(stopped.until_found(1, busy, {busy, busy}).empty());
  Looks starved;  // looks only every 4 s: each counts for 2 s
  CHECK_THAT(starved.until_found(4, busy, {busy, Pulse{}}),
             ContainsSubstring("nothing has come from it for 10.0 s"));
  CHECK(starved.time == 20);
}

TEST_CASE("who has left is not missed", "[core][run]") {
  Looks looks;
  looks.lookout.left(2);
  const Pulse busy = pulse(1, true, false, false);
  CHECK(looks.until_found(1, busy, {busy, Pulse{}}).empty());
}

TEST_CASE("a run stands still if nobody ends an op and nobody computes", "[core][run]") {
  const Pulse waits = pulse(7, false, true, true), hangs = pulse(7, true, false, true);
  const Pulse computes = pulse(7, true, false, false), rests = pulse(7, false, false, true);
  Looks looks;
  CHECK_THAT(looks.until_found(1, waits, {waits, hangs}),
             ContainsSubstring("no process has ended an op for 8.0 s, and none computes; in an op "
                               "hang the processes 2"));
  CHECK(looks.time <= 10);
  Pulse saves = hangs;
  saves.occupied = 1;
  for (const Pulse& third : {computes, rests, saves}) {
    Looks others;
    CHECK(others.until_found(1, waits, {waits, third}).empty());
  }
  Looks cut_off;  // nothing comes from 2 after its first beats: silence, not a hang
  for (int i = 0; i < 2; ++i) {
    cut_off.lookout.heard(1, waits);
    cut_off.lookout.heard(2, hangs);
    CHECK(cut_off.lookout.look(Duration(1), waits, name_of).ok());
  }
  CHECK_THAT(cut_off.until_found(1, waits, {waits, Pulse{}}),
             ContainsSubstring("process 2 is silent"));
  // A process alone, whose ranks are threads.
  Lookout alone(0, 1, Duration(10));
  Result<void> found;
  for (int i = 0; i < 10 && found; ++i) found = alone.look(Duration(1), hangs, name_of);
  REQUIRE_FALSE(found.ok());
  CHECK_THAT(found.error().message, ContainsSubstring("no rank has ended an op for 8.0 s"));
}

TEST_CASE("a thread that is ready to run is not idle, one that wakes now and then is",
          "[core][run]") {
  const ProcessorUse before{5, {{"1", 2}, {"2", 3}}};
  CHECK(ProcessorUse{5.05, {{"1", 2.5}, {"2", 3.6}}}.idle_since(before, 1));
  CHECK_FALSE(ProcessorUse{5.05, {{"1", 2.95}, {"2", 3}}}.idle_since(before, 1));  // starved
  CHECK_FALSE(ProcessorUse{5.2, {{"1", 2.1}, {"2", 3.1}}}.idle_since(before, 1));
  CHECK(ProcessorUse{5.05, {{"3", 9}}}.idle_since(before, 1));  // a thread that has just begun
  const ProcessorUse now = ProcessorUse::now();
  CHECK(now.used > 0);
  CHECK_FALSE(now.wanted.empty());
}

TEST_CASE("the timeout is read from the environment", "[core][run]") {
  CHECK(*watch_timeout() == 10);
  ::setenv("LOCKSTEP_TIMEOUT_SECONDS", "3", 1);
  CHECK(*watch_timeout() == 3);
  ::setenv("LOCKSTEP_TIMEOUT_SECONDS", "soon", 1);
  CHECK_THAT(watch_timeout().error().message,
             ContainsSubstring("LOCKSTEP_TIMEOUT_SECONDS=soon is not a number of 0 to"));
  ::unsetenv("LOCKSTEP_TIMEOUT_SECONDS");
}

TEST_CASE("a silent process is found out also while a run that has failed ends", "[core][run]") {
  // A process that was told of the failure by another has not seen the silence itself, and would
  // wait for who is stopped.
  SoleProcess process;
  Watch watch(process, 1, {0, 2, [](int i) { return "process " + std::to_string(i); }});
  watch.start();
  process.fail({ErrorKind::Device, "process 1 is silent", std::nullopt});
  watch.end_looking();
  CHECK_FALSE(watch.lookout().silent(1));
  const auto begin = process.now();
  while (!watch.lookout().silent(1) && to_seconds(process.now() - begin).v < 30) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(watch.lookout().silent(1));
  CHECK(process.failure().result().error().message == "process 1 is silent");
}

TEST_CASE("an op of the only process that hangs ends the run", "[core][run]") {
  SoleProcess process;
  const std::uint64_t number = process.activity->flight.begin(0, OpId{3}, 0, {});
  Watch watch(process, 1, {});
  watch.start();
  const auto begin = process.now();
  while (!process.failure().is_set() && to_seconds(process.now() - begin).v < 30) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  process.activity->flight.end(number, {});
  REQUIRE(process.failure().is_set());
  CHECK_THAT(
      process.failure().result().error().message,
      ContainsSubstring("no rank has ended an op for 0.8 s, and none computes: an op hangs"));
}

}  // namespace lockstep
