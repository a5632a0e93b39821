#include "core/ir/ring.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// The bytes that member 0 of a ring sends, counted chunk by chunk: an all-gather passes on n-1
/// chunks, each of which is the n-th part of the whole; a reduce-scatter as many; an all-reduce is
/// one after the other.
std::int64_t counted(int n, std::int64_t full, bool reduces, bool gathers) {
  std::int64_t sent = 0;
  for (int round = 0; round < (reduces ? 1 : 0) + (gathers ? 1 : 0); ++round) {
    for (int step = 1; step < n; ++step) sent += full / n;
  }
  return sent;
}

TEST_CASE("a member of a ring sends what its steps add up to", "[core][ir]") {
  for (const int n : {1, 2, 3, 8, 64}) {
    const Bytes full{std::int64_t{n} * 1000};
    CHECK(ring_bytes(OpKind::AllReduce, full, n).v == counted(n, full.v, true, true));
    CHECK(ring_bytes(OpKind::ReduceScatter, full, n).v == counted(n, full.v, true, false));
    CHECK(ring_bytes(OpKind::AllGather, full, n).v == counted(n, full.v, false, true));
    CHECK(ring_bytes(OpKind::AllToAll, full, n).v == (n - 1) * 1000);  // all but its own part
    // All members but the last pass the whole on.
    CHECK(n * ring_bytes(OpKind::Broadcast, full, n).v == (n - 1) * full.v);
    CHECK(ring_bytes(OpKind::Rotate, full, n).v == (n == 1 ? 0 : full.v));  // all that it has
    CHECK(ring_bytes(OpKind::Call, full, n).v == 0);
  }
}

}  // namespace
}  // namespace lockstep
