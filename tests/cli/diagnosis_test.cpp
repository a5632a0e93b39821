// Makes the usual mistakes of distributed training on purpose, and checks that they are named
// before any rank would wait for another.
#include <fstream>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;
using test::CommandOutcome;

namespace {

CommandOutcome verify_text(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "program.txt") << text;
  return test::lockstep({"verify", folder / "program.txt"});
}

CommandOutcome run_scenario(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "one.toml") << text;
  return test::lockstep({"run", folder / "one.toml", "--quiet"});
}

const std::string kVision = R"([model]
preset = "resnet-tiny"
[training]
local_batch_size = 4
[parallelism]
data_parallel_replicate_degree = 2
)";

}  // namespace

TEST_CASE("a sound program verifies", "[cli]") {
  const CommandOutcome sound = verify_text(sample::Sample{}.text());
  CHECK(sound.exit_code == 0);
  CHECK_THAT(sound.out, ContainsSubstring("4 ranks, 4 roles, "));
  const CommandOutcome missing = test::lockstep({"verify", "no/such/program.txt"});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, ContainsSubstring("cannot read no/such/program.txt: No such file"));
}

TEST_CASE("collectives that differ between ranks are named", "[cli]") {
  // In order,
  const CommandOutcome order =
      verify_text(sample::Sample{}
                      .edit(1, "%1 all_gather dp stream=gather args=%b0,%b3",
                            "%1 reduce_scatter dp stream=gather args=%b3,%b0")
                      .edit(1, "%6 reduce_scatter dp stream=reduce after=%5 args=%b8,%b9",
                            "%6 all_gather dp stream=reduce after=%5 args=%b9,%b8")
                      .text());
  CHECK(order.exit_code == 2);
  CHECK_THAT(order.err, ContainsSubstring("program.txt: "));
  CHECK_THAT(order.err, ContainsSubstring("the order of collectives differs"));
  CHECK_THAT(order.err, ContainsSubstring("rank 1: %1 reduce_scatter dp"));
  // in type,
  const CommandOutcome type = verify_text(sample::Sample{}
                                              .edit(1, "%b8 grad float32", "%b8 grad int32")
                                              .edit(1, "%b9 grad float32", "%b9 grad int32")
                                              .text());
  CHECK(type.exit_code == 2);
  CHECK_THAT(type.err, ContainsSubstring("size or type differs"));
  // and one that a rank leaves out.
  const CommandOutcome missing =
      verify_text(sample::Sample{}
                      .edit(1, "%1 all_gather dp stream=gather args=%b0,%b3",
                            "%1 host_to_device tokens mb=0 stream=gather args=%b3")
                      .text());
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, ContainsSubstring("group dp"));
}

TEST_CASE("unequal batches of ranks are named, in a scenario and in a program", "[cli]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "one.toml") << kVision;
  const CommandOutcome unequal =
      test::lockstep({"run", folder / "one.toml", "--set", "training.global_batch_size=12"});
  CHECK(unequal.exit_code == 2);
  CHECK_THAT(unequal.err, ContainsSubstring("ranks would get unequal batches"));
  const CommandOutcome program = verify_text(
      sample::Sample{}
          .edit(1, "%7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2\n",
                "%7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2\n"
                "  %8 host_to_device targets mb=0 stream=copy after=%6 args=%b9\n")
          .text());
  CHECK(program.exit_code == 2);
  CHECK_THAT(program.err, ContainsSubstring("unequal batches: rank 0 takes 16 bytes"));
}

TEST_CASE("a parameter that gets no gradient is named", "[cli]") {
  const CommandOutcome outcome = verify_text(
      sample::Sample{}
          .edit_stage(0, "%7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2",
                      "%7 device_to_host loss stream=copy after=%6 args=%b9")
          .text());
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("never gets its gradient"));
}

TEST_CASE("unsynchronized batch norm and a fixed order are warned of", "[cli]") {
  const CommandOutcome local = run_scenario(kVision);
  CHECK(local.exit_code == 0);
  CHECK_THAT(local.err, ContainsSubstring("warning: "));
  CHECK_THAT(local.err,
             ContainsSubstring("one.toml:5:1: unsynchronized batch norm: each of 2 ranks"));
  const CommandOutcome together = run_scenario(kVision + "sync_batch_norm = true\n");
  CHECK(together.exit_code == 0);
  CHECK(together.err.empty());
  const CommandOutcome fixed =
      run_scenario("[model]\npreset = \"gpt2-tiny\"\n[training]\nreshuffle = false\n");
  CHECK(fixed.exit_code == 0);
  CHECK_THAT(fixed.err, ContainsSubstring("one.toml:4:13: no reshuffle between epochs"));
}
