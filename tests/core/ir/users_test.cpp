#include "core/ir/users.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

std::map<Stream, std::int32_t> listed(const Users& users) {
  std::map<Stream, std::int32_t> all;
  users.visit([&](Stream stream, std::int32_t number) { all[stream] = number; });
  return all;
}

}  // namespace

TEST_CASE("users are the newest of each stream, in whichever order they come", "[core][ir]") {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    Users users;
    std::map<Stream, std::int32_t> newest;
    for (int i = 0; i < 40; ++i) {
      const auto stream = static_cast<Stream>(random() % kNumStreams);
      const auto number = static_cast<std::int32_t>(random() % 1000);
      users.add(stream, number);
      newest[stream] = std::max(newest[stream], number);
      REQUIRE(users.on(stream));
      REQUIRE(listed(users) == newest);
    }
    users.clear();
    REQUIRE(users.none());
    REQUIRE(listed(users).empty());
  }
}
