#include "core/base/thread_team.hpp"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

using Ranges = std::set<std::pair<std::int64_t, std::int64_t>>;

Ranges ranges_of(ThreadTeam& team, std::int64_t n, std::int64_t grain) {
  std::mutex mutex;
  Ranges ranges;
  team.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.insert({begin, end});
  });
  return ranges;
}

TEST_CASE("each calls the body once for every index, also with more members than indices",
          "[core][base]") {
  const int members = GENERATE(1, 2, 5);
  const std::size_t count = GENERATE(0, 1, 3, 1000);
  ThreadTeam team(members);
  std::vector<std::atomic<int>> calls(count);
  team.each(count, [&](std::size_t i) { ++calls[i]; });
  for (const std::atomic<int>& n : calls) CHECK(n.load() == 1);
}

TEST_CASE("parallel_for covers the range once, in multiples of the grain", "[core][base]") {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadTeam team(threads);
    REQUIRE(team.size() == threads);
    for (const std::int64_t n : {0, 1, 5, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 64, 2000}) {
        INFO(threads << " threads, " << n << " by " << grain);
        const Ranges ranges = ranges_of(team, n, grain);
        CHECK(static_cast<int>(ranges.size()) <= threads);
        std::int64_t at = 0;
        for (const auto& [begin, end] : ranges) {
          CHECK(begin == at);
          CHECK(end > begin);
          CHECK((end == n || (end - begin) % grain == 0));
          at = end;
        }
        CHECK(at == n);
        CHECK(ranges == ranges_of(team, n, grain));
      }
    }
  }
}

TEST_CASE("a team's loops see what the loop before them wrote", "[core][base]") {
  ThreadTeam team(3);
  std::vector<int> values(100, 0);
  for (int round = 0; round < 2000; ++round) {
    team.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
      // Each round reads what another thread may have written in the round before.
      for (std::int64_t i = begin; i < end; ++i) values[i] += 1;
    });
    std::vector<int> shifted(values.size());
    team.parallel_for(100, 7, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        shifted[i] = values[99 - i];
      }
    });
    REQUIRE(shifted == std::vector<int>(100, round + 1));
  }
}

TEST_CASE("a team runs every member once per call, each on a thread of its own", "[core][base]") {
  for (const int size : {1, 2, 5}) {
    ThreadTeam team(size);
    std::vector<int> calls(static_cast<std::size_t>(size), 0);
    std::vector<std::set<std::thread::id>> threads(calls.size());
    for (int round = 0; round < 50; ++round) {
      team.run([&](int member) {
        ++calls[member];
        threads[member].insert(std::this_thread::get_id());
      });
    }
    std::set<std::thread::id> all;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      CHECK(calls[i] == 50);
      CHECK(threads[i].size() == 1);
      all.insert(threads[i].begin(), threads[i].end());
    }
    CHECK(all.size() == calls.size());
    CHECK(threads[0].count(std::this_thread::get_id()) == 1);
  }
}

TEST_CASE("members of a team run at the same time", "[core][base]") {
  ThreadTeam team(3);
  std::atomic<int> arrived = 0;
  // Each waits for all others: this returns only if they overlap.
  team.run([&](int) {
    arrived.fetch_add(1);
    while (arrived.load() < 3) std::this_thread::yield();
  });
  CHECK(arrived == 3);
}

}  // namespace
}  // namespace lockstep
