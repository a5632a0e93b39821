// Mutator: one mutant in the making, which the parts of mutate() share.
#pragma once

#include <random>
#include <string>
#include <utility>

#include "tests/mutants/mutations.hpp"

namespace lockstep::test {

class Mutator {
 public:
  Mutator(const Program& program, std::mt19937& random) : p_(program), random_(random) {}
  std::optional<Mutant> make(MutantClass which);

 private:
  std::size_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  bool chance() { return pick(2) == 0; }
  int other(int value, int count) {
    return count < 2 ? value : (value + 1 + static_cast<int>(pick(to_size(count - 1)))) % count;
  }
  Role& any_role() { return p_.roles[pick(p_.roles.size())]; }
  GroupId any_group() {
    const std::size_t g = pick(p_.groups.size() + 1);
    return g == p_.groups.size() ? GroupId{} : from_index<GroupId>(g);
  }
  void say(const Role& role, std::size_t op, const std::string& what) {
    what_ = "rank " + std::to_string(role.ranks.front()) + ": %" + std::to_string(op) + " " +
            describe(p_, role, from_index<OpId>(op)) + ": " + what;
  }

  // Each of these changes one thing and says what. It returns false if it found nothing of its
  // kind.

  // mutate_ops.cpp
  bool change_list();
  bool change_collective();
  bool change_message();
  bool change_result();
  bool change_operand();
  bool change_data();
  bool change_tag();
  // mutate_tables.cpp
  bool change_function();
  bool change_buffer();
  bool change_unit();
  bool change_table();
  bool change_parameter();

  Program p_;
  std::mt19937& random_;
  std::string what_;
};

}  // namespace lockstep::test
