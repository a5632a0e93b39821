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

TEST_CASE("an optimizer in 16 bits is a column's", "[validation]") {
  const auto bytes = [](const char* cell) {
    return mapped({{"optimizer_bytes", cell}}).cluster.framework.optimizer_bytes;
  };
  CHECK(bytes("4") == 4);
  CHECK(bytes("6") == 6);
  CHECK(bytes("") == 12);
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

TEST_CASE("what a row does not say is usual for its software", "[validation]") {
  const test::Cells tensor_parallel = {
      {"framework", "NeMo 24.07"}, {"hw", "H100"}, {"tp", "2"}, {"dp", "4"}};
  const Scenario nemo = mapped(tensor_parallel);
  CHECK(nemo.strategy.enable_sequence_parallel);
  CHECK(nemo.strategy.zero_stage == 1);
  CHECK(nemo.strategy.overlap_param_gather);
  test::Cells without = tensor_parallel;
  without.emplace_back("sp", "no");
  CHECK(!mapped(without).strategy.enable_sequence_parallel);
  const Scenario old = mapped({{"framework", "Megatron-DeepSpeed 2022"}, {"tp", "2"}, {"dp", "4"}});
  CHECK(!old.strategy.enable_sequence_parallel);
  CHECK(!old.strategy.overlap_grad_reduce);
  const Scenario foundry = mapped({{"framework", "llm-foundry"}, {"fsdp_or_zero", "fsdp"}});
  CHECK(foundry.training.reduce_dtype() == DType::BF16);
  // A source that nobody has read: Megatron Core on an H100, not eager FSDP.
  const Scenario unknown = mapped({{"hw", "H100"}, {"tp", "2"}, {"dp", "4"}});
  CHECK(unknown.cluster.framework.preset == "megatron-core");
  CHECK(unknown.strategy.enable_sequence_parallel);
}

TEST_CASE("attention that is said to be Flash replaces stored scores", "[validation]") {
  const auto attention = [](const char* notes) {
    return mapped({{"framework", "Megatron-LM 2022"}, {"notes", notes}})
        .cluster.framework.attention;
  };
  CHECK(attention("flash attention") == AttentionKernel::Flash2);
  CHECK(attention("no flash attention") == AttentionKernel::Unfused);
  CHECK(attention("") == AttentionKernel::Unfused);
}

TEST_CASE("experts, adapters and encoders are expressed", "[validation]") {
  const Scenario experts = mapped({{"model", "Qwen3-235B-A22B"},
                                   {"experts", "128"},
                                   {"experts_per_token", "8"},
                                   {"expert_ffn", "1536"},
                                   {"head_dim", "64"},
                                   {"fsdp_or_zero", "dist-opt"},
                                   {"notes", "ep=8"}});
  CHECK(experts.model.architecture == Architecture::Llama);
  CHECK(experts.model.experts == 128);
  CHECK(experts.model.experts_per_token == 8);
  CHECK(experts.model.ffn_hidden == 1536);
  CHECK(experts.strategy.expert_parallel_degree == 8);
  // Tables without the columns have them in notes.
  const Scenario noted = mapped({{"model", "Qwen3 moe"}, {"notes", "experts 64, top 4, ep=1"}});
  CHECK(noted.model.experts == 64);
  CHECK(noted.model.experts_per_token == 4);

  CHECK(mapped({{"lora_rank", "16"}}).model.lora.rank == 16);
  CHECK(mapped({{"notes", "LoRA dim 8 alpha 32"}}).model.lora.rank == 8);
  CHECK(reason({{"notes", "LoRA (rank: see the page)"}}) == Unexpressed::Unsaid);

  CHECK(!mapped({{"architecture", "bert"}}).model.causal);
  CHECK(!mapped({{"model", "BERT 4B"}}).model.causal);
  CHECK(mapped({}).model.causal);
}

TEST_CASE("context parallelism, recomputation and float32 are read", "[validation]") {
  const Scenario cp = mapped({{"notes", "cp=2; GA=32"}, {"dp", "4"}, {"recompute", "selective"}});
  CHECK(cp.strategy.context_parallel_degree == 2);
  CHECK(cp.strategy.context_parallel_method == ContextParallelMethod::AllGather);
  CHECK(cp.activation_checkpoint.of_block(0)->parts == ForwardParts{ForwardPart::CoreAttention});
  CHECK(mapped({{"recompute", "full"}}).activation_checkpoint.of_block(0)->parts ==
        ForwardParts::all());
  CHECK(mapped({{"precision", "fp32 (mixed_precision: no)"}}).training.param_dtype() == DType::F32);
}

TEST_CASE("a row in float16 trains in it over float32 masters", "[validation]") {
  const Scenario v100 = mapped({{"hw", "V100-16GB"}, {"precision", "fp16"}});
  CHECK(v100.training.param_dtype() == DType::F16);
  CHECK(v100.training.keeps_master());
  CHECK(v100.training.scales_loss());
  CHECK(v100.cluster.device.memory.v == 16'900'000'000);  // 15.78 GiB
}

TEST_CASE("jobs have as many GPUs of every NVLink domain", "[validation]") {
  const auto devices = [](const std::string& gpus) {
    const test::Cells rack = {
        {"hw", "GB200 NVL72"}, {"gpus_per_node", ""},         {"gpus", gpus},
        {"dp", gpus},          {"global_batch_seqs", "1152"}, {"micro_batch", "1"}};
    return mapped(rack).cluster.devices_per_node;
  };
  // Trays of four do not divide the domain.
  const test::Cells trays = {{"hw", "GB200 NVL72"}, {"gpus_per_node", "4"}};
  CHECK(mapped(trays).cluster.devices_per_node == 8);
  CHECK(mapped(trays).cluster.nodes == 1);
  CHECK(devices("128") == 64);
  CHECK(devices("144") == 72);
  CHECK(devices("32") == 32);
}

TEST_CASE("before PXN, nodes with fewer ports than GPUs are limited by their processors",
          "[validation]") {
  const auto sockets = [](const std::string& framework, const std::string& ports) {
    return mapped({{"framework", framework}, {"interconnect", ports}}).cluster.network.sockets.v;
  };
  CHECK(sockets("Megatron-DeepSpeed 2022", "800Gb/s per node") == 16e9);
  CHECK(sockets("Megatron-LM 2021", "8x200Gb/s HDR IB per node") == 0);
  CHECK(sockets("llm-foundry", "800Gb/s per node") == 0);
}

TEST_CASE("rates of a node's ports are shared by its GPUs, and a GPU's is its own",
          "[validation]") {
  const auto bandwidth = [](const char* interconnect) {
    return mapped({{"interconnect", interconnect}}).cluster.inter_node.bandwidth.v;
  };
  // 400 Gb/s for eight are 6.25 GB/s each, 0.74 of it for data
  CHECK(bandwidth("4x100Gb/s Omni-Path per node") == Approx(6.25e9 * 0.74));
  CHECK(bandwidth("400Gb/s per GPU") == Approx(50e9 * 0.74));
}

TEST_CASE("GPUs of a job share NVLink domains evenly", "[validation]") {
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
