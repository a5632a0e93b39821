#include "core/validation/mapping.hpp"

#include "core/scenario/scenario_file.hpp"
#include "tests/core/validation/rows.hpp"

using namespace lockstep;
using test::training_row;

namespace {

Scenario mapped(const test::Cells& changes) {
  const MappedRow result = map_row(training_row(changes));
  INFO(to_string(result.reason) << ": " << result.detail);
  REQUIRE(result.scenario);
  return *result.scenario;
}

Unexpressed reason(const test::Cells& changes) {
  const MappedRow result = map_row(training_row(changes));
  REQUIRE(!result.scenario);
  REQUIRE(!result.detail.empty());
  return result.reason;
}

}  // namespace

TEST_CASE("sizes, batch and cards of a row are those of its scenario", "[validation]") {
  const Scenario s = mapped({{"kv_heads", "4"}, {"gpus", "16"}, {"dp", "16"}});
  CHECK(s.name == "own-001");
  CHECK(s.model.architecture == Architecture::Gpt2);
  CHECK(s.model.hidden == 2048);
  CHECK(s.model.ffn_hidden == 4 * 2048);
  CHECK(s.model.kv_heads == 4);
  CHECK(s.model.tied_embeddings);
  CHECK(s.cluster.nodes == 2);
  CHECK(s.cluster.device.name == "NVIDIA A100-SXM4-80GB");
  CHECK(s.strategy.data_parallel_replicate_degree == 16);
  CHECK(s.microbatch_size() == 2);
  CHECK(s.global_batch_size() == 64);
  CHECK(s.num_microbatches() == 2);
  CHECK(s.training.dtype == DType::F32);  // masters
  CHECK(s.training.param_dtype() == DType::BF16);
  CHECK(s.training.reduce_dtype() == DType::F32);
}

TEST_CASE("Nemotron 340B of NeMo 1 has an optimizer in 16 bits", "[validation]") {
  const auto bytes = [](const char* source, const char* model, const char* precision) {
    return mapped({{"source", source}, {"model", model}, {"precision", precision}})
        .cluster.framework.optimizer_bytes;
  };
  const char* const recipe = "NVIDIA/dgxc-benchmarking nemotron/README_340b.md @ v25.03";
  CHECK(bytes(recipe, "nemotron4 340b", "bf16") == 4);
  CHECK(bytes(recipe, "nemotron4 340b", "fp8") == 6);
  CHECK(bytes("NVIDIA/dgxc-benchmarking nemotron/README.md @ v25.05", "nemotron4 340b", "bf16") ==
        12);
  CHECK(bytes(recipe, "nemotron4 15b", "bf16") == 12);
}

TEST_CASE("models by name: Llama's have their own architecture and an output layer",
          "[validation]") {
  const Scenario s = mapped({{"model", "llama3.1 8b"}});
  CHECK(s.model.architecture == Architecture::Llama);
  CHECK(!s.model.tied_embeddings);
  CHECK(!mapped({{"model", "nemotron4 15b"}}).model.tied_embeddings);
  CHECK(!mapped({{"notes", "untied embeddings"}}).model.tied_embeddings);
}

TEST_CASE("pipelines take microbatches, chunks and uneven ends", "[validation]") {
  const Scenario plain = mapped({{"pp", "8"}, {"dp", "1"}});
  CHECK(plain.strategy.pipeline_parallel_schedule == PipelineSchedule::OneFOneB);
  CHECK(plain.num_microbatches() == 32);
  CHECK(plain.strategy.pipeline_parallel_layers_per_stage == std::vector<int>(8, 3));

  const Scenario chunks = mapped({{"pp", "4"}, {"vpp", "3"}, {"dp", "2"}});
  CHECK(chunks.strategy.pipeline_parallel_schedule == PipelineSchedule::Interleaved1F1B);
  CHECK(chunks.strategy.pipeline_parallel_layers_per_stage == std::vector<int>(12, 2));

  // Zero Bubble's: embedding and output layer stand for a block each.
  const Scenario ends =
      mapped({{"pp", "8"}, {"dp", "1"}, {"layers", "22"}, {"notes", "schedule=ZB-2p; m=32"}});
  CHECK(ends.strategy.pipeline_parallel_schedule == PipelineSchedule::Zb2p);
  CHECK(ends.strategy.pipeline_parallel_layers_per_stage ==
        std::vector<int>{2, 3, 3, 3, 3, 3, 3, 2});
}

TEST_CASE("sharding by its published names", "[validation]") {
  const auto strategy = [](const std::string& name) {
    return mapped({{"fsdp_or_zero", name}, {"global_batch_seqs", "16"}}).strategy;
  };
  CHECK(strategy("zero1").zero_stage == 1);
  CHECK(strategy("dist-opt(zero1)").data_parallel_shard_degree == 8);
  CHECK(strategy("fsdp shard-grad-op(zero2)").zero_stage == 2);
  CHECK(strategy("fsdp full shard(zero3)").zero_stage == 3);
  CHECK(strategy("").data_parallel_replicate_degree == 8);
  CHECK(strategy("fsdp4").data_parallel_shard_degree == 4);
  CHECK(strategy("fsdp4").data_parallel_replicate_degree == 2);
  // FSDP scatters gradients after every pass.
  CHECK(mapped({{"fsdp_or_zero", "fsdp"}}).accumulates_shards());
  CHECK(!mapped({{"fsdp_or_zero", "fsdp"}, {"global_batch_seqs", "16"}})
             .accumulates_shards());  // of one pass
}

TEST_CASE("what software does always is its source's convention", "[validation]") {
  const Scenario nemo = mapped({{"id", "dgxc-001"}, {"tp", "2"}, {"dp", "4"}});
  CHECK(nemo.strategy.enable_sequence_parallel);
  CHECK(nemo.strategy.zero_stage == 1);
  CHECK(nemo.strategy.overlap_param_gather);
  const Scenario vtrain = mapped({{"id", "vtrain-m-001"}, {"tp", "2"}, {"dp", "4"}});
  CHECK(!vtrain.strategy.enable_sequence_parallel);
  CHECK(!vtrain.strategy.overlap_grad_reduce);
  const Scenario mosaic = mapped({{"id", "mosaic-001"}, {"fsdp_or_zero", "fsdp"}});
  CHECK(mosaic.training.reduce_dtype() == DType::BF16);
  CHECK(!mapped({{"id", "dgxc-001"}, {"tp", "2"}, {"dp", "4"}, {"sp", "no"}})
             .strategy.enable_sequence_parallel);
}

TEST_CASE("context parallelism, recomputation and float32 are read", "[validation]") {
  const Scenario cp = mapped({{"notes", "cp=2; GA=32"}, {"dp", "4"}, {"recompute", "selective"}});
  CHECK(cp.strategy.context_parallel_degree == 2);
  CHECK(cp.strategy.context_parallel_method == ContextParallelMethod::AllGather);
  CHECK(cp.activation_checkpoint.of_block(0)->attention);
  CHECK(mapped({{"recompute", "full"}}).activation_checkpoint.of_block(0)->everything);
  CHECK(mapped({{"precision", "fp32 (mixed_precision: no)"}}).training.param_dtype() == DType::F32);
}

TEST_CASE("a row in float16 trains in it over float32 masters", "[validation]") {
  const Scenario v100 = mapped({{"hw", "V100-16GB"}, {"precision", "fp16"}});
  CHECK(v100.training.param_dtype() == DType::F16);
  CHECK(v100.training.keeps_master());
  CHECK(v100.training.scales_loss());
  CHECK(v100.cluster.device.memory.v == 16'900'000'000);  // 15.78 GiB
}

TEST_CASE("gradients are in float16 where Megatron-LM and DeepSpeed had it until 2022",
          "[validation]") {
  const auto reduced = [](const std::string& id, const std::string& precision) {
    return mapped({{"id", id}, {"precision", precision}}).training.reduce_dtype();
  };
  CHECK(reduced("sc21-t1-001", "fp16") == DType::F16);
  CHECK(reduced("sc21-t1-001", "bf16") == DType::F32);
  CHECK(reduced("tr3m-001", "fp16") == DType::F16);
  CHECK(reduced("simumax-001", "fp16") == DType::F32);
}

TEST_CASE("jobs have as many GPUs of every NVLink domain", "[validation]") {
  const auto devices = [](const std::string& gpus) {
    const test::Cells rack = {
        {"hw", "GB200 NVL72"}, {"gpus_per_node", ""},         {"gpus", gpus},
        {"dp", gpus},          {"global_batch_seqs", "1152"}, {"micro_batch", "1"}};
    return mapped(rack).cluster.devices_per_node;
  };
  CHECK(devices("128") == 64);
  CHECK(devices("144") == 72);
  CHECK(devices("32") == 32);
}

TEST_CASE("before PXN, nodes with fewer ports than GPUs are limited by their processors",
          "[validation]") {
  const auto sockets = [](const std::string& id, const std::string& ports) {
    return mapped({{"id", id}, {"interconnect", ports}}).cluster.network.sockets.v;
  };
  CHECK(sockets("vtrain-m-001", "800Gb/s per node") == 16e9);
  CHECK(sockets("sc21-t1-001", "8x200Gb/s HDR IB per node") == 0);
  CHECK(sockets("mosaic-001", "800Gb/s per node") == 0);
}

TEST_CASE("rates of a node's ports are shared by its GPUs", "[validation]") {
  CHECK(node_gigabits("NVLink3; 8x200Gb/s HDR IB") == 1600);
  CHECK(node_gigabits("1600Gb/s RoCE per node") == 1600);
  CHECK(node_gigabits("NVLink3; 4x100Gb/s Omni-Path per node") == 400);
  CHECK(!node_gigabits("NVLink in node; RoCE between nodes"));
  // 400 Gb/s for eight are 6.25 GB/s each, 0.74 of it for data
  const Scenario s = mapped({{"interconnect", "4x100Gb/s Omni-Path per node"}});
  CHECK(s.cluster.inter_node.bandwidth.v == Approx(6.25e9 * 0.74));
}

TEST_CASE("cards are known by their published names", "[validation]") {
  CHECK(profile_of("A100-SXM4-40GB") == "a100-40");
  CHECK(profile_of("A100 (memory size not stated)") == "a100-80");
  CHECK(profile_of("H100-80GB-HBM3") == "h100");
  CHECK(profile_of("H200") == "h200");
  CHECK(profile_of("H20 96GB") == "h20");
  CHECK(profile_of("GH200") == "gh200");
  CHECK(profile_of("GB200 NVL72") == "gb200");
  CHECK(profile_of("B200 8x P6-B200 (NVLink5)") == "b200");
  CHECK(profile_of("AMD Instinct MI325X or MI355X (blog covers both)").empty());
  // 128 GPUs of NVLink domains of 72: two, 64 of each
  const Scenario rack = mapped({{"hw", "GB200 NVL72"},
                                {"gpus", "128"},
                                {"gpus_per_node", ""},
                                {"dp", "128"},
                                {"global_batch_seqs", "256"}});
  CHECK(rack.cluster.devices_per_node == 64);
  CHECK(rack.cluster.nodes == 2);
}

TEST_CASE("a vocabulary divided over stages has as many microbatches more in flight as its method",
          "[validation]") {
  const auto with = [](const char* method) {
    return mapped(
               {{"pp", "8"}, {"dp", "1"}, {"notes", std::string("method=") + method + " (1F1B)"}})
        .strategy;
  };
  for (const auto& [method, lag] :
       {std::pair{"vocab", 2}, std::pair{"synctwice", 2}, std::pair{"interlaced", 4}}) {
    CHECK(with(method).vocabulary_stages() == 8);
    CHECK(with(method).vocabulary_parallel_lag == lag);
    CHECK(with(method).pipeline_parallel_p2p == P2pPosting::Async);
  }
  CHECK(with("base").vocabulary_stages() == 1);
}

TEST_CASE("the precision of a row gives types and the way of scaling", "[validation]") {
  const auto training = [](const char* precision) {
    return mapped({{"precision", precision}, {"hw", "GB200 NVL72"}}).training;
  };
  CHECK(training("fp16").mixed_precision_param == PartDType::F16);
  CHECK(training("bf16 or fp16").mixed_precision_param == PartDType::BF16);
  CHECK(training("fp8").mixed_precision_param == PartDType::BF16);
  const auto framework = [](const char* precision) {
    return mapped({{"precision", precision}, {"hw", "GB200 NVL72"}}).cluster.framework;
  };
  CHECK(framework("bf16").fp8 == Fp8Recipe::None);
  CHECK(framework("fp8").fp8 == Fp8Recipe::Delayed);
  CHECK(framework("FP8-CS").fp8 == Fp8Recipe::Current);
  CHECK(framework("MXFP8").fp8 == Fp8Recipe::Block);
  CHECK(framework("nvfp4").fp4 == Fp4Recipe::Nvfp4);
  CHECK(framework("nvfp4").fp8 == Fp8Recipe::None);
  CHECK(framework("mxfp4").fp4 == Fp4Recipe::Mxfp4);
}

TEST_CASE("a row that cannot be expressed says why", "[validation]") {
  CHECK(reason({{"hw", "TPU v5p"}}) == Unexpressed::NoProfile);
  CHECK(reason({{"heads", ""}}) == Unexpressed::Unsaid);
  CHECK(reason({{"global_batch_seqs", ""}}) == Unexpressed::Unsaid);
  CHECK(reason({{"dp", "3"}}) == Unexpressed::Unsaid);
  CHECK(reason({{"model", "DeepSeek-V3"}}) == Unexpressed::NotDense);
  const MappedRow refused = map_row(training_row({{"pp", "8"}, {"dp", "1"}, {"layers", "5"}}));
  CHECK(refused.reason == Unexpressed::Refused);
  CHECK_THAT(refused.detail, ContainsSubstring("blocks"));
}

TEST_CASE("a row in float32 is simulated in float32, on cards with bfloat16 too", "[validation]") {
  CHECK(mapped({{"precision", "fp32"}}).training.param_dtype() == DType::F32);
  CHECK(mapped({{"precision", "bf16"}}).training.param_dtype() == DType::BF16);
}

TEST_CASE("overrides change every scenario, and what is mapped can be saved", "[validation]") {
  const MappedRow row = map_row(training_row(), {"training.seq_len=1024"});
  REQUIRE(row.scenario);
  CHECK(row.scenario->training.seq_len == 1024);
  const LoadedScenario again = parse_scenario(print_scenario(*row.scenario), "row.toml", {});
  REQUIRE(again.ok());
  CHECK(again.points.front().scenario.strategy == row.scenario->strategy);
  CHECK(again.points.front().scenario.cluster == row.scenario->cluster);
}
