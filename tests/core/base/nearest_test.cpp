#include "core/base/nearest.hpp"

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("a wrong name is answered by the one it resembles, or by all if it resembles none",
          "[core][base]") {
  const std::vector<std::string> names = {"all_gather", "all_reduce", "broadcast"};
  CHECK(suggest("All_Reduse", names) == "; did you mean 'all_reduce'?");
  CHECK(suggest("xyz", names) == "; valid: all_gather, all_reduce, broadcast");
}

}  // namespace lockstep
