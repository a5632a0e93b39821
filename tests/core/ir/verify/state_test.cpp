#include "core/ir/state.hpp"

#include <string>

#include "core/ir/text/text.hpp"
#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;
using sample::faults;

TEST_CASE("every kind of state that a unit keeps is in its text", "[core][ir]") {
  Program program = sample::parse(sample::Sample{}.text());
  Unit& unit = program.roles[RoleId{0}].units[0];
  for (const StateRow& row : kStates) {
    unit.states[row.kind] = {0};
    CAPTURE(row.name);
    CHECK_THAT(print(program), ContainsSubstring(" " + std::string(row.name) + "=%b0"));
  }
  CHECK(sample::parse(print(program)) == program);
}

TEST_CASE("a state of any kind whose buffer does not exist is refused by its name", "[core][ir]") {
  for (const StateRow& row : kStates) {
    Program program = sample::parse(sample::Sample{}.text());
    program.roles[RoleId{0}].units[0].states[row.kind] = {99};
    CAPTURE(row.name);
    CHECK_THAT(faults(program),
               ContainsSubstring("stage0: " + std::string(row.name) + " names no buffer"));
  }
}

TEST_CASE("a state of any kind that does not keep its values is refused by its name",
          "[core][ir]") {
  for (const StateRow& row : kStates) {
    Program program = sample::parse(sample::Sample{}.text());
    program.roles[RoleId{0}].units[0].states[row.kind] = {7};  // lives from one op to another
    CAPTURE(row.name);
    CHECK_THAT(faults(program), ContainsSubstring("stage0: " + std::string(row.name) +
                                                  " %b7 does not keep its values between steps"));
  }
}
