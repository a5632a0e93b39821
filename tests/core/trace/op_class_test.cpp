#include "core/trace/op_class.hpp"

#include <set>
#include <string_view>

#include "core/trace/kineto/names.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("kinds of a profile are what docs/traces.md says they are", "[core][trace]") {
  const std::set<std::string_view> computes = {"compute", "forward", "backward", "optimizer"};
  const std::set<std::string_view> copies = {"memcpy", "memset"};
  const std::set<std::string_view> host = {"host", "annotation", "sync"};
  for (int k = 0; k <= static_cast<int>(kineto::Kind::Sync); ++k) {
    const std::string_view kind = kineto::to_string(static_cast<kineto::Kind>(k));
    INFO(kind);
    CHECK((op_class(kind) == OpClass::Compute) == (computes.count(kind) == 1));
    CHECK((op_class(kind) == OpClass::Copy) == (copies.count(kind) == 1));
    CHECK((op_class(kind) == OpClass::Host) == (host.count(kind) == 1));
    const bool rest = computes.count(kind) + copies.count(kind) + host.count(kind) == 0;
    CHECK(is_transfer(op_class(kind)) == rest);
  }
}

TEST_CASE("a message has two ends, which one kernel may both be", "[core][trace]") {
  CHECK(op_class("send") == OpClass::Send);
  CHECK(op_class("recv") == OpClass::Recv);
  CHECK(op_class("send_recv") == OpClass::SendRecv);
  CHECK(is_message(op_class("send_recv")));
  CHECK_FALSE(is_message(op_class("all_reduce")));
  CHECK(is_transfer(op_class("all_reduce")));
  CHECK(op_class("no such kind") == OpClass::Compute);
}

}  // namespace
}  // namespace lockstep
