#include "core/run/saver.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/core/run/memory_store.hpp"
#include "tests/core/run/two_ranks.hpp"

namespace lockstep {
namespace {

/// Saves the state of rank 0, the only one that keeps it, to `disk`.
struct OneSave {
  explicit OneSave(testing::MemoryDisk& disk) : store(disk) {
    testing::FakeDevice device(ranks.ranks[0]);
    const RankPort port{0, &device, nullptr};
    Saver saver(ranks.program, {&port, 1}, process, store);
    REQUIRE(saver.save(3, 24, {}).ok());
    done = saver.wait();
    saved = saver.saved();
  }
  testing::TwoRanks ranks;
  testing::MemoryStore store;
  SoleProcess process;
  Result<void> done;
  std::optional<int> saved;
};

}  // namespace

TEST_CASE("a save that fails ends the run with the store's own error, whichever call failed",
          "[core][run]") {
  for (const std::string call : {"begin", "write", "finish_writing", "commit"}) {
    testing::MemoryDisk disk;
    disk.fault = "no room for " + call;
    disk.faulty = call;
    const OneSave save(disk);
    INFO(call);
    REQUIRE(save.process.failure().is_set());
    CHECK(save.process.failure().result().error().message == disk.fault);
    REQUIRE_FALSE(save.done.ok());
    CHECK(save.done.error().message == disk.fault);
    CHECK_FALSE(save.saved);
    CHECK(disk.saved.empty());
  }
}

TEST_CASE("a save that succeeds fails nobody", "[core][run]") {
  testing::MemoryDisk disk;
  const OneSave save(disk);
  CHECK_FALSE(save.process.failure().is_set());
  CHECK(save.done.ok());
  CHECK(save.saved == 3);
  REQUIRE(disk.saved.size() == 1);
  CHECK(disk.saved[0].step == 3);
  CHECK(disk.saved[0].tensors.count("w") == 1);
}

}  // namespace lockstep
