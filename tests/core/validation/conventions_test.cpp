#include "core/validation/conventions.hpp"

#include "tests/core/validation/rows.hpp"

using namespace lockstep;
using test::training_row;

TEST_CASE("a printed time is the time, tokens/s and TFLOP/s become one", "[validation]") {
  CHECK(measured_step_time(training_row()) == 1.5);
  // 64 sequences of 2,048 tokens on 8 GPUs of 10,000 tokens/s
  CHECK(*measured_step_time(training_row(
            {{"iter_time_s", ""}, {"tokens_per_s_per_gpu", "10000"}})) == Approx(64 * 2048 / 8e4));
  CHECK(!measured_step_time(training_row({{"iter_time_s", ""}})));
  CHECK(!measured_step_time(
      training_row({{"iter_time_s", ""}, {"tokens_per_s_per_gpu", "10000"}, {"seq", ""}})));
}

TEST_CASE("Narayanan et al.'s formula gives the time that Megatron-LM printed beside it",
          "[validation]") {
  // mlm2020-005: GPT 1.16B on an A100, batch 16: 1.076 s and 149.8 TFLOP/s in one table.
  const TrainingRow row = training_row({{"framework", "Megatron-LM 2020"},
                                        {"hidden", "1920"},
                                        {"layers", "24"},
                                        {"seq", "1024"},
                                        {"vocab", "51200"},
                                        {"gpus", "1"},
                                        {"dp", "1"},
                                        {"global_batch_seqs", "16"},
                                        {"iter_time_s", ""},
                                        {"tflops_per_gpu", "149.8"}});
  CHECK(*measured_step_time(row) == Approx(1.076).epsilon(1e-3));
}

TEST_CASE("each convention counts what its formula says", "[validation]") {
  const TrainingRow row = training_row();
  const double s = 2048, h = 2048, l = 24, v = 51200, tokens = 64 * s;
  const double n = l * 12 * h * h + v * h;  // four h² of attention, eight of the feed-forward part
  CHECK(*counted_flops(row, FlopConvention::Model) == Approx(tokens * (6 * n + 12 * l * h * s)));
  CHECK(*counted_flops(row, FlopConvention::CausalModel) ==
        Approx(tokens * (6 * n + 6 * l * h * s)));
  CHECK(*counted_flops(row, FlopConvention::Narayanan) ==
        Approx(96 * 64 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))));
  CHECK(*counted_flops(row, FlopConvention::ParametersOnly) == Approx(6 * 1.3e9 * tokens));
  const TrainingRow again = training_row({{"recompute", "full"}});
  CHECK(*counted_flops(again, FlopConvention::ParametersOnly) == Approx(8 * 1.3e9 * tokens));
  // Narayanan's count is that of Model with the blocks' products counted a fourth time.
  CHECK(*counted_flops(row, FlopConvention::Narayanan) -
            *counted_flops(row, FlopConvention::Model) ==
        Approx(tokens * l * (2 * 12 * h * h + 4 * h * s)));
  // Grouped keys and values and SwiGLU: 2 h² + 2 h² / 4, and three products of h × f.
  const TrainingRow llama =
      training_row({{"model", "Llama-3-8B"}, {"kv_heads", "4"}, {"ffn_hidden", "8192"}});
  CHECK(*counted_flops(llama, FlopConvention::Model) ==
        Approx(tokens * (6 * (l * (2.5 * h * h + 3 * h * 8192) + v * h) + 12 * l * h * s)));
}

TEST_CASE("a feed-forward part that is not given is what the parameters leave", "[validation]") {
  const test::Cells llama = {{"model", "Llama-3-style 7B"},
                             {"hidden", "4096"},
                             {"layers", "32"},
                             {"heads", "32"},
                             {"kv_heads", "8"},
                             {"vocab", "128256"}};
  const auto width = [&](const char* params_b) {
    test::Cells cells = llama;
    cells.emplace_back("params_b", params_b);
    return ffn_hidden_of(training_row(cells));
  };
  CHECK(width("8.03") == 14336);                     // Llama 3 8B's
  CHECK(width("") == 11008);                         // Llama 2 7B's
  CHECK(ffn_hidden_of(training_row()) == 4 * 2048);  // a GPT's
}

TEST_CASE("what a row states decides, and what it leaves out is its software's", "[validation]") {
  const auto of = [](const test::Cells& cells) { return conventions_of(training_row(cells)); };
  const RowConventions nemo = of({{"framework", "NeMo 24.07"}, {"hw", "H100"}});
  CHECK(nemo.software.preset == "megatron-core");
  CHECK(nemo.software.overlap == DataParallelOverlap::GradientsAndParameters);
  CHECK(nemo.flops == FlopConvention::Model);
  CHECK(nemo.memory == MeasuredMemory::Allocated);
  const RowConventions stated = of({{"framework", "NeMo 24.07"},
                                    {"overlap", "none"},
                                    {"gradient_dtype", "fp32"},
                                    {"flop_convention", "causal"},
                                    {"memory_measure", "process"}});
  CHECK(stated.software.overlap == DataParallelOverlap::None);
  CHECK(stated.software.gradients == GradientType::Float32);
  CHECK(stated.flops == FlopConvention::CausalModel);
  CHECK(stated.memory == MeasuredMemory::Process);
  CHECK(of({{"framework", "Megatron-LM 2021"}}).flops == FlopConvention::Narayanan);
}

TEST_CASE("who published a row decides nothing", "[validation]") {
  const auto preset = [](const char* id) {
    return conventions_of(training_row({{"id", id}, {"tp", "2"}, {"dp", "4"}})).software.preset;
  };
  for (const char* id : {"sc21-t1-001", "dgxc-001", "mosaic-001", "nobody-001"}) {
    CHECK(preset(id) == "megatron-2023");
  }
}

TEST_CASE("tables without the columns state software in notes and source", "[validation]") {
  const auto of = [](const test::Cells& cells) { return conventions_of(training_row(cells)); };
  CHECK(of({{"notes", "median of 864 steps; NeMo/Megatron + Transformer Engine"}, {"hw", "H100"}})
            .software.preset == "megatron-core");
  CHECK(of({{"source", "example/Megatron-LM/README.md"}, {"notes", "of March 2021"}})
            .software.preset == "megatron-2021");
  CHECK(of({{"notes", "PyTorch FSDP1, eager"}, {"fsdp_or_zero", "fsdp"}, {"hw", "H100"}})
            .software.preset == "fsdp-eager");
  const RowConventions script = of({{"notes", "Megatron-Core; not overlapped; whole process"}});
  CHECK(script.software.overlap == DataParallelOverlap::None);
  CHECK(script.memory == MeasuredMemory::Process);
}

TEST_CASE("gradients are in 16 bits where the row says so, or its software in its runs in float16",
          "[validation]") {
  const auto in_16_bits = [](const test::Cells& cells) {
    return sums_in_16_bits(training_row(cells));
  };
  CHECK(in_16_bits({{"gradient_dtype", "bf16"}}));
  CHECK(!in_16_bits({{"gradient_dtype", "fp32"}, {"precision", "fp16"}}));
  CHECK(in_16_bits({{"framework", "llm-foundry"}}));
  CHECK(in_16_bits({{"framework", "Megatron-LM 2021"}, {"precision", "fp16"}}));
  CHECK(!in_16_bits({{"framework", "Megatron-LM 2021"}, {"precision", "bf16"}}));
}

TEST_CASE("FSDP2 is an interface, and a number from three is a shard", "[validation]") {
  const auto shard = [](const char* words) {
    return shard_of(training_row({{"fsdp_or_zero", words}}), 64, 8);
  };
  CHECK(shard("fsdp2") == 64);
  CHECK(shard("fsdp (FSDP2 API)") == 64);
  CHECK(shard("fsdp1 full shard") == 64);
  CHECK(shard("fsdp16") == 16);
  CHECK(shard("fsdp4 hybrid shard, within 4") == 4);
  CHECK(shard("hybrid shard") == 8);
  CHECK(shard("zero3") == 64);
  const auto stage = [](const char* words) {
    return zero_stage_of(training_row({{"fsdp_or_zero", words}}));
  };
  CHECK(stage("ZeRO stage 2") == 2);
  CHECK(stage("ZeRO-3 + CPU offload") == 3);
  CHECK(stage("fsdp2") == 3);
  CHECK(stage("none") == 0);
  CHECK(!stage(""));
}

TEST_CASE("a vocabulary that is not given is GPT-2's, padded for tensor parallelism",
          "[validation]") {
  CHECK(vocabulary(training_row({{"vocab", ""}})) == 50304);               // 393 × 128
  CHECK(vocabulary(training_row({{"vocab", ""}, {"tp", "8"}})) == 51200);  // 50 × 1,024
  CHECK(vocabulary(training_row({{"vocab", ""}, {"notes", "vocab 250k class"}, {"tp", "4"}})) ==
        250880);  // BLOOM's padded one
  CHECK(vocabulary(training_row()) == 51200);
  const auto given = [](const char* framework) {
    return vocabulary(training_row({{"framework", framework}, {"vocab", "131073"}, {"tp", "4"}}));
  };
  CHECK(given("Megatron Core, functional tests") == 131584);  // 257 × 512
  CHECK(given("llm-foundry") == 131073);
}
