#include "core/spec/usual_framework.hpp"

#include <set>
#include <string>

#include "core/scenario/presets.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr double kA100 = 8, kH100 = 9;

KnownOfRun run(std::string words, double card, int tensor_parallel = 1, int zero_stage = 0) {
  return {std::move(words), card, tensor_parallel > 1, zero_stage};
}

std::string preset(std::string words, double card, int tensor_parallel = 1, int zero_stage = 0) {
  return std::string(
      usual_framework(run(std::move(words), card, tensor_parallel, zero_stage)).preset);
}

}  // namespace

TEST_CASE("without a word the layout and the card say which software it is", "[core][spec]") {
  CHECK(preset("", kH100, 8) == "megatron-core");
  CHECK(preset("", kA100, 8) == "megatron-2023");
  CHECK(preset("", 7, 8) == "megatron-2020");
  CHECK(preset("", 0, 8) == "megatron-core");  // AMD's
  CHECK(preset("", kH100, 1, 3) == "torchtitan");
  CHECK(preset("", 10, 1, 2) == "torchtitan");
  CHECK(preset("", kA100, 1, 3) == "fsdp-eager");
  CHECK(preset("", kH100) == "fsdp-eager");
  CHECK(usual_framework(run("", kH100, 8)).name == "Megatron Core");
}

TEST_CASE("software is known by the words that people write", "[core][spec]") {
  CHECK(preset("NeMo 24.07", kH100) == "megatron-core");
  CHECK(preset("NeMo 22.08", kA100, 4) == "megatron-2023");
  CHECK(preset("Megatron-LM", kA100, 4) == "megatron-2023");
  CHECK(preset("Megatron-LM 2021", kA100, 4) == "megatron-2021");
  CHECK(preset("Megatron-LM, March 2021", 7) == "megatron-2021");
  CHECK(preset("Megatron-LM 2024", kA100) == "megatron-2024");
  CHECK(preset("Megatron-LM 2024", kH100) == "megatron-core");
  CHECK(preset("Megatron-DeepSpeed 2021", kA100, 4) == "deepspeed-2021");
  CHECK(preset("Megatron-DeepSpeed, deepspeed 0.11.1", kA100) == "deepspeed-2022");
  CHECK(preset("DeepSpeed 0.15", kH100, 1, 3) == "fsdp-eager");
  CHECK(preset("torchtitan 0.2", kH100) == "torchtitan");
  CHECK(preset("PyTorch FSDP2, torch.compile", kA100, 1, 3) == "torchtitan");
  CHECK(preset("PyTorch FSDP1, eager", kH100, 1, 3) == "fsdp-eager");
  CHECK(preset("FSDP", kA100, 1, 3) == "fsdp-eager");
  CHECK(preset("MosaicML llm-foundry", kA100, 1, 3) == "llm-foundry");
  CHECK(preset("JAX", kH100) == "paxml");
  CHECK(preset("MaxText", kH100) == "maxtext");
  CHECK(preset("PyTorch DDP", kH100) == "fsdp-eager");
  CHECK(preset("PyTorch, torch.compile", kH100) == "torch-compile");
  CHECK(preset("Hugging Face Accelerate", kH100, 4) == "fsdp-eager");
}

TEST_CASE("a model's name is not a framework's", "[core][spec]") {
  CHECK(!has_words("Nemotron 15B", "nemo"));
  CHECK(has_words("ngc25.09_nemo/llama", "nemo"));
  CHECK(has_words("FSDP2 API", "fsdp"));
  CHECK(!has_words("Transformer Engine", "transformers"));
}

TEST_CASE("what software does without being told", "[core][spec]") {
  const UsualFramework nemo = usual_framework(run("NeMo 24.07", kH100, 8));
  CHECK(nemo.overlap == DataParallelOverlap::GradientsAndParameters);
  CHECK(nemo.distributed_optimizer);
  CHECK(nemo.sequence_parallel);
  CHECK(nemo.gradients == GradientType::AsParameters);
  const UsualFramework old = usual_framework(run("Megatron-LM 2021", kA100, 8));
  CHECK(old.overlap == DataParallelOverlap::None);
  CHECK(!old.distributed_optimizer);
  CHECK(!old.sequence_parallel);
  CHECK(old.gradients == GradientType::HalfAsParameters);
  CHECK(usual_framework(run("DeepSpeed 2024", kH100, 1, 3)).overlap ==
        DataParallelOverlap::Gradients);
  CHECK(usual_framework(run("DeepSpeed 2024", kH100, 1, 1)).overlap == DataParallelOverlap::None);
}

TEST_CASE("years are read where texts state them", "[core][spec]") {
  CHECK(stated_year("Narayanan et al. SC21, arXiv 2104.04473") == 2021);
  CHECK(stated_year("Megatron-LM 8aa4619 (March 2021), PyTorch 20.12") == 2021);
  CHECK(stated_year("_posts/2022-07-26-deepspeed-azure.md") == 2022);
  CHECK(stated_year("NeMo 24.07") == 2024);
  CHECK(stated_year("dgxh100_ngc23.04_pytorch") == 2023);
  CHECK(stated_year("README.md @ v25.05.05") == 2025);
  CHECK(stated_year("performance summary (24.07)") == 2024);
  CHECK(stated_year("sequences of 2048 tokens, 22.08 s, 20480 rows, core_v0.6.0") == 0);
}

TEST_CASE("every row of the table is a preset of frameworks/ and says why", "[core][spec]") {
  std::set<std::string> presets;
  for (const EmbeddedProfile& profile : embedded_frameworks()) presets.emplace(profile.name);
  for (const double card : {7.0, kA100, kH100, 10.0, 0.0}) {
    for (const int tensor_parallel : {1, 8}) {
      for (const int zero_stage : {0, 1, 2, 3}) {
        for (const char* words : {"", "NeMo", "Megatron", "DeepSpeed", "FSDP", "JAX", "llm.c"}) {
          const UsualFramework usual =
              usual_framework(run(words, card, tensor_parallel, zero_stage));
          CHECK(presets.count(std::string(usual.preset)) == 1);
          CHECK(!usual.name.empty());
          CHECK(!usual.because.empty());
        }
      }
    }
  }
}
