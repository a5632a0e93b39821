#include "core/generate/decoder.hpp"

#include <cmath>
#include <numeric>

#include "backends/cpu/cpu_backend.hpp"
#include "backends/reference/reference_backend.hpp"
#include "core/data/dataset.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

constexpr int kLength = 64;

Scenario scenario_of(const std::string& model) {
  const auto parsed = parse_scenario(
      "[model]\n" + model +
          "\n[cluster]\npreset = \"cpu\"\n[training]\nseq_len = " + std::to_string(kLength) +
          "\nlocal_batch_size = 1\nglobal_batch_size = 1\n"
          "dtype = \"float32\"\nseed = 0\nsteps = 1\n",
      "test.toml", {});
  for (const Error& error : parsed.errors) FAIL(to_string(error));
  REQUIRE(validate(parsed.points.at(0).scenario).empty());
  return parsed.points.at(0).scenario;
}

struct Sample {
  std::vector<std::int32_t> inputs, targets;
};

/// What the training reads first, and its loss.
std::pair<Sample, double> first_loss(const Scenario& s) {
  const auto program = lower(s);
  REQUIRE(program.ok());
  const auto batches = open_dataset(program->input.samples, 0, "");
  REQUIRE(batches.ok());
  Sample sample{std::vector<std::int32_t>(kLength), std::vector<std::int32_t>(kLength)};
  (*batches)(0, sample.inputs, sample.targets);
  const auto backend = make_reference_backend();
  const auto run = backend->run(*program, s.cluster, {});
  REQUIRE(run.ok());
  return {sample, run->trace.steps.at(0).loss};
}

/// The mean of -log of the targets' probabilities, of logits of all tokens.
double cross_entropy(const std::vector<float>& logits, const std::vector<std::int32_t>& targets) {
  const std::size_t vocab = logits.size() / targets.size();
  double total = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < vocab; ++j) sum += std::exp(double{logits[i * vocab + j]});
    total += std::log(sum) - logits[i * vocab + to_size(targets[i])];
  }
  return total / static_cast<double>(targets.size());
}

struct Opened {
  DecodeProgram made;
  std::unique_ptr<Backend> backend = make_cpu_backend({}, 1);
  std::unique_ptr<OwnDevice> own;
  std::optional<Decoder> decoder;
  Opened(const ModelSpec& model, const std::vector<std::int64_t>& sizes) {
    auto program = make_decode_program(model, DType::F32, 2 * kLength, sizes);
    REQUIRE(program.ok());
    made = std::move(*program);
    auto opened = backend->open_device(made.program);
    REQUIRE(opened.ok());
    own = std::move(*opened);
    decoder.emplace(made, own->device());
    const auto loaded = decoder->load(nullptr);
    if (!loaded) FAIL(to_string(loaded.error()));
  }
};

}  // namespace

TEST_CASE("the logits of a decoder give the loss that the training has of the same text",
          "[core][generate]") {
  const std::string model = GENERATE("preset = \"gpt2-tiny\"", "preset = \"llama-tiny\"",
                                     "preset = \"mixtral-tiny\"\ncapacity_factor = 0",
                                     "preset = \"mla-tiny\"\ncapacity_factor = 0");
  CAPTURE(model);
  const Scenario s = scenario_of(model);
  const auto [sample, loss] = first_loss(s);
  Opened at(s.model, {16, 2});
  const auto logits = at.decoder->read(sample.inputs, true);
  if (!logits) FAIL(to_string(logits.error()));
  CHECK(cross_entropy(*logits, sample.targets) == Approx(loss).epsilon(1e-6));
}

TEST_CASE("logits do not depend on how a text is cut into passes", "[core][generate]") {
  const Scenario s = scenario_of("preset = \"llama-tiny\"");
  std::vector<std::int32_t> ids(37);
  std::iota(ids.begin(), ids.end(), 5);
  Opened at(s.model, {16, 2});
  const auto whole = at.decoder->read(ids, true);
  REQUIRE(whole.ok());
  REQUIRE(at.decoder->clear().ok());
  std::vector<float> parts;
  std::span<const std::int32_t> rest = ids;
  for (const std::size_t count : {1, 5, 17, 2, 12}) {
    const auto some = at.decoder->read(rest.first(count), true);
    REQUIRE(some.ok());
    parts.insert(parts.end(), some->begin(), some->end());
    rest = rest.subspan(count);
  }
  REQUIRE(parts.size() == whole->size());
  float furthest = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    furthest = std::max(furthest, std::abs(parts[i] - (*whole)[i]));
  }
  CHECK(furthest < 1e-5F);
  CHECK(at.decoder->position() == 37);
}

TEST_CASE("what a decoder cannot read is refused, and it goes on from where it was",
          "[core][generate]") {
  Opened at(scenario_of("preset = \"gpt2-tiny\"").model, {2});
  const std::vector<std::int32_t> ids(10, 3);
  REQUIRE(at.decoder->read(ids).ok());
  const auto outside = at.decoder->read(std::vector<std::int32_t>{256});
  REQUIRE(!outside.ok());
  CHECK(outside.error().message == "token 256 is outside the vocabulary of 256");
  const auto full = at.decoder->read(std::vector<std::int32_t>(119, 1));
  REQUIRE(!full.ok());
  CHECK(full.error().message ==
        "119 more tokens do not fit behind the 10 before them: there is room for 128");
  CHECK(at.decoder->position() == 10);
  CHECK(at.decoder->read(std::vector<std::int32_t>(118, 1)).ok());
}

}  // namespace lockstep
