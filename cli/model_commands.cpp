#include "cli/model_commands.hpp"

#include <CLI/CLI.hpp>
#include <iterator>

#include "cli/settings_options.hpp"
#include "core/handover/handover.hpp"

namespace lockstep {

void ModelCommands::add_to(CLI::App& app, std::function<int()>& command) {
  const auto add = [&](const char* name, const char* what) {
    return app.add_subcommand(name, what);
  };
  const auto runs = [&](CLI::App* sub, auto run) {
    sub->final_callback([&command, run] { command = run; });
  };
  CLI::App* sub = add("sample", "continue a text with a trained model");
  add_sample(sub);
  runs(sub, [this] { return sample_command(sample_, console_); });
  sub = add("import",
            "a run folder from Hugging Face's weights, or a scenario from another trainer's");
  add_import(sub);
  runs(sub, [this] {
    return weights_.layout == "hf" ? import_command(weights_, console_)
                                   : import_plan_command(weights_, console_);
  });
  sub = add("export",
            "weights for Hugging Face's transformers, a plan for another trainer, or a program for "
            "another simulator");
  add_export(sub);
  runs(sub, [this] {
    return weights_.layout == "hf"       ? export_command(weights_, console_)
           : weights_.layout == "chakra" ? chakra_command(weights_, console_)
                                         : handover_command(weights_, console_);
  });
  sub = add("data", "token shards to train on, from texts");
  add_data(sub);
  runs(sub, [this] { return data_command(data_, console_); });
}

void ModelCommands::add_sample(CLI::App* sub) {
  sub->add_option("model", sample_.model, "run folder, or folder of a Hugging Face model")
      ->required()
      ->type_name("FOLDER");
  CLI::Option* const prompt =
      sub->add_option("--prompt", sample_.prompt, "the text to go on from")->type_name("TEXT");
  sub->add_option("--ids", sample_.ids, "the prompt as tokens")->delimiter(',')->excludes(prompt);
  sub->add_option("--tokens", sample_.tokens, "how many tokens are made at most")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  sub->add_option("--temperature", sample_.sampling.temperature,
                  "0: the most probable token; less than 1: more certain")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  sub->add_option("--top-k", sample_.sampling.top_k, "of the K most probable tokens; 0: of all")
      ->check(CLI::Range(0, 10000000))
      ->capture_default_str();
  sub->add_option("--top-p", sample_.sampling.top_p,
                  "of the fewest tokens that together have this probability")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  sub->add_option("--seed", sample_.sampling.seed, "of the draws")->capture_default_str();
  sub->add_option("--tokenizer", sample_.tokenizer,
                  "tokenizer.json or BERT's vocab.txt, or a folder that has one")
      ->type_name("PATH");
  sub->add_option("--backend", sample_.backend, "cpu, cuda or reference")->capture_default_str();
  sub->add_option("--threads", sample_.threads, "threads that compute")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  sub->add_flag("--ignore-end", sample_.ignore_end, "go on behind the token that ends a text");
  sub->add_flag("--json", sample_.json, "print JSON instead of the text");
  sub->add_flag("--quiet", sample_.quiet, "only the text");
}

void ModelCommands::add_import(CLI::App* sub) {
  std::vector<std::string> layouts = {"hf"};
  layouts.insert(layouts.end(), std::begin(kTrainers), std::end(kTrainers));
  sub->add_option("layout", weights_.layout,
                  "hf: weights of Hugging Face's transformers; otherwise that trainer's "
                  "configuration, which becomes a scenario")
      ->required()
      ->check(CLI::IsMember(layouts));
  sub->add_option("from", weights_.from,
                  "hf: folder with config.json and safetensors; otherwise TOML of torchtitan, JSON "
                  "of DeepSpeed, or a script with Megatron-LM's arguments")
      ->required()
      ->type_name("FOLDER|FILE");
  sub->add_option("--out", weights_.out, "hf: run folder to make; otherwise file, or the terminal")
      ->type_name("PATH");
  sub->add_option("--adapters", weights_.merge,
                  "hf: folder of PEFT's adapters (LoRA), to be merged into the weights")
      ->type_name("FOLDER");
  sub->add_option("--model", weights_.plan.model,
                  "of a plan: a preset or a config.json, in the place of the file's model");
  sub->add_option("--cluster", weights_.plan.cluster, "of a plan: a preset, or a profile (.toml)")
      ->capture_default_str();
  sub->add_option("--nodes", weights_.plan.nodes, "of a plan: nodes of the cluster")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  sub->add_option("--seq-len", weights_.plan.seq_len, "of a plan: tokens of a sequence")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N");
  sub->add_option("--gpus", weights_.plan.gpus, "of a plan: GPUs, where the file does not say it")
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("N");
  sub->add_option("--dtype", weights_.plan.dtype, "of a plan: the type of its products")
      ->check(CLI::IsMember({"bfloat16", "float16", "float32"}));
  sub->add_option("--framework", weights_.plan.framework,
                  "of a plan: simulate it as this software runs it (lockstep list frameworks)")
      ->type_name("NAME");
  sub->add_option("--arg", weights_.arguments,
                  "of a plan: the value of a script's variable, of its parameter by its number, or "
                  "of a setting that the file leaves open; several times")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->expected(1);
  sub->add_flag("--strict", weights_.strict, "of a plan: refuse it if anything is assumed");
  sub->add_flag("--json", weights_.json,
                "print JSON: what was made; of a plan, scenario and account");
  sub->footer(readable_plans());
}

void ModelCommands::add_export(CLI::App* sub) {
  std::vector<std::string> layouts = {"hf"};
  layouts.insert(layouts.end(), std::begin(kTrainers), std::end(kTrainers));
  layouts.emplace_back("chakra");
  sub->add_option("layout", weights_.layout,
                  "hf: weights for Hugging Face's transformers; chakra: what every rank does, as "
                  "ASTRA-sim reads it; otherwise the plan of a scenario for that trainer")
      ->required()
      ->check(CLI::IsMember(layouts));
  sub->add_option(
         "from", weights_.from,
         "hf: run folder with a checkpoint; chakra: scenario or run folder; otherwise scenario")
      ->required()
      ->type_name("RUN|SCENARIO");
  sub->add_option("--out", weights_.out,
                  "hf: folder to make; chakra: PREFIX of files; otherwise file, or the terminal")
      ->type_name("PATH");
  sub->add_flag("--json", weights_.json,
                "print JSON: what was written, and what could not be said");
  add_settings(sub, weights_.set);
  sub->add_option("--dtype", weights_.dtype, "of the tensors (default: the checkpoint's)")
      ->check(CLI::IsMember({"float32", "float64", "bfloat16", "float16"}));
  sub->add_flag("--adapters", weights_.adapters,
                "write the adapters of [lora] alone, for PEFT, instead of merging them");
  sub->add_option("--shard-gb", weights_.shard_gb, "most of a file, in GB")
      ->check(CLI::Range(0.000001, 1e6))
      ->capture_default_str();
}

void ModelCommands::add_data(CLI::App* sub) {
  sub->add_option("texts", data_.texts, "text files, JSON lines (.jsonl), or folders of them")
      ->required()
      ->type_name("PATH");
  sub->add_option("--tokenizer", data_.tokenizer,
                  "tokenizer.json or BERT's vocab.txt, or a folder that has one")
      ->required()
      ->type_name("PATH");
  sub->add_option("--out", data_.out, "shard to make, for training.dataset")
      ->required()
      ->type_name("SHARD.bin");
  sub->add_option("--field", data_.field, "key of the text in JSON lines (.jsonl)")
      ->capture_default_str();
  sub->add_option("--dtype", data_.dtype, "of a token (default: the narrower that holds all)")
      ->check(CLI::IsMember({"uint16", "uint32"}));
  sub->add_option("--validation", data_.validation,
                  "share of the text, its end, that goes into SHARD-validation.bin")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  sub->add_flag("--json", data_.json, "print JSON instead of text");
}

}  // namespace lockstep
