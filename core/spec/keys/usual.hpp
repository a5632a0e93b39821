// The usual values of keys: whether a visitor of describe() meets a member that somebody changed.
#pragma once

#include <vector>

#include "core/spec/keys/keys.hpp"

namespace lockstep {

/// Collects where the members of a spec lie, in the order of its rows.
class Members {
 public:
  template <class T, class... Rest>
  void key(const char*, T& member, const Rest&...) {
    list.push_back(&member);
  }
  void only(const Whose&) {}
  template <class T>
  void table(const char*, T& spec) {
    describe(*this, spec);
  }
  template <class T>
  void tables(const char*, T&) {}

  std::vector<const void*> list;
};

/// The members of a spec that nobody changed.
template <class Spec>
const std::vector<const void*>& usual_members() {
  static const Spec usual;
  static const std::vector<const void*> list = [] {
    Members members;
    describe(members, usual);
    return members.list;
  }();
  return list;
}

}  // namespace lockstep
