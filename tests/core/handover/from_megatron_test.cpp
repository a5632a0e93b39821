#include "tests/core/handover/importing.hpp"

namespace lockstep {
namespace {

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
selective_ac_option = "core_attn,layernorm,moe"
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
  const ModelSpec model = parsed(latent.text).model;
  CHECK(model.architecture == Architecture::Llama);
  CHECK(model.parts().norm == NormKind::LayerNorm);
  CHECK(model.parts().activation == Activation::Gelu);
  CHECK(mentions(latent.lost, "biases of linear layers"));
}

TEST_CASE("a model's parts are Megatron-LM's, whichever stand beside each other",
          "[core][handover]") {
  const std::string sizes = R"(--num-layers 2 --hidden-size 64 --num-attention-heads 4
--seq-length 32 --max-position-embeddings 32 --vocab-size 256 --micro-batch-size 1
--global-batch-size 8 )";
  const auto model = [&](const std::string& more) {
    const PlanImport plan = imported(Trainer::Megatron, sizes + more);
    CHECK_FALSE(mentions(plan.lost, "positions"));
    return parsed(plan.text).model;
  };
  // Nemotron-4: two matrices of a feed-forward network, not the three of a gated one.
  const ModelSpec nemotron = model(
      "--squared-relu --position-embedding-type rope --rotary-percent 0.5 --disable-bias-linear "
      "--untie-embeddings-and-output-weights");
  CHECK(nemotron.parts().activation == Activation::SquaredRelu);
  CHECK(nemotron.parts().norm == NormKind::LayerNorm);
  CHECK(nemotron.is_rotary());
  CHECK(nemotron.rotary_fraction == 0.5);
  CHECK_FALSE(nemotron.has_biases());
  CHECK(nemotron.ffn_hidden == 256);
  const ModelSpec rotary = model("--position-embedding-type rope");
  CHECK(rotary.parts().activation == Activation::Gelu);
  CHECK(rotary.is_rotary());
  CHECK(rotary.has_biases());
  const ModelSpec gated = model("--swiglu --normalization RMSNorm");
  CHECK(gated.is_gated());
  CHECK(gated.learns_positions());
  CHECK(gated.has_biases());
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
  CHECK(plan.lost.empty());
  CHECK(plan.unknown == std::vector<std::string>{"--weird-flag 7: no equivalent setting"});
  CHECK(mentions(plan.without_effect, "log-interval"));
  CHECK(mentions(plan.taken,
                 "--tensor-model-parallel-size 2 -> "
                 "parallelism.tensor_parallel_degree = 2"));
}

TEST_CASE("no argument of Megatron's is dropped in silence", "[core][handover]") {
  const std::string text =
      "--num-layers 2\n--hidden-size 64\n--num-attention-heads 4\n--seq-length 32\n"
      "--max-position-embeddings 32\n--qk-layernorm\n--window-size 128,0\n"
      "--save /tmp/x\n--no-rope-fusion\n--num-layers 4\n--lr $V\n";
  const PlanImport plan = imported(Trainer::Megatron, text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(2, line.find(' ') - 2);
    INFO(name);
    CHECK((mentions(plan.taken, name) || mentions(plan.without_effect, name) ||
           mentions(plan.lost, name) || mentions(plan.unknown, name)));
  }
  CHECK(mentions(plan.assumed, "of --num-layers 2 and --num-layers 4 the last"));
  CHECK(parsed(plan.text).model.layers == 4);
}

TEST_CASE("a script of Megatron's for BERT trains an encoder, and other programs are refused",
          "[core][handover]") {
  const std::string sizes =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32\n";
  const PlanImport bert = imported(Trainer::Megatron, "torchrun ./pretrain_bert.py " + sizes);
  const Scenario s = parsed(bert.text);
  CHECK(!s.model.causal);
  CHECK(s.model.head_transform);
  CHECK(s.model.token_types == 2);
  CHECK(s.model.vocab == 30592);  // 30522, up to a multiple of 128
  CHECK(mentions(bert.lost, "--bert-no-binary-head"));
  CHECK(parsed(imported(Trainer::Megatron, "pretrain_gpt.py " + sizes).text).model.causal);
  for (const char* program : {"pretrain_t5.py", "pretrain_vision_dino.py", "pretrain_hybrid.py"}) {
    const auto plan = import_plan(Trainer::Megatron,
                                  "\n\npython " + std::string(program) + " " + sizes, "run.sh", {});
    REQUIRE(!plan.ok());
    CHECK_THAT(plan.error().message, ContainsSubstring(program));
    CHECK(plan.error().where->line == 3);
    CHECK(import_plan(Trainer::Megatron, program + (" " + sizes), "run.sh", {.model = "gpt-1.3b"})
              .ok());
  }
  const auto encoder = import_plan(Trainer::Megatron, "--encoder-num-layers 2\n", "a.yaml", {});
  CHECK_THAT(encoder.error().message, ContainsSubstring("an encoder and a decoder"));
  const auto misspelt = import_plan(Trainer::Megatron, "--num-layer 2\n", "a.sh", {});
  CHECK_THAT(misspelt.error().message, ContainsSubstring("only --num-layer:"));
}

TEST_CASE("Megatron's stages are those of its layout, or have a place for what is no block",
          "[core][handover]") {
  const std::string sizes =
      "--num-layers 14 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --pipeline-model-parallel-size 4 --global-batch-size 64 ";
  const auto blocks = [&](const std::string& more) {
    const PlanImport plan = imported(Trainer::Megatron, sizes + more);
    const Scenario s = parsed(plan.text);
    return std::pair(s.strategy.pipeline_parallel_virtual_stages,
                     s.strategy.pipeline_parallel_layers_per_stage);
  };
  using Blocks = std::pair<int, std::vector<int>>;
  CHECK(blocks("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split") ==
        Blocks{1, {3, 4, 4, 3}});
  CHECK(blocks("--pipeline-model-parallel-layout 'E,t*3|tttt|t*4|t*3,L'") ==
        Blocks{1, {3, 4, 4, 3}});
  CHECK(blocks("--pipeline-model-parallel-layout 'Et*2|(tt|)*5t|tL'") ==
        Blocks{2, {2, 2, 2, 2, 2, 2, 1, 1}});
  CHECK(mentions(
      imported(Trainer::Megatron, sizes + "--pipeline-model-parallel-layout 'Et*7|t*6|t|mL'").lost,
      "--pipeline-model-parallel-layout"));
}

TEST_CASE("a Megatron script that names no GPUs has as many as share its batch",
          "[core][handover]") {
  const auto ranks = [](const std::string& more) {
    return parsed(imported(Trainer::Megatron,
                           "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                           "--seq-length 32 --max-position-embeddings 32 " +
                               more)
                      .text)
        .strategy.world_size();
  };
  CHECK(ranks("--micro-batch-size 4 --global-batch-size 8") == 2);
  CHECK(ranks("--micro-batch-size 4 --global-batch-size 12") == 3);
  CHECK(ranks("--micro-batch-size 4 --global-batch-size 8 --tensor-model-parallel-size 2") == 4);
  CHECK(ranks("--batch-size 4 --global-batch-size 32") == 8);
}

TEST_CASE("Megatron's names for recomputation of 2021 mean whole blocks", "[core][handover]") {
  const std::string sizes =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 ";
  for (const char* name : {"--checkpoint-activations", "--activations-checkpoint-method uniform"}) {
    const PlanImport plan = imported(Trainer::Megatron, sizes + name);
    CHECK(parsed(plan.text).activation_checkpoint.mode == ActivationCheckpoint::Full);
    CHECK(plan.lost.empty());
  }
}

TEST_CASE("Megatron's modules that are recomputed are the scenario's policies of their names",
          "[core][handover]") {
  const std::string sizes =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --recompute-granularity selective ";
  const auto option = [&](const std::string& modules) {
    return parsed(imported(Trainer::Megatron, sizes + modules).text)
        .activation_checkpoint.selective_ac_option;
  };
  CHECK(option("") == "core_attn");
  CHECK(option("--recompute-modules layernorm mlp moe_act") == "layernorm,mlp,moe_act");
  const PlanImport other =
      imported(Trainer::Megatron, sizes + "--recompute-modules mhc core_attn torchtitan");
  CHECK(parsed(other.text).activation_checkpoint.selective_ac_option == "core_attn");
  CHECK(mentions(other.lost, "--recompute-modules mhc"));
  CHECK(mentions(other.lost, "--recompute-modules torchtitan"));
}

TEST_CASE("what follows on the next line is no value of an argument", "[core][handover]") {
  const PlanImport plan = imported(Trainer::Megatron,
                                   "MODEL_ARGS:\n  --num-layers: 2\n  --hidden-size: 64\n"
                                   "  --num-attention-heads: 4\n  --seq-length: 32\n"
                                   "  --max-position-embeddings: 32\n  --square-relu: true\n"
                                   "  --eod-mask-loss: true\nTEST_TYPE: ckpt\n");
  CHECK(mentions(plan.unknown, "--square-relu true: no equivalent"));
  CHECK(mentions(plan.lost, "--eod-mask-loss true: "));
  CHECK(mentions(plan.lost, "give training.eod_mask_loss with"));
  CHECK(!mentions(plan.lost, "TEST_TYPE"));
  CHECK(mentions(imported(Trainer::Megatron,
                          "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                          "--max-position-embeddings 1024 --tensor-model-paralel-size 2")
                     .unknown,
                 "did you mean tensor-model-parallel-size?"));
}

TEST_CASE("arguments with which Megatron-LM does not start are refused as it refuses them",
          "[core][handover]") {
  const auto refusal = [](const std::string& arguments) {
    const Result<PlanImport> plan =
        import_plan(Trainer::Megatron,
                    "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --hidden-size 1024 "
                    "--num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 "
                    "--vocab-size 50304 --bf16 --micro-batch-size 1 " +
                        arguments + "\n",
                    "x.sh", {});
    return plan.ok() ? std::string() : to_string(plan.error());
  };
  const std::string four = "--pipeline-model-parallel-size 4 --global-batch-size 32 ";
  CHECK(refusal(four + "--num-layers 46")
            .starts_with("x.sh:1:1: --num-layers 46: Megatron-LM refuses 46 blocks on 4 "));
  CHECK(refusal(four + "--num-layers 46 --decoder-last-pipeline-num-layers 10").empty());
  CHECK(refusal(four + "--num-layers 46 --account-for-embedding-in-pipeline-split "
                       "--account-for-loss-in-pipeline-split")
            .empty());
  const std::string eight = "--pipeline-model-parallel-size 8 --global-batch-size 32 ";
  CHECK_THAT(refusal(eight + "--num-layers 40 --num-layers-per-virtual-pipeline-stage 2"),
             ContainsSubstring("5 blocks of a pipeline rank do not divide into chunks of 2"));
  CHECK_THAT(refusal(four + "--num-layers 32 --num-virtual-stages-per-pipeline-rank 3"),
             ContainsSubstring("8 blocks of a pipeline rank do not divide into 3 chunks"));
  // Two replicas: 20 sequences are ten microbatches, of which groups of four leave two.
  const std::string interleaved =
      "--num-layers 32 --pipeline-model-parallel-size 4 "
      "--num-layers-per-virtual-pipeline-stage 4 ";
  CHECK_THAT(refusal(interleaved + "--global-batch-size 20"),
             ContainsSubstring("makes 10 microbatches") &&
                 ContainsSubstring("groups of 4 leave a last one of 2"));
  CHECK(refusal(interleaved + "--global-batch-size 24").empty());
  CHECK(refusal(interleaved +
                "--global-batch-size 22 --microbatch-group-size-per-virtual-pipeline-stage 7")
            .empty());  // 7 + 4
  CHECK_THAT(refusal(interleaved +
                     "--global-batch-size 24 --microbatch-group-size-per-virtual-pipeline-stage 3"),
             ContainsSubstring("groups of 3 are smaller than the pipeline"));
  // DeepSpeed's engine has other rules.
  CHECK(refusal(four + "--num-layers 46 --deepspeed --zero-stage 1").empty());
}

}  // namespace
}  // namespace lockstep
