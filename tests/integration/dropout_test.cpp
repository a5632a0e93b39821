// Dropout over whole steps: what is dropped when, beside the rows of the parity table.
#include "tests/integration/parity_runs.hpp"

using namespace lockstep;

namespace {

/// The losses of training and of validation on the same samples, one step of each.
struct Losses {
  double training = 0, validation = 0;
};

Losses losses_of(const std::string& keys) {
  const Scenario s =
      test::parity_scenario(Architecture::Llama, test::parity_row(keys, keys), DType::F64);
  const auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  Losses losses;
  RunOptions options;
  options.steps = 1;
  options.validation = {
      1, 1,
      [&](std::int64_t sample, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          tokens[i] = static_cast<std::int32_t>((sample * 5 + static_cast<std::int64_t>(i)) % 11);
          targets[i] =
              static_cast<std::int32_t>((sample * 5 + static_cast<std::int64_t>(i) + 1) % 11);
        }
      }};
  options.on_validation = [&](double loss) { losses.validation = loss; };
  options.on_step = [&](const StepResult& step) { losses.training = step.loss; };
  const auto run = make_cpu_backend({.poison = true})->run(*program, s.cluster, options);
  if (!run) FAIL(to_string(run.error()));
  return losses;
}

}  // namespace

TEST_CASE("a validation drops nothing, in whatever layout", "[integration]") {
  // Nothing is learned, so that all validate the same weights.
  const std::string still = "batch=4 optimizer.lr=0 optimizer.weight_decay=0 model.kv_heads=4 ";
  const Losses without = losses_of(still);
  for (const std::string layout :
       {"", "tp=2 enable_sequence_parallel=true", "cp=2 context_parallel_method=ulysses",
        "cp=2 context_parallel_method=ring pp=2 mb=2"}) {
    for (const std::string dropped :
         {" attention-dropped", " dropped", " dropped attention-dropped"}) {
      INFO(layout << dropped);
      const Losses with = losses_of(still + layout + dropped);
      CHECK(with.validation == Approx(without.validation).epsilon(1e-13));
      CHECK(std::abs(with.training - without.training) > 1e-6 * without.training);
    }
  }
}
