#include "core/run/process.hpp"

#include <atomic>
#include <limits>
#include <string>

#include "tests/catch.hpp"
#include "tests/core/run/loopback_process.hpp"

namespace lockstep {
namespace {

using testing::in_processes;
using Blobs = std::vector<std::vector<std::byte>>;

std::vector<std::byte> letters(int process) {  // "", "b", "cc", …
  return {static_cast<std::size_t>(process), static_cast<std::byte>('a' + process)};
}

}  // namespace

TEST_CASE("all_gather gives every process all bytes by index, gather only the leader",
          "[core][run]") {
  for (const int size : {1, 2, 5}) {
    Blobs expected;
    for (int i = 0; i < size; ++i) expected.push_back(letters(i));
    std::vector<Blobs> everywhere(static_cast<std::size_t>(size)), at_leader = everywhere;
    in_processes(size, [&](Process& process) {
      const auto i = static_cast<std::size_t>(process.index());
      auto all = all_gather(process, letters(process.index()));
      if (all) everywhere[i] = *all;
      auto led = gather(process, letters(process.index()));
      if (led) at_leader[i] = *led;
    });
    for (const Blobs& blobs : everywhere) CHECK(blobs == expected);
    CHECK(at_leader[0] == expected);
    for (std::size_t i = 1; i < at_leader.size(); ++i) CHECK(at_leader[i].empty());
  }
}

TEST_CASE("a process that fails ends the gathers of those that wait for it", "[core][run]") {
  std::atomic<int> ended = 0;
  in_processes(3, [&](Process& process) {
    if (process.index() == 2) {
      return process.fail(Error{ErrorKind::Device, "process 2 breaks", std::nullopt});
    }
    const auto all = all_gather(process, letters(1));
    ended += !all && all.error().message == "process 2 breaks";
  });
  CHECK(ended == 2);
}

TEST_CASE("compared clocks differ by their offset, and a shared clock by exactly nothing",
          "[core][run]") {
  for (const std::int64_t skew : {std::int64_t{0}, std::int64_t{5'000'000'000'000}}) {
    std::vector<ClockOffset> offsets(3);
    in_processes(3, [&](Process& process) {
      const auto clock = [&] { return process.now() + SimTime{skew * process.index()}; };
      const auto offset = compare_clocks(process, clock);
      if (offset) offsets[process.index()] = *offset;
    });
    for (int i = 0; i < 3; ++i) {
      const ClockOffset& offset = offsets[i];
      const SimTime error = offset.offset + SimTime{skew * i};
      CHECK(error <= offset.uncertainty);
      CHECK(error >= -offset.uncertainty);
      if (skew == 0) CHECK(offset.offset == SimTime{0});
    }
  }
}

TEST_CASE("a count from another process is checked before it is used", "[core][run]") {
  for (const std::int64_t announced :
       {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    std::string said;
    in_processes(2, [&](Process& process) {
      if (process.index() == 1) {  // what all_gather would send first, but for the number
        const Outgoing out{0, reinterpret_cast<const std::byte*>(&announced), sizeof announced};
        std::int64_t other = 0;
        const Incoming in{0, reinterpret_cast<std::byte*>(&other), sizeof other};
        static_cast<void>(process.exchange(0, {&out, 1}, {&in, 1}, Patience::Sleep));
        return;
      }
      const auto all = all_gather(process, {});
      if (!all) said = all.error().message;
    });
    CHECK_THAT(said, ContainsSubstring("process 1 announces " + std::to_string(announced) +
                                       " bytes, more than this run can mean"));
  }
  std::string odd;
  in_processes(2, [&](Process& process) {
    if (process.index() == 1) {
      static_cast<void>(all_gather(process, std::vector<std::byte>(5)));
      return;
    }
    const auto all = all_gather_values(process, std::vector<std::int32_t>{1});
    if (!all) odd = all.error().message;
  });
  CHECK_THAT(odd, ContainsSubstring("sent 5 bytes, which is not a number of values of 4"));
}

}  // namespace lockstep
