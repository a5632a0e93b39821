// The commands that bring models and texts in, use them and take them out.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/read_file.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/data/token_files.hpp"
#include "core/tokenizer/tokenizer.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/core/tokenizer/small_gpt2.hpp"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

std::string words(int count, unsigned seed) {
  static const Words known = {"the",  "other", " there",  "weather,", "er.\n",
                              "\n\n", "été",   "12 34",   "Then:\n",  "  ",
                              "\t",   "!?",    "ether\n", "日本",     "🙂"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    text += known[(seed >> 16) % known.size()] + ((seed & 0x8000U) != 0 ? " " : "");
  }
  return text;
}

std::string tokenizer_json() {
  return small_gpt2({"t h", "th e", "e r", "the r", "Ġ the", "Ċ Ċ", "! ?"},
                    R"(,"added_tokens":[{"id":263,"content":"<|endoftext|>","special":true}])");
}

/// A run of the byte-level model, whose last checkpoint is that of step 6.
void train(const TemporaryFolder& folder, const Words& more = {}) {
  write_bytes(folder / "text", words(200, 1));
  write_bytes(folder / "s.toml", kTiny);
  Words arguments = {
      "run",    folder / "s.toml", "--backend", "cpu",
      "--out",  folder / "run",    "--set",     "training.dataset=" + (folder / "text"),
      "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto run = lockstep(arguments);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
}

CommandOutcome done(const std::vector<std::string>& arguments) {
  auto outcome = lockstep(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return outcome;
}

/// The message of a command that must fail with the exit code for input.
std::string refusal(const std::vector<std::string>& arguments) {
  const auto outcome = lockstep(arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  return outcome.err;
}

void check_has(const std::string& text, const std::string& part) {
  INFO(text << " should say: " << part);
  CHECK(text.find(part) != std::string::npos);
}

Ids all_tokens(const std::string& path) {
  const auto files = open_token_files(path);
  if (!files) FAIL(to_string(files.error()));
  Ids ids(static_cast<std::size_t>((*files)->size()));
  (*files)->read(0, ids);
  return ids;
}

TEST_CASE("a model that lacks only what costs no time is simulated, and not trained or imported",
          "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "config.json",
              R"({"model_type": "olmo", "num_hidden_layers": 2, "hidden_size": 32,
                  "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 64,
                  "vocab_size": 256, "max_position_embeddings": 64})");
  write_bytes(folder / "s.toml", "[model]\nhf_config = \"config.json\"\n");
  const auto simulated = lockstep({"run", folder / "s.toml", "--quiet"});
  INFO(simulated.err);
  CHECK(simulated.exit_code == 0);
  CHECK_THAT(simulated.err, ContainsSubstring("can be simulated, and not trained: Lockstep lacks "
                                              "LayerNorm without weights"));
  const auto trained = lockstep({"run", folder / "s.toml", "--backend", "cpu", "--quiet"});
  CHECK(trained.exit_code == 2);
  CHECK_THAT(trained.err, ContainsSubstring("--backend cpu: the model can be simulated"));
  const auto imported = lockstep({"import", "hf", folder / "", "--out", folder / "run"});
  CHECK(imported.exit_code == 2);
  CHECK_THAT(imported.err, ContainsSubstring("its weights have no use here"));
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace

TEST_CASE("a config.json without weights is imported as a scenario, beside weights it is not",
          "[cli]") {
  const TemporaryFolder folder;
  const auto from = folder.path / "model";
  std::filesystem::create_directories(from);
  write_bytes((from / "config.json").string(),
              R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32,
                  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
                  "vocab_size": 256, "rms_norm_eps": 1e-5, "max_position_embeddings": 64,
                  "tie_word_embeddings": false})");
  const auto imported = lockstep({"import", "hf", from.string(), "--out", folder / "run"});
  INFO(imported.err);
  CHECK(imported.exit_code == 0);
  CHECK_THAT(imported.out, ContainsSubstring("training begins with random ones"));
  write_bytes(folder / "text.txt", std::string(5000, 'a'));
  const auto trained = lockstep({"run", folder / "run/scenario.toml", "--backend", "cpu", "--quiet",
                                 "--steps", "1", "--set", "training.dataset=" + folder / "text.txt",
                                 "--set", "training.seq_len=32"});
  INFO(trained.err);
  CHECK(trained.exit_code == 0);
  write_bytes((from / "pytorch_model.bin").string(), "weights of another format");
  const auto other = lockstep({"import", "hf", from.string(), "--out", folder / "other"});
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, ContainsSubstring("have to be saved as safetensors first"));
  CHECK_FALSE(std::filesystem::exists(folder / "other"));
}

TEST_CASE("a router as uneven as the scenario says is simulated, and not trained", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml",
              "[model]\npreset = \"mixtral-tiny\"\nrouter_imbalance = 1.5\n"
              "[parallelism]\ndata_parallel_shard_degree = 4\nexpert_parallel_degree = 4\n");
  CHECK(lockstep({"run", folder / "s.toml", "--quiet"}).exit_code == 0);
  const auto trained = lockstep({"run", folder / "s.toml", "--backend", "cpu", "--quiet"});
  CHECK(trained.exit_code == 2);
  CHECK_THAT(trained.err, ContainsSubstring("model.router_imbalance says how unevenly tokens"));
}

TEST_CASE("a trained model is taken out, brought in again, says the same and goes on training",
          "[cli]") {
  const TemporaryFolder folder;
  train(folder);
  done({"export", "hf", folder / "run", "--out", folder / "hf"});
  done({"import", "hf", folder / "hf", "--out", folder / "again"});
  const auto before = read_safetensors(folder / "run/checkpoints/step-6/model.safetensors");
  const auto after = read_safetensors(folder / "again/checkpoints/step-0/model.safetensors");
  REQUIRE(before.ok());
  REQUIRE(after.ok());
  CHECK(before->tensors == after->tensors);

  const auto sample = [&](const std::string& model, const std::string& seed) {
    return done({"sample", folder / model, "--prompt", "the ", "--tokens", "30", "--seed", seed,
                 "--quiet"})
        .out;
  };
  const std::string text = sample("run", "5");
  CHECK(text.starts_with("the "));
  CHECK(sample("hf", "5") == text);
  CHECK(sample("again", "5") == text);
  CHECK(sample("run", "6") != text);

  done({"run", folder / "again/scenario.toml", "--backend", "cpu", "--resume", folder / "again",
        "--out", folder / "more", "--steps", "2", "--set", "training.dataset=" + (folder / "text"),
        "--set", "training.seq_len=8", "--set", "training.local_batch_size=2", "--set",
        "checkpoint.interval=2", "--quiet"});
  CHECK(fs::exists(folder / "more/checkpoints/step-2/model.safetensors"));
  done({"sample", folder / "more", "--prompt", "the "});
}

TEST_CASE("an encoder is taken out and brought in, and nobody is told to sample it",
          "[cli][encoder]") {
  const TemporaryFolder folder;
  train(folder, {"--set", "model.causal=false", "--set", "model.mask_token=0", "--set",
                 "model.norm_place=behind_sum", "--set", "model.embedding_norm=true", "--set",
                 "model.token_types=1", "--set", "model.head_transform=true"});
  const auto out = done({"export", "hf", folder / "run", "--out", folder / "hf"});
  check_has(out.out, "for AutoModelForMaskedLM.from_pretrained");
  check_has(*read_file(folder / "hf/config.json"), "RobertaForMaskedLM");
  const auto in = done({"import", "hf", folder / "hf", "--out", folder / "again"});
  CHECK(in.out.find("lockstep sample") == std::string::npos);
  check_has(in.out, "lockstep run");
  done({"export", "hf", folder / "again", "--out", folder / "hf2"});
  CHECK(*read_file(folder / "hf2/model.safetensors") ==
        *read_file(folder / "hf/model.safetensors"));
}

TEST_CASE("import and export say as JSON what they wrote", "[cli]") {
  const TemporaryFolder folder;
  train(folder);
  const auto type = [](const Tensor& tensor) { return std::string(to_string(tensor.dtype)); };
  for (const char* dtype : {"float32", "bfloat16"}) {
    const std::string out = folder / dtype;
    const auto json = nlohmann::json::parse(
        done({"export", "hf", folder / "run", "--out", out, "--dtype", dtype, "--json"}).out);
    CHECK(json["folder"] == out);
    CHECK(json["model"] == "gpt2-tiny");
    const auto written = read_safetensors(out + "/model.safetensors");
    REQUIRE(written.ok());
    REQUIRE(!written->tensors.empty());
    for (const auto& [name, tensor] : written->tensors) CHECK(json["dtype"] == type(tensor));
  }
  const std::string run = folder / "again";
  const auto json =
      nlohmann::json::parse(done({"import", "hf", folder / "float32", "--out", run, "--json"}).out);
  CHECK(json["run"] == run);
  CHECK(json["scenario"] == run + "/scenario.toml");
  const auto made = read_safetensors(run + "/checkpoints/step-0/model.safetensors");
  REQUIRE(made.ok());
  CHECK(json["tensors"] == made->tensors.size());
  const auto model = nlohmann::json::parse(
      done({"show", "model", json["scenario"].get<std::string>(), "--json"}).out);
  CHECK(json["tensors"] == model["tensors"].size());
  CHECK(json["model"] == model["name"]);
}

TEST_CASE("export of adapters says as JSON of which rank they are", "[cli]") {
  const TemporaryFolder folder;
  train(folder, {"--set", "lora.rank=3"});
  const std::string out = folder / "adapters";
  const auto json = nlohmann::json::parse(
      done({"export", "hf", folder / "run", "--out", out, "--adapters", "--json"}).out);
  CHECK(json["folder"] == out);
  CHECK(json["model"] == "gpt2-tiny");
  const auto config = read_file(out + "/adapter_config.json");
  REQUIRE(config.ok());
  CHECK(json["adapter_rank"] == nlohmann::json::parse(*config)["r"]);
  CHECK(json["adapter_rank"] == 3);
}

TEST_CASE("a model imported with PEFT's adapters is the one that they were merged into", "[cli]") {
  const TemporaryFolder folder;
  train(folder);
  done({"run", folder / "s.toml", "--backend", "cpu", "--out", folder / "tuned", "--resume",
        folder / "run", "--steps", "9", "--set", "training.dataset=" + (folder / "text"), "--set",
        "lora.rank=3", "--quiet"});
  done({"export", "hf", folder / "run", "--out", folder / "base"});
  done({"export", "hf", folder / "tuned", "--out", folder / "merged"});
  done({"export", "hf", folder / "tuned", "--out", folder / "adapters", "--adapters"});
  done({"import", "hf", folder / "merged", "--out", folder / "of_merged"});
  done({"import", "hf", folder / "base", "--adapters", folder / "adapters", "--out",
        folder / "of_adapters"});
  const auto tensors = [&](const std::string& run) {
    auto file = read_safetensors(folder / (run + "/checkpoints/step-0/model.safetensors"));
    REQUIRE(file.ok());
    return file->tensors;
  };
  CHECK(tensors("of_adapters") == tensors("of_merged"));
  done({"import", "hf", folder / "base", "--out", folder / "of_base"});
  CHECK(tensors("of_adapters") != tensors("of_base"));
  check_has(refusal({"import", "hf", folder / "base", "--adapters", folder / "none", "--out",
                     folder / "x"}),
            "adapter_config.json");
  CHECK_FALSE(fs::exists(folder / "x"));
}

TEST_CASE("sample says as JSON which tokens it read and made", "[cli]") {
  const TemporaryFolder folder;
  train(folder);
  const auto json = nlohmann::json::parse(done({"sample", folder / "run", "--prompt", "the",
                                                "--tokens", "7", "--temperature", "0", "--json"})
                                              .out);
  CHECK(json.at("prompt_ids").get<Ids>() == Ids{'t', 'h', 'e'});
  const Ids ids = json.at("ids").get<Ids>();
  CHECK(ids.size() == 7);
  CHECK(json.at("tokens_per_s").get<double>() > 0);
  // The same prompt as ids, and another seed, which has no part in it where nothing is drawn.
  const auto same =
      nlohmann::json::parse(done({"sample", folder / "run", "--ids", "116,104,101", "--tokens", "7",
                                  "--temperature", "0", "--seed", "9", "--json"})
                                .out);
  CHECK(same.at("ids").get<Ids>() == ids);
  CHECK(same.at("text").get<std::string>() == json.at("text").get<std::string>());
}

TEST_CASE("what cannot be sampled is refused, and said what to do", "[cli]") {
  const TemporaryFolder folder;
  train(folder);
  const std::string run = folder / "run";
  check_has(refusal({"sample", folder / "none", "--prompt", "a"}),
            "is neither a run folder (scenario.toml) nor a model of Hugging Face's");
  check_has(refusal({"sample", run}), "the prompt is empty: give some text to go on from");
  check_has(refusal({"sample", run, "--prompt", std::string(100, 'a')}), "give fewer --tokens");
  check_has(refusal({"sample", run, "--prompt", std::string(128, 'a'), "--tokens", "1"}),
            "the prompt has 128 tokens, and the model's max_seq_len is 128: give a prompt of at "
            "most 127");
  check_has(refusal({"sample", run, "--prompt", "a", "--ids", "3"}), "--prompt");
  for (const char* option : {"--temperature", "--top-p"}) {
    check_has(refusal({"sample", run, "--prompt", "a", option, "nan"}), "it is no number");
  }
  check_has(refusal({"sample", run, "--ids", "3,256"}), "256");
  check_has(refusal({"sample", run, "--prompt", "a", "--tokenizer", folder / "none"}), "none");
  check_has(refusal({"sample", run, "--prompt", "a", "--backend", "sim"}), "computes nothing");
  write_bytes(folder / "tokenizer.json", tokenizer_json());
  check_has(refusal({"sample", run, "--prompt", "a", "--tokenizer", folder / "tokenizer.json"}),
            "the tokenizer has 264 tokens, and the model's vocabulary 256");
  const std::string weights = folder / "run/checkpoints/step-6/model.safetensors";
  fs::remove_all(folder / "run/checkpoints/step-3");
  fs::resize_file(weights, fs::file_size(weights) - 8);
  check_has(refusal({"sample", run, "--prompt", "a"}), "step-6");
}

TEST_CASE("a model of another vocabulary takes ids, and text where it has a tokenizer", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  done({"run", folder / "s.toml", "--backend", "cpu", "--out", folder / "run", "--set",
        "model.vocab=264", "--quiet"});
  const std::string run = folder / "run";
  check_has(refusal({"sample", run, "--prompt", "the"}),
            "there is no tokenizer for the vocabulary of 264 tokens: give --tokenizer");
  const std::string ids = done({"sample", run, "--ids", "257", "--tokens", "4", "--quiet"}).out;
  CHECK(std::count(ids.begin(), ids.end(), ',') == 3);
  write_bytes(folder / "run/tokenizer.json", tokenizer_json());
  const auto json = nlohmann::json::parse(
      done({"sample", run, "--prompt", " the", "--tokens", "4", "--json"}).out);
  CHECK(json.at("prompt_ids").get<Ids>() == Ids{260});
  // The tokenizer goes with the model.
  done({"export", "hf", run, "--out", folder / "hf", "--dtype", "bfloat16"});
  done({"import", "hf", folder / "hf", "--out", folder / "again"});
  CHECK(read_bytes(folder / "again/tokenizer.json") == tokenizer_json());
  done({"sample", folder / "again", "--prompt", "the", "--tokens", "4"});
}

TEST_CASE("import and export refuse what they cannot read, and leave nothing behind", "[cli]") {
  const TemporaryFolder folder;
  train(folder);
  check_has(refusal({"export", "onnx", folder / "run", "--out", folder / "x"}), "onnx");
  check_has(refusal({"import", "hf", folder / "run2", "--out", folder / "x"}), "run2");
  check_has(refusal({"export", "hf", folder / "run2", "--out", folder / "x"}), "run2");
  done({"export", "hf", folder / "run", "--out", folder / "hf"});
  const std::string weights = folder / "hf/model.safetensors";
  const std::string whole = read_bytes(weights);
  write_bytes(weights, whole.substr(0, whole.size() - 8));
  check_has(refusal({"import", "hf", folder / "hf", "--out", folder / "x"}), "model.safetensors");
  fs::rename(weights, folder / "hf/pytorch_model.bin");
  check_has(refusal({"import", "hf", folder / "hf", "--out", folder / "x"}),
            "there is neither model.safetensors nor model.safetensors.index.json");
  write_bytes(weights, whole);
  write_bytes(folder / "hf/config.json", R"({"model_type": "chameleon"})");
  check_has(refusal({"import", "hf", folder / "hf", "--out", folder / "x"}),
            "model_type 'chameleon' is not supported");
  fs::remove(folder / "hf/config.json");
  fs::create_symlink("config.json", folder / "hf/config.json");  // of a file that is itself
  check_has(refusal({"import", "hf", folder / "hf", "--out", folder / "x"}), "hf/config.json: ");
  CHECK(!fs::exists(folder / "x"));
}

TEST_CASE("a model with a sliding window goes on beyond the window", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  done({"run", folder / "s.toml", "--backend", "cpu", "--out", folder / "run", "--set",
        "model.preset=llama-tiny", "--quiet"});
  done({"export", "hf", folder / "run", "--out", folder / "hf"});
  auto config = nlohmann::json::parse(read_bytes(folder / "hf/config.json"));
  config["model_type"] = "mistral";
  config["sliding_window"] = 24;
  config["max_position_embeddings"] = 128;
  write_bytes(folder / "hf/config.json", config.dump());
  const auto imported = done({"import", "hf", folder / "hf", "--out", folder / "again"});
  CHECK(imported.err.find("sliding_window") == std::string::npos);
  check_has(read_bytes(folder / "again/scenario.toml"), "sliding_window = 24");
  for (const char* model : {"hf", "again"}) {
    done({"sample", folder / model, "--prompt", "the ", "--tokens", "60"});
    check_has(refusal({"sample", folder / model, "--prompt", "the ", "--tokens", "125"}),
              "4 tokens of the prompt and 125 more exceed the model's max_seq_len=128");
  }
}

TEST_CASE("bytes of text are not fed to a vocabulary of tokens", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "text", words(200, 1));
  write_bytes(folder / "s.toml", kTiny);
  check_has(refusal({"run", folder / "s.toml", "--backend", "cpu", "--out", folder / "run", "--set",
                     "training.dataset=" + (folder / "text"), "--set", "model.vocab=50257"}),
            "make tokens with `lockstep data " + (folder / "text") + " --tokenizer PATH");
}

TEST_CASE("tokens of a shard are those of the whole text, whatever blocks it was read in",
          "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "tokenizer.json", tokenizer_json());
  const std::string text = words(500'000, 3);
  REQUIRE(text.size() > 2'200'000);  // more than two blocks
  write_bytes(folder / "text", text);
  const auto tokenizer = open_tokenizer(folder / "tokenizer.json");
  REQUIRE(tokenizer.ok());
  Ids whole = (*tokenizer)->encode(text);
  whole.push_back((*tokenizer)->end());
  for (const std::string dtype : {"uint16", "uint32"}) {
    CAPTURE(dtype);
    const std::string shard = folder / (dtype + ".bin");
    done({"data", folder / "text", "--tokenizer", folder / "tokenizer.json", "--out", shard,
          "--dtype", dtype});
    CHECK(fs::file_size(shard) == 1024 + whole.size() * (dtype == "uint16" ? 2 : 4));
    CHECK(all_tokens(shard) == whole);
  }
  // A training reads it.
  write_bytes(folder / "s.toml", kTiny);
  done({"run", folder / "s.toml", "--backend", "cpu", "--out", folder / "run", "--set",
        "model.vocab=264", "--set", "training.dataset=" + (folder / "uint32.bin"), "--quiet"});
}

TEST_CASE("the end of the texts is for validation, to the byte", "[cli]") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "texts/deep");
  write_bytes(folder / "tokenizer.json", tokenizer_json());
  const std::string first = words(300, 1), second = words(200, 2);
  write_bytes(folder / "texts/a", first);
  write_bytes(folder / "texts/deep/b", second);
  write_bytes(folder / "texts/c.png", std::string("\x89PNG\0\0", 6));
  const auto json = nlohmann::json::parse(
      done({"data", folder / "texts", "--tokenizer", folder / "tokenizer.json", "--out",
            folder / "made/corpus.bin", "--validation", "0.25", "--json"})
          .out);
  CHECK(json.at("texts").get<int>() == 2);
  CHECK(json.at("dtype").get<std::string>() == "uint16");
  const auto tokenizer = open_tokenizer(folder / "tokenizer.json");
  const Ids train = all_tokens(folder / "made/corpus.bin");
  const Ids rest = all_tokens(folder / "made/corpus-validation.bin");
  Ids all = train;
  all.insert(all.end(), rest.begin(), rest.end());
  const auto end = std::find(all.begin(), all.end(), (*tokenizer)->end());
  CHECK((*tokenizer)->decode({all.begin(), end}) == first);
  REQUIRE(end != all.end());
  CHECK((*tokenizer)->decode({end + 1, all.end() - 1}) == second);
  CHECK(all.back() == (*tokenizer)->end());
  const double share = static_cast<double>((*tokenizer)->decode(rest).size()) /
                       static_cast<double>(first.size() + second.size());
  CHECK(share == Approx(0.25).margin(0.01));
}

TEST_CASE("every line of JSON lines is a text, which lies in one shard as a whole", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "tokenizer.json", tokenizer_json());
  std::string lines;
  std::vector<std::string> texts;
  for (unsigned i = 0; i < 40; ++i) {
    texts.push_back(words(20, i));
    lines +=
        nlohmann::json{{"id", i}, {"body", texts.back()}}.dump() + (i % 7 == 0 ? "\n\n" : "\n");
  }
  write_bytes(folder / "a.jsonl", lines);
  done({"data", folder / "a.jsonl", "--field", "body", "--tokenizer", folder / "tokenizer.json",
        "--out", folder / "a.bin", "--validation", "0.3"});
  const auto tokenizer = open_tokenizer(folder / "tokenizer.json");
  std::size_t next = 0;
  for (const char* shard : {"a.bin", "a-validation.bin"}) {
    Ids text;
    for (const std::int32_t id : all_tokens(folder / shard)) {
      text.push_back(id);
      if (id != (*tokenizer)->end()) continue;
      REQUIRE(next < texts.size());
      CHECK((*tokenizer)->decode(text) == texts[next++]);
      text.clear();
    }
    CHECK(text.empty());
    CHECK(next > 20);
  }
  CHECK(next == 40);
  check_has(refusal({"data", folder / "a.jsonl", "--tokenizer", folder / "tokenizer.json", "--out",
                     folder / "b.bin"}),
            "a.jsonl:1: has no text under 'text', only body, id: name its key with --field");
  write_bytes(folder / "a.jsonl", lines + "{\"body\": ");
  check_has(refusal({"data", folder / "a.jsonl", "--field", "body", "--tokenizer",
                     folder / "tokenizer.json", "--out", folder / "b.bin"}),
            "a.jsonl:47: is no JSON object");
  CHECK(!fs::exists(folder / "b.bin"));
}

TEST_CASE("data refuses texts, tokenizers and shards that it cannot use", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "tokenizer.json", tokenizer_json());
  write_bytes(folder / "text", "the text");
  write_bytes(folder / "zero", std::string("a\0b", 3));
  const auto data = [&](const std::string& text, const std::string& tokenizer,
                        const std::string& out) {
    return refusal(
        {"data", folder / text, "--tokenizer", folder / tokenizer, "--out", folder / out});
  };
  check_has(data("gone", "tokenizer.json", "x.bin"), "gone' does not exist");
  check_has(data("zero", "tokenizer.json", "x.bin"), "zero' is not text: it holds a NUL byte");
  check_has(data("text", "text", "x.bin"), "text");
  CHECK(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  check_has(data("pipe", "tokenizer.json", "x.bin"), "pipe' is neither a file nor a folder");
  check_has(data("text", "tokenizer.json", "x.txt"), "must end in .bin");
  CHECK(!fs::exists(folder / "x.bin"));
  CHECK(!fs::exists(folder / "x.bin.new"));
}

}  // namespace lockstep::test
