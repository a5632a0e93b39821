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
  const TrainingRow row = training_row({{"id", "mlm2020-005"},
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

TEST_CASE("the longest prefix of a source's table gives its convention", "[validation]") {
  const auto of = [](const std::string& id) { return convention_of(training_row({{"id", id}})); };
  CHECK(of("sc21-t1-001").prefix == "sc21");
  CHECK(of("sc21-t2-001").prefix == "sc21-t2");
  CHECK(of("sc21-t2-001").gradients == GradientType::AsParameters);
  CHECK(of("bloom-tune-001").prefix == "bloom");
  CHECK(of("nobody-001").prefix.empty());
  CHECK(of("nobody-001").overlap == DataParallelOverlap::Gradients);
}

TEST_CASE("gradients in 16 bits are a source's rule, or that of its runs in float16",
          "[validation]") {
  const auto in_16_bits = [](const char* id, const char* precision) {
    return sums_in_16_bits(training_row({{"id", id}, {"precision", precision}}));
  };
  CHECK(in_16_bits("mosaic-1", "bf16"));
  CHECK(in_16_bits("bloom-tune-1", "fp16"));
  CHECK(!in_16_bits("bloom-tune-1", "bf16"));
  CHECK(!in_16_bits("simumax-1", "bf16"));
}

TEST_CASE("a vocabulary that is not given is GPT-2's, padded for tensor parallelism",
          "[validation]") {
  CHECK(vocabulary(training_row({{"vocab", ""}})) == 50304);               // 393 × 128
  CHECK(vocabulary(training_row({{"vocab", ""}, {"tp", "8"}})) == 51200);  // 50 × 1,024
  CHECK(vocabulary(training_row({{"vocab", ""}, {"notes", "vocab 250k class"}, {"tp", "4"}})) ==
        250880);  // BLOOM's padded one
  CHECK(vocabulary(training_row()) == 51200);
  const auto given = [](const char* id) {
    return vocabulary(training_row({{"id", id}, {"vocab", "131073"}, {"tp", "4"}}));
  };
  CHECK(given("mlm-golden-004") == 131584);  // 257 × 512
  CHECK(given("mosaic-001") == 131073);
}
