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

TEST_CASE("a tied copy of what no other rank holds is refused", "[core][ir]") {
  Program program = sample::parse(sample::Sample{}.text());
  // A checkpoint leaves tied copies out, so it would hold no tensor of stage0.
  for (Role& role : program.roles) {
    for (Unit& unit : role.units) unit.tied_copy = unit.name == "stage0";
  }
  CHECK_THAT(faults(program),
             ContainsSubstring("rank 0: unit stage0 is a tied_copy, but its part of stage0.w is in "
                               "no rank's unit that is none"));
  program = sample::parse(sample::Sample{}.text());
  program.roles[RoleId{1}].units[0].tied_copy = true;  // of the two shards the second alone
  CHECK_THAT(faults(program), ContainsSubstring("rank 1: unit stage0 is a tied_copy"));
  // A parameter that another unit holds may be copied.
  program = sample::parse(sample::Sample{}.text());
  for (const RoleId role : {RoleId{2}, RoleId{3}}) {
    Unit& unit = program.roles[role].units[0];
    unit.parameters[0].parameter = ParameterId{0};
    unit.tied_copy = true;
  }
  CHECK_THAT(faults(program), !ContainsSubstring("tied_copy"));
}
