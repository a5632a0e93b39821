#include "core/handover/plan_import.hpp"

#include <algorithm>
#include <sstream>

#include "core/handover/handover.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/core/handover/scenarios.hpp"

namespace lockstep {
namespace {

Scenario parsed(const std::string& text, const std::vector<std::string>& set = {}) {
  const LoadedScenario loaded = parse_scenario(text, "a.toml", set);
  INFO((loaded.ok() ? "" : to_string(loaded.errors.front())) << "\n" << text);
  REQUIRE(loaded.ok());
  return loaded.points.front().scenario;
}

PlanImport imported(Trainer trainer, const std::string& text, const PlanOptions& options = {}) {
  const Result<PlanImport> plan = import_plan(trainer, text, "plan", options);
  INFO((plan.ok() ? "" : to_string(plan.error())));
  REQUIRE(plan.ok());
  return *plan;
}

/// The keys in which two scenarios differ, with both values.
std::vector<std::string> differences(const Scenario& a, const Scenario& b) {
  std::istringstream first(print_scenario(a)), second(print_scenario(b));
  std::vector<std::string> found;
  std::string x, y;
  while (std::getline(first, x) && std::getline(second, y)) {
    if (x != y && !x.starts_with("name = ")) found.push_back(x + " | " + y);
  }
  return found;
}

/// What is lost on the way to a trainer's words and back.
std::vector<std::string> lost_in(Trainer trainer, const std::string& text,
                                 const PlanOptions& options) {
  const Scenario before = parsed(text);
  const Result<Handover> there = hand_over(command_name(trainer), before);
  REQUIRE(there.ok());
  const PlanImport back = imported(trainer, there->text, options);
  for (const std::string& lost : back.lost) UNSCOPED_INFO(lost);
  CHECK(back.lost.empty());
  return differences(before, parsed(back.text));
}

using Lines = std::vector<std::string>;

bool mentions(const std::vector<std::string>& sentences, const std::string& part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}

TEST_CASE("rows in chunks beside products come from both trainers' words, and go back",
          "[core][handover]") {
  const auto chunks = [](const PlanImport& plan) {
    return parsed(plan.text).strategy.tensor_parallel_chunks;
  };
  const std::string more = " --sequence-parallel --tp-comm-overlap";
  const std::string megatron =
      "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
      "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 8 "
      "--vocab-size 32000 --tensor-model-parallel-size 2";
  CHECK(chunks(imported(Trainer::Megatron, megatron + more)) == 4);
  CHECK(chunks(imported(Trainer::Megatron, megatron + " --sequence-parallel")) == 1);
  const PlanImport alone = imported(Trainer::Megatron, megatron + " --tp-comm-overlap");
  CHECK(chunks(alone) == 1);
  CHECK(mentions(alone.without_effect, "tp-comm-overlap"));
  const std::string text =
      "[model]\npreset = \"llama3-8b\"\n[training]\nseq_len = 4096\n[parallelism]\n"
      "tensor_parallel_degree = 8\nenable_sequence_parallel = true\ntensor_parallel_chunks = 8\n"
      "[cluster]\npreset = \"h100\"\n";
  const auto there = [&](const char* trainer, const std::vector<std::string>& set = {}) {
    const Result<Handover> h = hand_over(trainer, parsed(text, set));
    REQUIRE(h.ok());
    return *h;
  };
  const Handover titan = there("torchtitan");
  CHECK(titan.text.find("enable_async_tensor_parallel = true") != std::string::npos);
  CHECK_FALSE(mentions(titan.unsaid, "tensor_parallel_chunks"));
  CHECK(chunks(imported(Trainer::Torchtitan, titan.text, {.model = "llama3-8b", .nodes = 1})) == 8);
  CHECK(mentions(there("torchtitan", {"parallelism.tensor_parallel_chunks=2"}).unsaid,
                 "tensor_parallel_chunks = 2"));
  const Handover eight = there("megatron");
  CHECK(eight.text.find("--tp-comm-overlap") != std::string::npos);
  CHECK(mentions(eight.unsaid, "tensor_parallel_chunks = 8"));
}

TEST_CASE("a scenario that Megatron-LM can say comes back from its arguments as it was",
          "[core][handover]") {
  CHECK(lost_in(Trainer::Megatron, k70b, {.nodes = 8}) == Lines{});
  CHECK(lost_in(Trainer::Megatron, R"([model]
preset = "mixtral-8x7b"
capacity_factor = 0.0
[training]
seq_len = 2048
local_batch_size = 2
global_batch_size = 128
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[optimizer]
weight_decay_on = "matrices"
[parallelism]
tensor_parallel_degree = 2
enable_sequence_parallel = true
expert_tensor_parallel_degree = 2
expert_parallel_degree = 4
data_parallel_shard_degree = 16
zero_stage = 1
overlap_param_gather = true
[activation_checkpoint]
mode = "selective"
selective_ac_option = "attention"
[cluster]
preset = "h100"
nodes = 4
)",
                {.nodes = 4}) == Lines{});
}

TEST_CASE("Megatron-LM's blocks that are recomputed of every stage are a list of one number",
          "[core][handover]") {
  std::string text = k70b;
  const std::size_t mode = text.find("mode = \"full\"");
  REQUIRE(mode != std::string::npos);
  text.insert(mode, "recomputed_layers_per_stage = [7, 7, 7, 7, 7, 7, 7, 7]\n");
  CHECK(lost_in(Trainer::Megatron, text, {.nodes = 8}) == Lines{});

  const Result<Handover> there = hand_over(
      "megatron",
      parsed(text, {"activation_checkpoint.recomputed_layers_per_stage=[7,5,3,1,0,0,0,0]"}));
  REQUIRE(there.ok());
  CHECK_THAT(there->text, ContainsSubstring("--recompute-method block\n--recompute-num-layers 7"));
  CHECK(mentions(there->unsaid, "recomputed_layers_per_stage"));
}

TEST_CASE("Megatron-LM's experts decide how many GPUs there must be, and share them as shards",
          "[core][handover]") {
  const std::string script = R"(--num-layers 4 --hidden-size 64 --num-attention-heads 4
--seq-length 32 --max-position-embeddings 32 --vocab-size 256 --micro-batch-size 1
--global-batch-size 32 --num-experts 4 --tensor-model-parallel-size 2 --sequence-parallel
--pipeline-model-parallel-size 4 --overlap-param-gather --expert-model-parallel-size 4 )";
  // 2 × 4 ranks hold the model. Experts of 2 tensor-parallel ranks each, divided by 4, in 4 stages
  // take 32.
  const Scenario whole = parsed(imported(Trainer::Megatron, script).text);
  CHECK(whole.strategy.world_size() == 32);
  CHECK(whole.strategy.data_parallel_shard_degree == 4);
  CHECK(whole.strategy.zero_stage == 0);
  CHECK(!whole.strategy.expert_parallel_folding);
  CHECK(whole.strategy.expert_tensor_parallel_degree == 1);  // its experts have biases
  const std::string llama = script +
                            "--swiglu --normalization RMSNorm --disable-bias-linear "
                            "--position-embedding-type rope ";
  const Scenario divided = parsed(imported(Trainer::Megatron, llama).text);
  CHECK(divided.strategy.expert_tensor_parallel_degree == 2);  // as the rest, unless it is said
  CHECK(whole.model.is_dropless());
  CHECK(whole.model.expert_rank_capacity_factor == 0);
  CHECK(parsed(imported(Trainer::Megatron, script + "--moe-expert-rank-capacity-factor 1.5").text)
            .model.expert_rank_capacity_factor == 1.5);
  // Experts that are not divided further lie on the tensor-parallel ranks, too: lcm(8, 1 × 4 × 4).
  const Scenario folded =
      parsed(imported(Trainer::Megatron, script + "--expert-tensor-parallel-size 1").text);
  CHECK(folded.strategy.world_size() == 16);
  CHECK(folded.strategy.expert_parallel_folding);
  CHECK(folded.strategy.expert_tensor_parallel_degree == 1);
  CHECK(folded.model.router_bias_update_rate == 0);
  // A router of DeepSeek's kind.
  const Scenario biased =
      parsed(imported(Trainer::Megatron, script + "--moe-router-score-function sigmoid "
                                                  "--moe-router-enable-expert-bias "
                                                  "--moe-router-bias-update-rate 1e-4")
                 .text);
  CHECK(biased.model.router_score == RouterScore::Sigmoid);
  CHECK(biased.model.router_bias_update_rate == 1e-4);
}

TEST_CASE("Megatron-LM's experts lie on tensor- and context-parallel ranks before others",
          "[core][handover]") {
  const std::string script = R"(--num-layers 4 --hidden-size 64 --num-attention-heads 4
--seq-length 32 --max-position-embeddings 32 --vocab-size 256 --micro-batch-size 1
--global-batch-size 32 --num-experts 4 --tensor-model-parallel-size 4 --sequence-parallel
--expert-model-parallel-size 2 --expert-tensor-parallel-size 2 --nproc-per-node 4 )";
  const std::string llama =
      "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope ";
  const Scenario two_by_two = parsed(imported(Trainer::Megatron, script + llama).text);
  CHECK(two_by_two.strategy.expert_parallel_folding);
  CHECK(two_by_two.strategy.expert_tensor_parallel_degree == 2);
  CHECK(two_by_two.strategy.expert_parallel_degree == 2);
  // Biased experts are not divided each; whole ones do not lie on half of the four ranks.
  const PlanImport biased = imported(Trainer::Megatron, script);
  CHECK(parsed(biased.text).strategy.expert_parallel_degree == 1);
  CHECK(mentions(biased.lost, "expert-model-parallel-size"));
  const Scenario over_sequence =
      parsed(imported(Trainer::Megatron,
                      R"(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32
--max-position-embeddings 32 --vocab-size 256 --micro-batch-size 1 --global-batch-size 32
--num-experts 4 --tensor-model-parallel-size 2 --context-parallel-size 2 --sequence-parallel
--expert-model-parallel-size 2 --nproc-per-node 4 )" +
                          llama)
                 .text);
  CHECK(over_sequence.strategy.expert_parallel_folding);
  CHECK(over_sequence.strategy.expert_tensor_parallel_degree == 2);
}

TEST_CASE("latent attention of Megatron-LM is of the Llama kind, whatever its norms",
          "[core][handover]") {
  const PlanImport latent =
      imported(Trainer::Megatron,
               R"(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32
--max-position-embeddings 32 --vocab-size 256 --micro-batch-size 1 --global-batch-size 32
--multi-latent-attention --kv-lora-rank 16 --qk-head-dim 16 --qk-pos-emb-head-dim 8 --v-head-dim 16)");
  CHECK(parsed(latent.text).model.architecture == Architecture::Llama);
  CHECK(mentions(latent.lost, "LayerNorm"));
}

TEST_CASE("Megatron-LM's dropouts are taken, which are a tenth unless given", "[core][handover]") {
  const std::string script = R"(--num-layers 2 --hidden-size 64 --num-attention-heads 4
--seq-length 32 --max-position-embeddings 32 --vocab-size 256 --micro-batch-size 1
--global-batch-size 8 )";
  const auto training = [&](const std::string& more) {
    return parsed(imported(Trainer::Megatron, script + more).text).training;
  };
  const TrainingSpec unsaid = training("");
  CHECK(unsaid.residual_dropout == 0.1);
  CHECK(unsaid.embedding_dropout == 0.1);
  CHECK(unsaid.attention_dropout == 0.1);
  const TrainingSpec said = training("--hidden-dropout 0.25 --attention-dropout 0.5");
  CHECK(said.residual_dropout == 0.25);
  CHECK(said.embedding_dropout == 0.25);
  CHECK(said.attention_dropout == 0.5);
  CHECK(training("--hidden-dropout 0").attention_dropout == 0.1);
  CHECK(training("--attention-dropout 0.0").attention_dropout == 0);
}

TEST_CASE("Megatron-LM's latent attention and lists of blocks with experts are read",
          "[core][handover]") {
  const std::string script = R"(--num-layers 8 --hidden-size 64 --num-attention-heads 4
--ffn-hidden-size 160 --moe-ffn-hidden-size 48 --seq-length 32 --max-position-embeddings 32
--vocab-size 256 --micro-batch-size 1 --global-batch-size 32 --swiglu --normalization RMSNorm
--disable-bias-linear --position-embedding-type rope --qk-layernorm --rope-type rope
--attention-dropout 0 --hidden-dropout 0 --multi-latent-attention --kv-lora-rank 24
--qk-head-dim 16 --qk-pos-emb-head-dim 8 --v-head-dim 12 --num-experts 4 )";
  const auto imported_model = [&](const std::string& more) {
    return parsed(imported(Trainer::Megatron, script + more).text).model;
  };
  const ModelSpec m = imported_model("--q-lora-rank 32 --moe-layer-freq ([0]*3+[1]*5)");
  CHECK(m.latent == LatentSpec{24, 32, 16, 8, 12});
  CHECK(m.head_dim == 24);
  CHECK(m.kv_heads == 4);
  CHECK_FALSE(m.qk_norm);
  CHECK(m.dense_layers == 3);
  CHECK(m.expert_period == 1);
  CHECK(m.dense_ffn_hidden == 160);
  CHECK(m.ffn_hidden == 48);
  const ModelSpec listed = imported_model("--moe-layer-freq [0,0,0,1,0,1,0,1]");
  CHECK(listed.latent.q_lora_rank == 0);
  CHECK(listed.expert_period == 2);
  for (int i = 0; i < 8; ++i) CHECK(listed.has_experts(i) == (i == 3 || i == 5 || i == 7));
  const ModelSpec every = imported_model("--moe-layer-freq ([0,1]*4)");
  CHECK(every.expert_period == 2);
  CHECK(every.dense_layers == 0);
  const auto lost = [&](const std::string& more) {
    std::string all;
    for (const std::string& line : imported(Trainer::Megatron, script + more).lost) all += line;
    return all;
  };
  CHECK_THAT(lost("--moe-layer-freq [1,0,0,1,1,0,0,1]"), ContainsSubstring("moe-layer-freq"));
  CHECK(lost("--moe-layer-freq ([0]*3+[1]*5)").find("rotary") == std::string::npos);
}

TEST_CASE("a scenario that torchtitan can say comes back from its TOML as it was",
          "[core][handover]") {
  const std::string text = R"([model]
preset = "llama3-8b"
[training]
seq_len = 8192
local_batch_size = 8
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[parallelism]
data_parallel_shard_degree = 4
data_parallel_replicate_degree = 2
tensor_parallel_degree = 2
enable_sequence_parallel = true
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_virtual_stages = 2
pipeline_parallel_microbatches = 4
pipeline_parallel_layers_per_stage = [9, 8, 8, 7]
fsdp_reshard_after_forward = "always"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[checkpoint]
interval = 100
[cluster]
preset = "h100"
nodes = 4
)";
  CHECK(lost_in(Trainer::Torchtitan, text, {.nodes = 4}) == Lines{});
}

TEST_CASE(
    "replicas that train apart are torchtitan's groups of torchft, and come back as they were",
    "[core][handover]") {
  const std::string text = R"([model]
preset = "llama3-8b"
[training]
seq_len = 8192
local_batch_size = 2
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[parallelism]
data_parallel_shard_degree = 8
data_parallel_replicate_degree = 4
[local_sgd]
method = "diloco"
sync_steps = 100
[cluster]
preset = "h100"
nodes = 4
)";
  CHECK(lost_in(Trainer::Torchtitan, text, {.nodes = 4}) == Lines{});
  const auto there = hand_over("torchtitan", parsed(text));
  REQUIRE(there.ok());
  for (const char* line : {"group_size = 4", "semi_sync_method = \"diloco\"", "sync_steps = 100",
                           "data_parallel_replicate_degree = 1"}) {
    CHECK_THAT(there->text, ContainsSubstring(line));
  }
  CHECK_THAT(there->launch, ContainsSubstring("--nnodes 1 --nproc-per-node 8"));  // of one replica
  CHECK(mentions(there->unsaid, "torchft_lighthouse"));
  const auto other = hand_over("torchtitan", parsed(text, {"local_sgd.outer_lr=0.5"}));
  CHECK(mentions(other->unsaid, "local_sgd.outer_lr"));
  for (const char* trainer : {"megatron", "deepspeed"}) {
    CHECK(mentions(hand_over(trainer, parsed(text))->unsaid, "[local_sgd]"));
  }
  const PlanImport streaming = imported(Trainer::Torchtitan,
                                        there->text +
                                            "fragment_sync_delay = 1\n"
                                            "should_quantize = true\n",
                                        {.nodes = 4});
  CHECK(mentions(streaming.lost, "fragment_sync_delay"));
  CHECK(mentions(streaming.lost, "should_quantize"));
}

TEST_CASE("a scenario that DeepSpeed can say comes back from its JSON as it was",
          "[core][handover]") {
  CHECK(lost_in(Trainer::DeepSpeed, R"([model]
preset = "gpt-1.3b"
[training]
local_batch_size = 4
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
steps = 300
[lr_scheduler]
warmup_steps = 30
decay_ratio = 1.0
[parallelism]
data_parallel_shard_degree = 8
zero_stage = 3
fsdp_persistence_threshold = 100000
offload = "optimizer"
[cluster]
preset = "h100"
)",
                {.model = "gpt-1.3b"}) == Lines{});
  CHECK(lost_in(Trainer::DeepSpeed, R"([model]
preset = "gpt-1.3b"
[training]
local_batch_size = 4
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[parallelism]
data_parallel_shard_degree = 8
fsdp_persistence_threshold = 100000
offload = "parameters"
offload_optimizer_device = "nvme"
offload_param_device = "nvme"
offload_nvme_path = "/local_nvme"
offload_buffer_count = 4
offload_pipeline_write = false
[cluster]
preset = "h100"
)",
                {.model = "gpt-1.3b"}) == Lines{});
}

TEST_CASE("a Megatron script's variables, arrays, comments and quotes are read",
          "[core][handover]") {
  const PlanImport plan = imported(Trainer::Megatron, R"(#!/bin/bash
GPUS_PER_NODE=8   # --num-layers 1000 in a comment is none
NUM_NODES=${NODES:-4}
TP=2
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes ${NUM_NODES}
)
MODEL="
    --num-layers 24 \
    --hidden-size 1024 \
    --num-attention-heads 16"
ARGS+=("--clip-grad 0.5" --seq-length 2048 --max-position-embeddings 2048
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size=4
    --micro-batch-size 2 --global-batch-size 64 --fp16 --use-distributed-optimizer
    --lr-warmup-fraction .01 --train-iters 1000 --lr 1e-4 --hidden-dropout 0.0
    --attention-dropout 0 --weird-flag 7 --log-interval 10 --vocab-size 50257)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py $MODEL "${ARGS[@]}"
)");
  const Scenario s = parsed(plan.text);
  CHECK(s.model.layers == 24);
  CHECK(s.model.vocab == 50432);  // the next multiple of 128 x 2
  CHECK(s.training.max_norm == 0.5);
  CHECK(s.strategy.tensor_parallel_degree == 2);
  CHECK(s.strategy.pipeline_parallel_degree == 4);
  CHECK(s.strategy.data_parallel_shard_degree == 4);  // 32 GPUs / 8
  CHECK(s.strategy.zero_stage == 1);
  CHECK(s.num_microbatches() == 8);  // 64 / (2 x 4)
  CHECK(s.lr_scheduler.warmup_steps == 10);
  CHECK(s.training.param_dtype() == DType::F16);
  CHECK(plan.lost == std::vector<std::string>{"--weird-flag 7: a scenario has no word for it"});
  CHECK(mentions(plan.without_effect, "log-interval"));
  CHECK(mentions(plan.taken,
                 "--tensor-model-parallel-size 2 -> "
                 "parallelism.tensor_parallel_degree = 2"));
}

TEST_CASE("no argument of Megatron's is dropped in silence", "[core][handover]") {
  const std::string text =
      "--num-layers 2\n--hidden-size 64\n--num-attention-heads 4\n--seq-length 32\n"
      "--max-position-embeddings 32\n--qk-layernorm\n--window-size 128,0\n"
      "--save /tmp/x\n--no-rope-fusion\n--num-layers 4\n--vocab-size $V\n";
  const PlanImport plan = imported(Trainer::Megatron, text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(2, line.find(' ') - 2);
    INFO(name);
    CHECK((mentions(plan.taken, name) || mentions(plan.without_effect, name) ||
           mentions(plan.lost, name)));
  }
  CHECK(mentions(plan.lost, "--num-layers stands twice"));
}

TEST_CASE("torchtitan's defaults stand where its file says nothing", "[core][handover]") {
  const PlanImport plan = imported(Trainer::Torchtitan,
                                   "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                                   "[training]\ndataset = \"c4\"\n[compile]\nenable = true\n"
                                   "[parallelism]\npipeline_parallel_degree = 4\n"
                                   "pipeline_parallel_schedule = \"Interleaved1F1B\"\n",
                                   {.nodes = 2});
  const Scenario s = parsed(plan.text);
  CHECK(s.training.local_batch_size == 8);
  CHECK(s.training.seq_len == 2048);
  CHECK(s.training.param_dtype() == DType::BF16);
  CHECK(s.activation_checkpoint.mode == ActivationCheckpoint::Selective);
  CHECK(s.strategy.data_parallel_shard_degree == 4);  // 16 GPUs / 4
  CHECK(s.strategy.pipeline_parallel_microbatches == 8);
  // Eight stages of 34 layers, of which embedding and output count as one each.
  CHECK(s.strategy.pipeline_parallel_layers_per_stage == std::vector<int>{4, 5, 4, 4, 4, 4, 4, 3});
  CHECK(mentions(plan.lost, "c4"));
  CHECK(mentions(plan.lost, "compile.enable"));

  const auto unknown = import_plan(Trainer::Torchtitan,
                                   "[model]\nname = \"flux\"\nflavor = \"flux-dev\"\n", "f", {});
  REQUIRE(!unknown.ok());
  CHECK_THAT(unknown.error().message, ContainsSubstring("--model"));
}

TEST_CASE("Muon comes back from Megatron-LM's and DeepSpeed's words as it was",
          "[core][handover]") {
  const std::string text = R"([model]
preset = "llama3-8b"
[training]
seq_len = 2048
global_batch_size = 32
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[optimizer]
name = "Muon"
momentum = 0.95
ns_steps = 4
ns_dtype = "bfloat16"
adjust_lr_fn = "match_rms_adamw"
weight_decay_on = "matrices"
[parallelism]
tensor_parallel_degree = 2
data_parallel_replicate_degree = 4
[cluster]
preset = "h100"
)";
  CHECK(differences(parsed(text),
                    parsed(imported(Trainer::Megatron, hand_over("megatron", parsed(text))->text,
                                    {.nodes = 1})
                               .text))
            .size() <= 2);  // how data parallelism is divided, which is the same here
  const PlanImport plan = imported(Trainer::Megatron,
                                   "--optimizer muon --num-layers 4 --hidden-size 64 "
                                   "--num-attention-heads 4 --lr 1e-3 --seq-length 64 "
                                   "--max-position-embeddings 64 --vocab-size 128 "
                                   "--tensor-model-parallel-size 2",
                                   {.nodes = 1});
  const Scenario s = parsed(plan.text);
  CHECK(s.optimizer.is_muon());
  CHECK(s.optimizer.momentum == 0.9);
  CHECK_FALSE(s.optimizer.nesterov);
  CHECK(s.optimizer.ns_dtype == PartDType::BF16);
  CHECK(mentions(plan.lost, "blockwise"));
  CHECK(mentions(plan.lost, "factor"));

  const PlanImport deepspeed = imported(Trainer::DeepSpeed, R"({"train_batch_size": 16,
    "zero_optimization": {"stage": 2}, "optimizer": {"type": "Muon", "params": {"lr": 0.01,
    "muon_lr": 0.02, "adam_lr": 3e-4, "momentum": 0.9, "weight_decay": 0.1}}})",
                                        {.model = "gpt-1.3b", .nodes = 1, .seq_len = 512});
  const Scenario d = parsed(deepspeed.text);
  CHECK(d.optimizer.is_muon());
  CHECK(d.optimizer.lr == 3e-4);
  CHECK(d.optimizer.muon_lr == 0.02);
  CHECK(d.optimizer.momentum == 0.9);
}

TEST_CASE("DeepSpeed's optimizer of the name Adafactor is torch.optim's", "[core][handover]") {
  const PlanImport plan = imported(Trainer::DeepSpeed, R"({"train_batch_size": 16,
    "zero_optimization": {"stage": 0}, "optimizer": {"type": "Adafactor", "params": {"lr": 0.02,
    "beta2_decay": -0.7, "d": 2.0, "eps": [null, 0.01], "weight_decay": 0.1}}})",
                                   {.model = "gpt-1.3b", .nodes = 1, .seq_len = 512});
  const Scenario s = parsed(plan.text);
  CHECK(s.optimizer.is_adafactor());
  CHECK(s.optimizer.lr == 0.02);
  CHECK(s.optimizer.decay_rate == -0.7);
  CHECK(s.optimizer.clip_threshold == 2);
  CHECK(s.optimizer.eps_scale == 0.01);
  CHECK(s.optimizer.eps_square == OptimizerSpec{}.eps_square);
  CHECK(s.optimizer.relative_step);
  CHECK(mentions(plan.lost, "Adafactor"));
}

TEST_CASE("ZeRO++ comes from DeepSpeed's words and goes back into them", "[core][handover]") {
  const char* const config = R"({"train_batch_size": 16, "zero_optimization": {"stage": 3,
    "zero_quantized_weights": true, "zero_quantized_gradients": true,
    "zero_hpz_partition_size": 8}, "bf16": {"enabled": true}})";
  const PlanImport plan =
      imported(Trainer::DeepSpeed, config, {.model = "gpt-1.3b", .nodes = 2, .seq_len = 512});
  const Scenario s = parsed(plan.text);
  CHECK(s.strategy.zero_quantized_weights);
  CHECK(s.strategy.zero_quantized_gradients);
  CHECK(s.strategy.fsdp_reshard_degree == 8);
  CHECK(s.strategy.inner_shards() == 8);  // those that exchange gradients first
  const auto back = hand_over("deepspeed", s);
  REQUIRE(back.ok());
  CHECK_THAT(back->text, ContainsSubstring("\"zero_quantized_weights\": true"));
  CHECK_THAT(back->text, ContainsSubstring("\"zero_quantized_gradients\": true"));
  CHECK(mentions(back->unsaid, "zero_quantized_block_size"));
  CHECK(mentions(hand_over("torchtitan", s)->unsaid, "zero_quantized_weights"));
}

TEST_CASE("products in 8 bits come back from the words of those that have their scales",
          "[core][handover]") {
  const auto with = [](const std::string& keys) {
    std::string text = k70b;
    const std::string before = "steps = 500\n";
    return text.replace(text.find(before), before.size(), before + keys);
  };
  CHECK(lost_in(Trainer::Megatron,
                with("fp8 = \"hybrid\"\nnum_layers_at_start_in_bf16 = 2\n"
                     "num_layers_at_end_in_bf16 = 3\n"),
                {.nodes = 8}) == Lines{});
  const std::string mxfp8 = with("fp8 = \"e4m3\"\nfp8_recipe = \"mxfp8\"\n");
  CHECK(lost_in(Trainer::Megatron, mxfp8, {.nodes = 8}) == Lines{});
  const PlanImport titan =
      imported(Trainer::Torchtitan, hand_over("torchtitan", parsed(mxfp8))->text, {.nodes = 8});
  CHECK(parsed(titan.text).training.fp8 == Fp8Format::E4M3);
  CHECK(parsed(titan.text).training.fp8_recipe == Fp8Scaling::Mxfp8);
  CHECK(mentions(hand_over("torchtitan", parsed(with("fp8 = \"hybrid\"\n")))->unsaid, "fp8"));
  CHECK(mentions(hand_over("deepspeed", parsed(mxfp8))->unsaid, "fp8"));

  const std::string small =
      "--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --lr 1e-3 --seq-length 128 "
      "--max-position-embeddings 128 --vocab-size 128 --fp8-format hybrid ";
  const PlanImport delayed = imported(Trainer::Megatron, small, {.nodes = 1});
  CHECK(parsed(delayed.text).training.fp8_recipe == Fp8Scaling::Delayed);
  CHECK(parsed(delayed.text).training.fp8_amax_history_len == 1);  // Megatron's defaults
  CHECK(parsed(delayed.text).training.fp8_amax_compute_algo == Fp8AmaxAlgo::MostRecent);
  const PlanImport experts =
      imported(Trainer::Megatron,
               small +
                   "--num-experts 4 --swiglu --normalization RMSNorm --disable-bias-linear "
                   "--position-embedding-type rope ",
               {.nodes = 1});
  CHECK(parsed(experts.text).model.is_dropless());
  CHECK(parsed(experts.text).training.fp8_recipe == Fp8Scaling::Delayed);
  const std::string late = with(
      "fp8 = \"hybrid\"\nfp8_recipe = \"delayed\"\nfp8_amax_history_len = 16\nfp8_margin = 1\n");
  CHECK(lost_in(Trainer::Megatron, late, {.nodes = 8}) == Lines{});
  CHECK(mentions(hand_over("torchtitan", parsed(late))->unsaid, "fp8"));
  const std::string tensorwise = with("fp8 = \"hybrid\"\nfp8_recipe = \"tensorwise\"\n");
  CHECK(lost_in(Trainer::Megatron, tensorwise, {.nodes = 8}) == Lines{});
  const PlanImport current = imported(
      Trainer::Torchtitan, hand_over("torchtitan", parsed(tensorwise))->text, {.nodes = 8});
  CHECK(parsed(current.text).training.fp8 == Fp8Format::Hybrid);
  CHECK(parsed(current.text).training.fp8_recipe == Fp8Scaling::Tensorwise);
  const PlanImport first_wide = imported(
      Trainer::Megatron, small + "--fp8-recipe blockwise --first-last-layers-bf16", {.nodes = 1});
  CHECK(parsed(first_wide.text).training.num_layers_at_start_in_bf16 == 1);
  CHECK(parsed(first_wide.text).training.num_layers_at_end_in_bf16 == 1);
}

TEST_CASE("DeepSpeed's \"auto\", old names and defaults are read or named", "[core][handover]") {
  const std::string text = R"({"train_batch_size": "auto", "gradient_accumulation_steps": 4,
    "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3, "overlap_comm": true,
    "reduce_bucket_size": 5e8, "offload_param": {"device": "nvme", "nvme_path": "/n"},
    "stage3_max_live_parameters": 1e9}, "fp16": {"enabled": true, "initial_scale_power": 12},
    "optimizer": {"type": "Lamb", "params": {"lr": 1e-3, "betas": [0.8, 0.99]}},
    "steps_per_print": 10, "compression_training": {"a": {"b": 1, "c": 2}}})";
  CHECK(!import_plan(Trainer::DeepSpeed, text, "ds.json", {}).ok());  // no model
  const PlanImport plan =
      imported(Trainer::DeepSpeed, text, {.model = "gpt-1.3b", .nodes = 2, .seq_len = 512});
  const Scenario s = parsed(plan.text);
  CHECK(s.global_batch_size() == 2 * 4 * 16);
  CHECK(s.strategy.data_parallel_shard_degree == 16);
  CHECK(s.strategy.fsdp_persistence_threshold == 100000);  // DeepSpeed's default
  CHECK(s.strategy.bucket_cap.v == 1'000'000'000);
  CHECK(s.strategy.offload == Offload::Parameters);
  CHECK(s.strategy.offload_param_device == OffloadDevice::Nvme);
  CHECK(s.strategy.offload_optimizer_device == OffloadDevice::Cpu);
  CHECK(s.strategy.offload_nvme_path == "/n");
  CHECK(s.loss_scale.init_scale == 4096);
  CHECK(s.optimizer.beta1 == 0.8);
  CHECK(s.training.max_norm == 0);
  for (const char* part : {"train_batch_size = \"auto\"", "Lamb", "stage3_max_live_parameters",
                           "compression_training and its 2"}) {
    INFO(part);
    CHECK(mentions(plan.lost, part));
  }
  CHECK(mentions(plan.without_effect, "steps_per_print"));
  CHECK(mentions(plan.assumed, "persistence"));
  const auto broken = import_plan(Trainer::DeepSpeed, "{\n\"a\": 1,\n}", "ds.json", {.model = "x"});
  REQUIRE(!broken.ok());
  CHECK(broken.error().where->line == 3);
}

TEST_CASE("DeepSpeed's states on NVMe keep their buffers and what overlaps", "[core][handover]") {
  const auto plan = [](const std::string& more) {
    return imported(Trainer::DeepSpeed,
                    R"({"train_batch_size": 16, "zero_optimization": {"stage": 3,
    "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme")" +
                        more + R"(}}, "optimizer": {"type": "AdamW"}})",
                    {.model = "gpt-1.3b", .nodes = 1, .seq_len = 512});
  };
  const StrategySpec plain = parsed(plan("").text).strategy;
  CHECK(plain.offload == Offload::Optimizer);
  CHECK(plain.offload_optimizer_device == OffloadDevice::Nvme);
  CHECK(plain.offload_nvme_path == "/local_nvme");
  CHECK(!plain.offload_pipeline_read);  // as DeepSpeed's defaults are
  CHECK(!plain.offload_pipeline_write);
  CHECK(plain.offload_buffer_count == 1);  // 4 tensors of one parameter
  const std::string both = R"(, "pipeline_read": true, "pipeline_write": true)";
  const PlanImport wide = plan(both + R"(, "buffer_count": 16)");
  CHECK(parsed(wide.text).strategy.offload_buffer_count == 4);
  CHECK(parsed(wide.text).strategy.offload_pipeline_read);
  CHECK(!mentions(wide.lost, "buffer_count"));
  const PlanImport narrow = plan(both);
  CHECK(parsed(narrow.text).strategy.offload_buffer_count == 0);
  CHECK(mentions(narrow.lost, "buffer_count has 1 times"));
}

TEST_CASE("zeros and numbers out of range are refused by name, not computed with",
          "[core][handover]") {
  const auto refused = [](Trainer trainer, const std::string& text) {
    const Result<PlanImport> plan = import_plan(trainer, text, "plan", {.model = "gpt-1.3b"});
    INFO(text);
    REQUIRE(plan.ok());
    CHECK(!parse_scenario(plan->text, "a.toml", {}).ok());
  };
  for (const char* value : {"0", "-3", "1e300", "1000000000000000"}) {
    const std::string v(value);
    for (const char* name : {"tensor-model-parallel-size", "pipeline-model-parallel-size",
                             "micro-batch-size", "context-parallel-size", "global-batch-size"}) {
      refused(Trainer::Megatron, "--num-layers 4 --" + std::string(name) + " " + v +
                                     " --num-layers-per-virtual-pipeline-stage 1");
    }
    const std::string pipelined = "[parallelism]\npipeline_parallel_schedule = \"ZBVZeroBubble\"\n";
    refused(Trainer::Torchtitan, pipelined + "pipeline_parallel_degree = " + v + "\n");
    refused(Trainer::Torchtitan, pipelined + "tensor_parallel_degree = " + v + "\n");
    refused(Trainer::DeepSpeed,
            "{\"train_batch_size\": 8, \"gradient_accumulation_steps\": 1, "
            "\"train_micro_batch_size_per_gpu\": " +
                v + "}");
  }
  CHECK(mentions(imported(Trainer::Megatron,
                          "--num-layers 4 --hidden-size 64 --num-attention-heads 4 "
                          "--make-vocab-size-divisible-by 0")
                     .assumed,
                 "multiple of 1"));
}

TEST_CASE("a trainer's file is recognized, and a scenario is not taken for one",
          "[core][handover]") {
  CHECK(recognize_plan("{\"zero_optimization\": {}}", "x.json") == Trainer::DeepSpeed);
  CHECK(recognize_plan("[model]\nflavor = \"8B\"\n", "x.toml") == Trainer::Torchtitan);
  CHECK(recognize_plan("[job]\ndump_folder = \"o\"\n", "x.toml") == Trainer::Torchtitan);
  CHECK(recognize_plan("python x.py --num-layers 4\n", "run.sh") == Trainer::Megatron);
  CHECK(!recognize_plan("{\"model_type\": \"llama\"}", "config.json"));
  CHECK(!recognize_plan(k70b, "a.toml"));
}

TEST_CASE("other trainers' names in a scenario are answered with ours", "[core][handover]") {
  const auto errors = [](const std::string& text) {
    std::string all;
    for (const Error& error : parse_scenario(text, "a.toml", {}).errors) {
      all += to_string(error) + "\n";
    }
    return all;
  };
  const std::string model = "[model]\npreset = \"gpt2-tiny\"\n";
  CHECK_THAT(errors(model + "[parallelism]\ntensor_model_parallel_size = 2\n"),
             ContainsSubstring("Megatron-LM's 'tensor-model-parallel-size' is "
                               "parallelism.tensor_parallel_degree here"));
  CHECK_THAT(errors(model + "[training]\ntrain_micro_batch_size_per_gpu = 2\n"),
             ContainsSubstring("training.local_batch_size"));
  CHECK_THAT(errors(model + "[zero_optimization]\nstage = 2\n"),
             ContainsSubstring("lockstep import deepspeed"));
  CHECK_THAT(errors(model + "[job]\ndump_folder = \"o\"\n"),
             ContainsSubstring("lockstep import torchtitan"));
}

TEST_CASE("every trainer has at most one name for a key, and every name one key",
          "[core][handover]") {
  for (const Trainer trainer : {Trainer::Torchtitan, Trainer::Megatron, Trainer::DeepSpeed}) {
    for (const ForeignName& row : foreign_names()) {
      if (row.of(trainer).empty()) continue;
      INFO(row.key << " " << row.of(trainer));
      CHECK(key_for(trainer, row.of(trainer)) == row.key);
      CHECK(name_for(trainer, row.key) == row.of(trainer));
    }
  }
  // Every key of the table is one of a scenario.
  const std::vector<ScenarioKey> keys = scenario_keys();
  for (const ForeignName& row : foreign_names()) {
    INFO(row.key);
    CHECK(std::any_of(keys.begin(), keys.end(),
                      [&](const ScenarioKey& k) { return k.name == row.key; }));
  }
}

}  // namespace
}  // namespace lockstep
