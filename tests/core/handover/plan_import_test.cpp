#include "core/scenario/key_list.hpp"
#include "tests/core/handover/importing.hpp"

namespace lockstep {
namespace {

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
  CHECK(differing_lines(parsed(text),
                        parsed(imported(Trainer::Megatron,
                                        hand_over("megatron", parsed(text))->text, {.nodes = 1})
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

TEST_CASE("zeros and numbers out of range are refused by name, not computed with",
          "[core][handover]") {
  const auto refused = [](Trainer trainer, const std::string& text) {
    const Result<PlanImport> plan = import_plan(trainer, text, "plan", {.model = "gpt-1.3b"});
    INFO(text);
    if (plan) {
      CHECK(!parse_scenario(plan->text, "a.toml", {}).ok());
    } else {
      CHECK(plan.error().where);
      CHECK_THAT(plan.error().message, ContainsSubstring("a whole number above 0 is expected"));
    }
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
                          "--max-position-embeddings 1024 --make-vocab-size-divisible-by 0")
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
  const std::vector<ScenarioKey>& keys = scenario_keys();
  for (const ForeignName& row : foreign_names()) {
    INFO(row.key);
    CHECK(std::any_of(keys.begin(), keys.end(),
                      [&](const ScenarioKey& k) { return k.name == row.key; }));
  }
}

TEST_CASE("a plan is simulated as its trainer runs it", "[core][handover]") {
  const auto framework = [](Trainer trainer, const std::string& text, const PlanOptions& options) {
    return parsed(imported(trainer, text, options).text).cluster.framework;
  };
  const std::string titan = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";
  // torchtitan's blocks are eager unless they are compiled, and its optimizer is one kernel.
  const FrameworkSpec eager = framework(Trainer::Torchtitan, titan, {});
  CHECK(eager.preset == "fsdp-eager");
  CHECK(eager.fused_optimizer);
  const std::string loss = "[compile]\nenable = true\ncomponents = [\"loss\"]\n";
  CHECK(framework(Trainer::Torchtitan, titan + loss, {}).preset == "fsdp-eager");
  const std::string compiled = "[training]\ncompile = true\n";
  CHECK(framework(Trainer::Torchtitan, titan + compiled, {}).preset == "torchtitan");
  const std::string loops = "[optimizer]\nimplementation = \"foreach\"\n";
  CHECK_FALSE(framework(Trainer::Torchtitan, titan + loops, {}).fused_optimizer);

  const PlanOptions small = {.model = "gpt-1.3b", .nodes = 1};
  CHECK(framework(Trainer::DeepSpeed, R"({"zero_optimization": {"stage": 3}})", small).preset ==
        "fsdp-eager");

  const std::string megatron =
      "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 1024 "
      "--max-position-embeddings 1024 --vocab-size 50304 --bf16 --tensor-model-parallel-size 2 "
      "--sequence-parallel ";
  const FrameworkSpec core = framework(Trainer::Megatron, megatron, {.nodes = 1});
  CHECK(core.preset == "megatron-core");
  CHECK_FALSE(core.overlaps_products);  // without --tp-comm-overlap
  CHECK(core.fused_activation);
  const FrameworkSpec told = framework(Trainer::Megatron,
                                       megatron +
                                           "--no-bias-gelu-fusion --no-bias-swiglu-fusion "
                                           "--attention-backend unfused --no-bias-dropout-fusion",
                                       {.nodes = 1});
  CHECK_FALSE(told.fused_activation);
  CHECK_FALSE(told.fused_residual);
  CHECK(told.attention == AttentionKernel::Unfused);
  CHECK(framework(Trainer::Megatron, megatron + "--DDP-impl local", {.nodes = 1}).preset ==
        "megatron-2021");
  CHECK(
      framework(Trainer::Megatron, megatron + "--deepspeed --zero-stage 1", {.nodes = 1}).preset ==
      "deepspeed-2022");

  // Whoever imports may name another, and CPUs have none.
  CHECK(framework(Trainer::Torchtitan, titan, {.framework = "torch-compile"}).preset ==
        "torch-compile");
  CHECK(imported(Trainer::Torchtitan, titan, {.cluster = "cpu", .nodes = 8})
            .text.find("[framework]") == std::string::npos);
}

}  // namespace
}  // namespace lockstep
