// verify against mutants: programs of every strategy with one fault each. What verify accepts is
// trained, and must train as the original does.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "backends/cpu/cpu_backend.hpp"
#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "core/lower/lower.hpp"
#include "tests/catch.hpp"
#include "tests/integration/kernel_conformance.hpp"
#include "tests/integration/parity_table.hpp"
#include "tests/mutants/mutations.hpp"

using namespace lockstep;
using test::Mutant;
using test::MutantClass;

namespace {

struct Layout {
  Architecture architecture;
  const char* keys;
};

// Every strategy, as small as it goes.
constexpr std::array<Layout, 28> kLayouts = {{
    {Architecture::Gpt2, "batch=4 accumulation=2"},
    {Architecture::Llama, "batch=4 dp_replicate=2 accumulation=2"},
    {Architecture::Gpt2, "batch=4 dp_replicate=2 gradient_as_bucket_view=false"},
    {Architecture::Llama, "batch=4 dp_shard=2 zero_stage=1 overlap_param_gather=true"},
    {Architecture::Gpt2, "batch=4 dp_replicate=2 dp_shard=2 zero_stage=1"},
    {Architecture::Gpt2, "batch=4 dp_shard=2 zero_stage=2 offload=optimizer"},
    {Architecture::Llama, "batch=4 dp_shard=2 accumulation=2"},
    {Architecture::Llama, "batch=4 dp_shard=2 accumulation=2 accumulate_sharded_gradients=true"},
    {Architecture::Gpt2, "batch=4 dp_shard=4 fsdp_reshard_degree=2"},
    {Architecture::Gpt2, "batch=4 dp_replicate=2 dp_shard=2"},
    {Architecture::Gpt2, "batch=4 pp=2 mb=4"},
    {Architecture::Gpt2, "batch=4 pp=2 mb=4 schedule=ZB-H1"},
    {Architecture::Llama, "batch=4 pp=2 mb=4 schedule=Interleaved1F1B v=2"},
    {Architecture::Llama, "batch=4 pp=2 mb=4 schedule=ZBVZeroBubble v=2"},
    {Architecture::Gpt2, "batch=4 pp=2 mb=4 schedule=DualPipe"},
    {Architecture::Llama, "batch=4 pp=2 mb=4 schedule=PipeDream training.max_norm=0"},
    {Architecture::Gpt2, "batch=4 dp_shard=2 pp=2 mb=2"},
    {Architecture::Gpt2, "batch=2 tp=2"},
    {Architecture::Llama, "batch=2 tp=2 enable_sequence_parallel=true"},
    {Architecture::Gpt2, "batch=4 tp=2 dp_shard=2"},
    {Architecture::Gpt2, "batch=2 cp=2"},
    {Architecture::Llama, "batch=2 cp=2 context_parallel_method=allgather"},
    {Architecture::Llama, "batch=4 dp_shard=2 ep=2 model.experts=4"},
    {Architecture::Gpt2, "batch=4 dp_shard=2 accumulation=2 model.experts=4"},
    {Architecture::Llama, "batch=2 dp_shard=2 activation_checkpoint.mode=full"},
    {Architecture::Resnet, "batch=4 dp_replicate=2 sync_batch_norm=true"},
    {Architecture::Resnet, "batch=4 dp_shard=2 accumulation=2"},
    {Architecture::Resnet, "batch=4 tp=2"},
}};

/// What a run leaves: losses and norms of the steps, then all values of the final state.
struct Results {
  bool failed = false;
  std::vector<double> values;
};

constexpr int kSteps = 2;

/// The one place that knows how a program is run.
Results train(const Program& program, const Scenario& scenario) {
  RunOptions options;
  options.steps = kSteps;
  options.return_state = true;
  // Poisoned arenas: what is read before it is written is NaN, and so is all that follows.
  const auto run = make_cpu_backend({.poison = true})->run(program, scenario.cluster, options);
  Results results;
  if (!run) {
    results.failed = true;
    return results;
  }
  for (const StepResult& step : run->trace.steps) {
    results.values.push_back(step.loss);
    results.values.push_back(step.grad_norm);
  }
  for (const auto& [name, tensor] : run->state.tensors) {
    for (const double v : test::decoded(tensor.data, tensor.dtype)) results.values.push_back(v);
  }
  return results;
}

/// Sums in another order differ in their last bits.
bool alike(const Results& a, const Results& b) {
  if (a.failed || b.failed || a.values.size() != b.values.size()) return false;
  double scale = 0;
  for (const double v : b.values) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (std::isnan(a.values[i]) && std::isnan(b.values[i])) continue;
    if (!(std::abs(a.values[i] - b.values[i]) <= 1e-9 * (std::abs(b.values[i]) + 1e-3))) {
      return false;
    }
  }
  return true;
}

struct Count {
  int made = 0, refused = 0, harmless = 0, harmful = 0;
};

int wanted_mutants() {
  const char* given = std::getenv("LOCKSTEP_MUTANTS");
  return given != nullptr ? std::max(1, std::atoi(given)) : 2200;
}
unsigned first_seed() {
  const char* given = std::getenv("LOCKSTEP_MUTANT_SEED");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 1;
}

}  // namespace

TEST_CASE("no mutant that changes a result passes verify", "[mutants]") {
  std::array<Count, test::kNumMutantClasses> counts;
  std::mt19937 random(first_seed());
  const int per_layout = wanted_mutants() / static_cast<int>(kLayouts.size()) + 1;
  for (const Layout& layout : kLayouts) {
    const bool only = std::getenv("LOCKSTEP_MUTANT_LAYOUT") != nullptr &&
                      std::string(layout.keys) != std::getenv("LOCKSTEP_MUTANT_LAYOUT");
    if (only) continue;
    INFO(layout.keys);
    test::ParityRow row = test::parity_row(layout.keys, layout.keys);
    row.images = layout.architecture == Architecture::Resnet;
    const Scenario scenario = test::parity_scenario(layout.architecture, row, DType::F64);
    const auto lowered = lower(scenario);
    if (!lowered) FAIL(to_string(lowered.error()));
    const auto program = parse_program(print(*lowered));  // mutants are of printed programs
    REQUIRE(program.ok());
    REQUIRE(verify(*program).empty());
    const Results original = train(*program, scenario);
    REQUIRE_FALSE(original.failed);
    for (int i = 0; i < per_layout; ++i) {
      const auto which = static_cast<MutantClass>(i % test::kNumMutantClasses);
      std::optional<Mutant> mutant;
      for (int attempt = 0; attempt < 20 && !mutant; ++attempt) {
        mutant = test::mutate(*program, which, random);
      }
      if (!mutant) continue;
      Count& count = counts[static_cast<std::size_t>(which)];
      const auto parsed = parse_program(print(mutant->program));
      if (!parsed) continue;
      ++count.made;
      if (!verify(*parsed).empty()) {
        ++count.refused;
      } else if (alike(train(*parsed, scenario), original)) {
        ++count.harmless;
      } else {
        ++count.harmful;
        UNSCOPED_INFO(mutant->what);
        CHECK(mutant->what == "refused");
      }
    }
  }
  int made = 0;
  for (int c = 0; c < test::kNumMutantClasses; ++c) {
    const Count& n = counts[static_cast<std::size_t>(c)];
    made += n.made;
    std::printf("%-10s %5d made %5d refused %5d harmless %4d harmful\n",
                to_string(static_cast<MutantClass>(c)).c_str(), n.made, n.refused, n.harmless,
                n.harmful);
  }
  CHECK(made > 0);
}
