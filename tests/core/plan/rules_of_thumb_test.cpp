#include "core/plan/rules_of_thumb.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

RuleQuestion question(double billions, double memory = 80, int gpus = 8,
                      Interconnect interconnect = Interconnect::NvLink) {
  return {billions * 1e9, memory, gpus, interconnect};
}

TEST_CASE("the decision function answers its published examples", "[core][plan]") {
  // M = 80 GB, N = 8, NVLink. Static is 12 P: 0.3, 1.5, 15.6, 84, 840 GB against limits of 12 and
  // 20 GB; 840 / 8 = 105 GB is above 0.7 M = 56 GB.
  CHECK(decision_function(question(0.025)).strategy == "DDP");
  CHECK(decision_function(question(0.125)).strategy == "DDP");
  CHECK(decision_function(question(1.3)).strategy == "DDP + activation checkpointing");
  CHECK(decision_function(question(7)).strategy == "FSDP2 (ZeRO-3)");
  CHECK(decision_function(question(70)).strategy == "TP inside the node + FSDP across replicas");
}

TEST_CASE("the decision function leaves NVLink's answer for 3D without NVLink", "[core][plan]") {
  CHECK(decision_function(question(70, 80, 8, Interconnect::InfiniBand)).strategy ==
        "3D: TP + PP + FSDP");
  CHECK(decision_function(question(70, 80, 8, Interconnect::Pcie)).strategy ==
        "3D: TP + PP + FSDP");
}

TEST_CASE("the decision function's limits are strict", "[core][plan]") {
  CHECK(decision_function(question(1.0, 80)).strategy ==
        "DDP + activation checkpointing");  // 12 GB
  CHECK(decision_function(question(0.999, 80)).strategy == "DDP");
  CHECK(decision_function(question(5.0, 240)).strategy == "FSDP2 (ZeRO-3)");  // 60 GB = 0.25 M
}

TEST_CASE("the flow chart asks for fit first, then for the interconnect", "[core][plan]") {
  CHECK(flow_chart(question(6)).strategy == "DDP");  // 72 GB
  CHECK(flow_chart(question(7)).strategy == "FSDP");
  CHECK(flow_chart(question(7, 80, 8, Interconnect::InfiniBand)).strategy == "FSDP");
  CHECK(flow_chart(question(7, 80, 8, Interconnect::Pcie)).strategy == "pipeline parallel");
}

TEST_CASE("the table by size and GPUs says when it has no row", "[core][plan]") {
  CHECK(by_size_and_gpus(question(0.5, 80, 8)).strategy == "DDP");
  CHECK(by_size_and_gpus(question(7, 80, 4)).strategy == "FSDP (ZeRO-3)");
  CHECK(by_size_and_gpus(question(30, 80, 64)).strategy == "FSDP + TP inside the node");
  CHECK(by_size_and_gpus(question(70, 80, 64)).strategy == "TP + PP + DP");
  CHECK(by_size_and_gpus(question(400, 80, 256)).strategy == "TP + PP + DP");
  CHECK(by_size_and_gpus(question(400, 80, 1024)).strategy == "3D + sequence + expert parallel");
  const RuleAnswer none = by_size_and_gpus(question(7, 80, 64));
  CHECK(none.strategy.empty());
  CHECK_THAT(none.because, ContainsSubstring("4-8 GPUs only"));
}

TEST_CASE("the table by size and memory says when it has no row", "[core][plan]") {
  CHECK(by_size_and_memory(question(0.5, 40)).strategy == "DDP");
  CHECK(by_size_and_memory(question(2, 40)).strategy == "DDP + activation checkpointing");
  CHECK(by_size_and_memory(question(5, 40)).strategy == "FSDP (SHARD_GRAD_OP or FULL_SHARD)");
  CHECK(by_size_and_memory(question(7, 80)).strategy == "FSDP (FULL_SHARD)");
  CHECK(by_size_and_memory(question(13, 16)).strategy == "FSDP + CPU offload, or TP");
  CHECK(by_size_and_memory(question(7, 40)).strategy.empty());
}

TEST_CASE("every rule gives its name and its reason", "[core][plan]") {
  const auto answers = rules_of_thumb(question(7));
  REQUIRE(answers.size() == 4);
  for (const RuleAnswer& answer : answers) {
    CHECK_FALSE(answer.rule.empty());
    CHECK_FALSE(answer.because.empty());
  }
}

}  // namespace
}  // namespace lockstep
