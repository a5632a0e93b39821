// The account of an import, and files as people have them.
#include <random>

#include "core/base/read_file.hpp"
#include "core/spec/foreign_names.hpp"
#include "tests/core/handover/importing.hpp"

namespace lockstep {
namespace {

std::string data(const std::string& name) {
  const Result<std::string> text =
      read_file(LOCKSTEP_SOURCE_DIR "/tests/core/handover/data/" + name, 1 << 20);
  REQUIRE(text.ok());
  return *text;
}

/// How many lists have a setting, and what the first of them is.
int lists_of(const PlanImport& plan, const std::string& name) {
  int lists = 0;
  for (const auto* list : {&plan.unknown, &plan.lost, &plan.taken, &plan.assumed,
                           &plan.without_effect, &plan.derived}) {
    lists += std::any_of(list->begin(), list->end(), [&](const std::string& entry) {
      const std::string_view text = std::string_view(entry).substr(entry.starts_with("--") ? 2 : 0);
      return text.starts_with(name) &&
             (text.size() == name.size() ||
              std::string_view(" ,:=").find(text[name.size()]) != std::string_view::npos);
    });
  }
  return lists;
}

TEST_CASE("every setting of a file is in one list of the account", "[core][handover]") {
  std::mt19937 draw(7);
  const auto below = [&](std::size_t n) { return draw() % n; };
  const std::vector<std::string> values = {"1", "2", "8", "0.5", "64", "1e-3"};
  for (int turn = 0; turn < 150; ++turn) {
    for (const Trainer trainer : {Trainer::Megatron, Trainer::DeepSpeed, Trainer::Torchtitan}) {
      std::vector<std::string> names;
      for (const ForeignName& row : foreign_names()) {
        // This one is an object, whose members have names of their own.
        if (row.deepspeed == "zero_optimization.offload_optimizer") continue;
        if (!row.of(trainer).empty() && below(6) == 0) names.emplace_back(row.of(trainer));
      }
      names.emplace_back(trainer == Trainer::Megatron ? "strange-" + std::to_string(turn)
                                                      : "strange.setting" + std::to_string(turn));
      std::string text;
      std::vector<std::string> used;
      for (const std::string& name : names) {
        const std::string& value = values[below(values.size())];
        if (trainer == Trainer::Megatron) {
          text += "--" + name + " " + value + "\n";
        } else if (trainer == Trainer::Torchtitan) {
          text += name + " = " + value + "\n";
        } else {  // dotted names become objects through --arg
          text = "{}";
        }
        used.push_back(name);
      }
      PlanOptions options{.model = "gpt-1.3b", .nodes = 4, .seq_len = 512};
      if (trainer == Trainer::DeepSpeed) {
        for (const std::string& name : names)
          options.arguments[name] = values[below(values.size())];
      }
      const Result<PlanImport> plan = import_plan(trainer, text, "plan", options);
      if (!plan) continue;  // a value that its setting cannot have
      for (const std::string& name : used) {
        INFO(command_name(trainer) << " " << name << "\n" << text);
        CHECK(lists_of(*plan, name) == 1);
      }
    }
  }
}

TEST_CASE("a script's branches on what is not known are two plans, and --arg chooses",
          "[core][handover]") {
  const std::string script = data("branches.sh");
  const auto refused = import_plan(Trainer::Megatron, script, "run.sh", {});
  REQUIRE(!refused.ok());
  const std::string message = to_string(refused.error());
  INFO(message);
  for (const char* part : {"run.sh:", "if [ $SIZE = small ] (line 4)",
                           "if [ $SIZE = large ] (line 10)", "--arg 1=VALUE", "--arg SIZE=VALUE"}) {
    INFO(part);
    CHECK_THAT(message, ContainsSubstring(part));
  }
  const auto batch =
      import_plan(Trainer::Megatron, script, "run.sh", {.arguments = {{"1", "small"}}});
  REQUIRE(!batch.ok());
  CHECK_THAT(batch.error().message, ContainsSubstring("--micro-batch-size $MBS") ||
                                        ContainsSubstring("--micro-batch-size $2"));
  CHECK_THAT(batch.error().message, ContainsSubstring("--arg 2=VALUE"));
  const auto chosen = [&](const std::string& size) {
    return parsed(
        imported(Trainer::Megatron, script, {.arguments = {{"SIZE", size}, {"2", "2"}}}).text);
  };
  const Scenario small = chosen("small"), large = chosen("large");
  CHECK(small.model.layers == 24);
  CHECK(small.model.experts == 64);
  CHECK(large.model.layers == 80);
  CHECK(large.model.experts == 0);
  CHECK(large.strategy.pipeline_parallel_degree == 4);
  CHECK(large.strategy.world_size() == 16);
}

TEST_CASE("Megatron-DeepSpeed's words are taken", "[core][handover]") {
  const PlanImport plan = imported(Trainer::Megatron, data("megatron-deepspeed.sh"));
  const Scenario s = parsed(plan.text);
  CHECK(s.model.vocab == 250880);
  CHECK(s.strategy.zero_stage == 1);
  CHECK(s.strategy.offload == Offload::Optimizer);
  CHECK(s.strategy.world_size() == 16);
  CHECK(s.cluster.nodes == 2);
  CHECK_FALSE(s.model.learns_positions());  // ALiBi has none
  CHECK(mentions(plan.lost, "--embed-layernorm"));
  CHECK(plan.unknown.empty());
  // 24 blocks of width 2048, 128 experts of one token in every second: published as 52 B.
  const Scenario experts = parsed(
      imported(Trainer::Megatron,
               "deepspeed --num_nodes 8 --num_gpus 8 pretrain_gpt.py --num-layers 24 --hidden-size "
               "2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
               "--micro-batch-size 4 --global-batch-size 512 --bf16 --num-experts 128 "
               "--moe-expert-parallel-size 64 --moe-train-capacity-factor 1.0 --moe-loss-coeff "
               "0.01 --vocab-size 50257 --deepspeed")
          .text);
  CHECK(experts.model.experts == 128);
  CHECK(experts.model.experts_per_token == 1);
  CHECK(experts.model.expert_period == 2);
  CHECK(experts.model.capacity_factor == 1);
  CHECK(experts.strategy.expert_parallel_degree == 64);
}

TEST_CASE("GELU beside rotary positions keeps two matrices", "[core][handover]") {
  const Scenario s = parsed(imported(Trainer::Megatron, data("gelu-rotary.sh")).text);
  CHECK_FALSE(s.model.is_gated());
  CHECK(s.model.is_rotary());
  CHECK(s.model.ffn_hidden == 4 * 2048);
}

TEST_CASE("DeepSpeed's stages 2 and 3 reduce full buckets, whether or not beside computing",
          "[core][handover]") {
  const PlanImport plan = imported(Trainer::DeepSpeed, data("overlap-false.json"),
                                   {.model = "llama2-7b", .cluster = "a100-80", .seq_len = 2048});
  CHECK(parsed(plan.text).strategy.overlap_grad_reduce);
  CHECK(mentions(plan.lost, "zero_optimization.overlap_comm = false"));
  CHECK_FALSE(mentions(plan.taken, "overlap_comm"));
}

TEST_CASE("\"auto\" is what Hugging Face's Trainer makes of it", "[core][handover]") {
  PlanOptions options{.model = "llama2-7b", .cluster = "a100-80", .seq_len = 4096};
  const PlanImport plan = imported(Trainer::DeepSpeed, data("auto.json"), options);
  const Scenario s = parsed(plan.text);
  CHECK(s.training.param_dtype() == DType::BF16);
  CHECK(s.strategy.fsdp_persistence_threshold == 10 * 4096);
  CHECK(s.strategy.bucket_cap.v == 2 * 4096 * 4096);
  for (const char* name : {"bf16.enabled", "fp16.enabled", "train_batch_size",
                           "zero_optimization.reduce_bucket_size"}) {
    INFO(name);
    CHECK(mentions(plan.assumed, name));
  }
  options.dtype = "float16";
  options.arguments["train_micro_batch_size_per_gpu"] = "4";
  const Scenario told = parsed(imported(Trainer::DeepSpeed, data("auto.json"), options).text);
  CHECK(told.training.param_dtype() == DType::F16);
  CHECK(told.training.local_batch_size == 4);
}

TEST_CASE("DeepSpeed's other degrees and narrow states are taken", "[core][handover]") {
  const Scenario s = parsed(
      imported(Trainer::DeepSpeed, data("autotp.json"), {.model = "llama2-7b", .seq_len = 2048})
          .text);
  CHECK(s.strategy.tensor_parallel_degree == 2);
  CHECK(s.strategy.data_parallel_shard_degree == 4);
  CHECK(s.strategy.world_size() == 8);
  CHECK(s.training.dtype == DType::BF16);
  CHECK(s.optimizer.state_dtype == StateDType::BF16);
  const PlanImport plain = imported(Trainer::DeepSpeed, R"({"train_batch_size": 8,
      "sequence_parallel_size": 4, "optimizer": {"type": "OneBitAdam"},
      "zero_optimization": {"stage": 3, "param_persistence_threshold": 5}})",
                                    {.model = "llama2-7b", .seq_len = 2048});
  CHECK(parsed(plain.text).strategy.context_parallel_degree == 4);
  CHECK(parsed(plain.text).strategy.fsdp_persistence_threshold == 5);
  CHECK_FALSE(mentions(plain.taken, "OneBitAdam"));
  CHECK(mentions(plain.lost, "OneBitAdam"));
  const PlanImport without = imported(Trainer::DeepSpeed, R"({"train_batch_size": 8})",
                                      {.model = "llama2-7b", .seq_len = 2048});
  CHECK_FALSE(mentions(without.taken, "mics_shard_size"));
}

TEST_CASE("launchers have options of their own, and say how many GPUs there are",
          "[core][handover]") {
  const std::string model =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
      "--max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 64 --vocab-size 256";
  const auto ranks = [&](const std::string& before) {
    return parsed(imported(Trainer::Megatron, before + " pretrain_gpt.py " + model).text)
        .strategy.world_size();
  };
  CHECK(ranks("torchrun --nproc_per_node 4 --nnodes=2 --rdzv_backend c10d") == 8);
  CHECK(ranks("python -m torch.distributed.launch --nproc_per_node 4") == 4);
  CHECK(ranks("srun -N 2 --ntasks-per-node 8 python -u") == 16);
  CHECK(ranks("mpirun -np 16 python") == 16);
  CHECK(ranks("accelerate launch --num_processes 4") == 4);
  CHECK(ranks("#SBATCH --nodes=4\n#SBATCH --gres=gpu:a100:8\nsrun python") == 32);
  CHECK(parsed(imported(Trainer::Megatron,
                        "#SBATCH -N 2\nsrun bash -c 'torchrun --nnodes $SLURM_NNODES "
                        "--nproc_per_node 8 pretrain_gpt.py " +
                            model + "'")
                   .text)
            .strategy.world_size() == 16);
  CHECK(ranks("nsys profile -s none --trace=cuda torchrun --nproc_per_node 8") == 8);
  const PlanImport plan =
      imported(Trainer::Megatron,
               "nsys profile --trace cuda torchrun --nproc_per_node 8 --tee 3 a.py " + model);
  CHECK(mentions(plan.of_others, "nsys --trace cuda"));
  CHECK(mentions(plan.of_others, "torchrun --tee 3"));
  CHECK_FALSE(mentions(plan.unknown, "tee"));
  const auto open = import_plan(
      Trainer::Megatron, "torchrun --nproc_per_node $GPUS pretrain_gpt.py " + model, "a.sh", {});
  REQUIRE(!open.ok());
  CHECK_THAT(open.error().message, ContainsSubstring("--gpus N"));
  CHECK_THAT(open.error().message, ContainsSubstring("--arg GPUS=VALUE"));
  CHECK(import_plan(Trainer::Megatron, "torchrun --nproc_per_node $GPUS pretrain_gpt.py " + model,
                    "a.sh", {.gpus = 4})
            .ok());
}

TEST_CASE("what only the tokenizer knows is asked for", "[core][handover]") {
  const std::string model =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
      "--max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 8 --train-samples "
      "300_000_000 ";
  const auto vocab = [&](const std::string& more) {
    return parsed(imported(Trainer::Megatron, model + more).text).model.vocab;
  };
  CHECK(vocab("--tokenizer-type HuggingFaceTokenizer --tokenizer-model Qwen/Qwen3-32B") == 151936);
  CHECK(vocab("--tokenizer-type Llama2Tokenizer --make-vocab-size-divisible-by 1") == 32000);
  CHECK(vocab("--vocab-size 129280 --make-vocab-size-divisible-by 3232") == 129280);
  const auto unknown =
      import_plan(Trainer::Megatron, model + "--make-vocab-size-divisible-by 1187", "a.txt", {});
  REQUIRE(!unknown.ok());
  CHECK_THAT(unknown.error().message, ContainsSubstring("--arg vocab-size=N"));
  CHECK(parsed(imported(Trainer::Megatron, model, {.arguments = {{"vocab-size", "1000"}}}).text)
            .model.vocab == 1024);
  CHECK(parsed(imported(Trainer::Megatron, model).text).training.steps == 37'500'000);
}

TEST_CASE("files of tools that are not read are refused as what they are", "[core][handover]") {
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n", "Accelerate"},
           {"base_model: a/b\ndatasets:\n  - path: x\n", "axolotl"},
           {"trainer:\n  devices: 8\nmodel:\n  tensor_model_parallel_size: 2\n", "NeMo"},
           {"{\n \"pipe-parallel-size\": 1,\n \"num-layers\": 12\n}\n", "GPT-NeoX"},
           {"language_model:\n  a: 1\nmodel_parallel:\n  b: 2\n", "Megatron Core"}}) {
    const auto plan = import_plan(Trainer::Megatron, text, "a.yaml", {});
    REQUIRE(!plan.ok());
    CHECK_THAT(plan.error().message, ContainsSubstring(what));
    CHECK_THAT(plan.error().message,
               ContainsSubstring("lockstep import") || ContainsSubstring("import "));
  }
}

TEST_CASE("names say how many parameters a model has", "[core][handover]") {
  CHECK(counts_in("llama-7b") == std::vector<double>{7e9});
  CHECK(counts_in("gpt_300M_8gpus.sh") == std::vector<double>{3e8});
  CHECK(counts_in("Qwen3-30B-A3B") == std::vector<double>{30e9});
  CHECK(counts_in("qwen2.5-1.5b") == std::vector<double>{1.5e9});
  CHECK(counts_in("v2b3 bf16 h100").empty());
}

}  // namespace
}  // namespace lockstep
