#include "core/ir/stream_clock.hpp"

#include <random>
#include <set>
#include <vector>

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// Ops of random streams, each of which waits for some earlier ones. Some streams have many ops and
/// others few, as those of a rank do.
struct Waits {
  explicit Waits(unsigned seed) {
    std::mt19937 random(seed);
    const auto streams = 1 + random() % kNumStreams;
    const auto most = 1 + random() % 4;
    for (std::int32_t op = 0; op < 200; ++op) {
      const auto any = random() % streams;
      stream.push_back(static_cast<Stream>(random() % 3 == 0 ? any : any % 4));
      std::set<std::int32_t> earlier;
      for (auto n = random() % most; op > 0 && n > 0; --n) {
        const std::int32_t back = 1 + static_cast<std::int32_t>(random() % (op < 9 ? 1 : 9));
        earlier.insert(random() % 8 == 0 ? static_cast<std::int32_t>(random()) % op : op - back);
      }
      after.emplace_back();
      for (const std::int32_t e : earlier) {
        if (e >= 0) after.back().push_back({e});
      }
    }
  }
  std::vector<Stream> stream;
  std::vector<std::vector<OpId>> after;
};

/// By op, those that have ended when it begins: the one before it on its stream, those for which it
/// waits, and those that had ended when these began.
std::vector<std::set<std::int32_t>> ended(const Waits& waits) {
  std::vector<std::set<std::int32_t>> ended;
  std::vector<std::int32_t> last(kNumStreams, -1);
  for (std::size_t op = 0; op < waits.stream.size(); ++op) {
    std::set<std::int32_t>& all = ended.emplace_back();
    std::int32_t& before = last[to_size(waits.stream[op])];
    std::vector<OpId> known = waits.after[op];
    if (before >= 0) known.push_back({before});
    for (const OpId e : known) {
      all.insert(e.v);
      all.insert(ended[to_size(e)].begin(), ended[to_size(e)].end());
    }
    before = static_cast<std::int32_t>(op);
  }
  return ended;
}

}  // namespace

TEST_CASE("a clock knows of each other stream the newest op that has ended", "[core][ir]") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Waits waits(seed);
    const auto expected = ended(waits);
    StreamClocks clocks(waits.stream.size());
    for (int times = 0; times < 2; ++times, clocks.forget()) {
      IndexArray<Stream, StreamClocks::Clock, kNumStreams> tails;
      for (std::int32_t op = 0; op < static_cast<std::int32_t>(waits.stream.size()); ++op) {
        const Stream own = waits.stream[to_size(op)];
        for (const OpId earlier : waits.after[to_size(op)]) {
          const Stream theirs = waits.stream[to_size(earlier)];
          if (theirs != own) clocks.hear(tails[own], earlier, theirs);
        }
        clocks.keep(tails[own], {op}, own);
        for (const Stream stream : tails.ids()) {
          if (stream == own) continue;
          std::int32_t newest = -1;
          for (const std::int32_t e : expected[to_size(op)]) {
            if (waits.stream[to_size(e)] == stream) newest = e;
          }
          INFO("seed " << seed << " op " << op << " stream " << static_cast<int>(stream));
          REQUIRE(clocks.newest(OpId{op}, stream) == newest);
          REQUIRE(clocks.newest(tails[own], stream) == newest);
        }
      }
    }
  }
}
