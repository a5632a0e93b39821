// verify against mutants: programs of every strategy with one fault each. What verify accepts is
// trained, and must train as the original does.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "backends/cpu/cpu_backend.hpp"
#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "core/lower/lower.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/integration/kernel_conformance.hpp"
#include "tests/integration/parity_table.hpp"
#include "tests/mutants/mutations.hpp"
#include "tests/mutants/relax.hpp"

using namespace lockstep;
using test::Mutant;
using test::MutantClass;

namespace {

struct Layout {
  Architecture architecture;
  const char* keys;
};

// The layouts cover every strategy and every schedule, each as small as it can be.
constexpr Architecture kGpt2 = Architecture::Gpt2, kLlama = Architecture::Llama,
                       kResnet = Architecture::Resnet, kVit = Architecture::Vit;
constexpr std::array kLayouts = std::to_array<Layout>({
    {kGpt2, "batch=4 accumulation=2"},
    {kLlama, "batch=4 dp_replicate=2 accumulation=2"},
    {kGpt2, "batch=4 dp_replicate=2 gradient_as_bucket_view=false"},
    {kLlama, "batch=4 dp_shard=2 zero_stage=1 overlap_param_gather=true"},
    {kGpt2, "batch=4 dp_replicate=2 dp_shard=2 zero_stage=1"},
    {kGpt2, "batch=4 dp_shard=2 zero_stage=2 offload=optimizer"},
    {kLlama, "batch=4 dp_shard=2 accumulation=2 offload=parameters"},
    {kLlama, "batch=4 dp_shard=2 accumulation=2 accumulate_sharded_gradients=never"},
    {kGpt2, "batch=4 dp_shard=4 fsdp_reshard_degree=2"},
    {kGpt2, "batch=4 dp_replicate=2 dp_shard=2"},
    {kLlama, "batch=2 dp_shard=2 activation_checkpoint.mode=full"},
    {kGpt2,
     "batch=4 accumulation=2 activation_checkpoint.mode=selective "
     "activation_checkpoint.selective_ac_option=op"},
    {kGpt2, "batch=4 pp=2 mb=4 schedule=GPipe"},
    {kGpt2, "batch=4 pp=2 mb=4"},
    {kLlama, "batch=4 pp=2 mb=4 schedule=Interleaved1F1B v=2"},
    {kGpt2, "batch=4 pp=2 mb=4 schedule=LoopedBFS v=2"},
    {kGpt2, "batch=4 pp=2 mb=4 schedule=ZB-H1"},
    {kLlama, "batch=4 pp=2 mb=4 schedule=ZB-H2"},
    {kGpt2, "batch=4 pp=2 mb=4 schedule=InterleavedZeroBubble v=2"},
    {kLlama, "batch=4 pp=2 mb=4 schedule=ZBVZeroBubble v=2"},
    {kGpt2, "batch=4 pp=2 mb=4 schedule=DualPipeV v=2"},
    {kLlama, "batch=4 pp=2 mb=4 schedule=ZB-1p"},
    {kGpt2, "batch=4 pp=2 mb=4 schedule=ZB-2p"},
    {kGpt2, "batch=4 pp=2 mb=4 schedule=DualPipe"},
    {kLlama, "batch=4 pp=2 mb=4 schedule=V-Half v=2"},
    {kGpt2, "batch=4 pp=2 mb=4 schedule=V-Min v=2"},
    {kLlama, "batch=4 pp=2 mb=4 schedule=ZB-V v=2"},
    {kLlama, "batch=4 pp=2 mb=4 schedule=PipeDream training.max_norm=0"},
    {kLlama, "batch=4 pp=2 mb=4 schedule=PipeDream-2BW training.max_norm=0"},
    {kLlama, "batch=4 pp=2 mb=4 pipeline_parallel_p2p=fused"},
    {kGpt2, "batch=4 pp=2 mb=4 vocabulary_parallel_pipeline=true"},
    {kLlama,
     "batch=4 pp=2 mb=4 tp=2 enable_sequence_parallel=true vocabulary_parallel_pipeline=true"},
    {kGpt2, "batch=4 dp_shard=2 pp=2 mb=2"},
    {kGpt2, "batch=2 tp=2"},
    {kLlama, "batch=2 tp=2 enable_sequence_parallel=true"},
    {kGpt2, "batch=2 tp=2 enable_sequence_parallel=true tensor_parallel_chunks=2"},
    {kGpt2, "batch=4 tp=2 dp_shard=2"},
    {kLlama, "batch=2 tp=2 enable_sequence_parallel=true pp=2 mb=2 schedule=ZB-H1"},
    {kLlama, "batch=4 tp=2 dp_replicate=2 model.kv_heads=1"},
    {kLlama, "batch=2 tp=4 enable_sequence_parallel=true model.kv_heads=2"},
    {kGpt2, "batch=2 cp=2"},
    {kLlama, "batch=2 cp=2 context_parallel_method=allgather"},
    {kLlama, "batch=2 cp=3 context_parallel_method=ring training.seq_len=12"},
    {kGpt2, "batch=2 cp=4 context_parallel_method=ring context_parallel_ulysses_degree=2"},
    {kGpt2, "batch=4 cp=2 dp_shard=2"},
    {kLlama, "batch=4 dp_shard=2 ep=2 model.experts=4"},
    {kGpt2, "batch=4 dp_shard=2 accumulation=2 model.experts=4 model.router_bias_update_rate=0.01"},
    {kGpt2,
     "batch=4 dp_shard=2 ep=2 tp=2 enable_sequence_parallel=true model.experts=4 "
     "model.capacity_factor=0 model.router_aux_loss_coef=0.1"},
    {kLlama, "batch=2 cp=2 model.experts=4 model.capacity_factor=0"},
    {kLlama,
     "batch=4 tp=2 enable_sequence_parallel=true dp_shard=2 ep=4 expert_parallel_folding=true "
     "model.experts=4 model.capacity_factor=0"},
    {kGpt2,
     "batch=2 cp=2 ep=2 expert_parallel_folding=true model.experts=4 model.capacity_factor=0"},
    {kGpt2,
     "batch=4 tp=2 enable_sequence_parallel=true dp_shard=2 training.residual_dropout=0.1 "
     "training.embedding_dropout=0.1"},
    {kLlama, "batch=2 cp=2 pp=2 mb=2 training.residual_dropout=0.1"},
    {kGpt2, "batch=2 tp=2 training.attention_dropout=0.3"},
    {kGpt2, "batch=2 tp=2 dp_shard=2 training.fp8=hybrid training.fp8_block_size=2"},
    {kGpt2,
     "batch=2 tp=2 dp_shard=2 training.fp8=hybrid training.fp8_recipe=delayed "
     "training.fp8_amax_history_len=2"},
    {kGpt2,
     "batch=2 cp=4 context_parallel_method=ring context_parallel_ulysses_degree=2 "
     "training.attention_dropout=0.3"},
    {kResnet, "batch=4 dp_replicate=2 sync_batch_norm=true"},
    {kResnet, "batch=4 dp_shard=2 accumulation=2"},
    {kResnet, "batch=4 tp=2"},
    {kResnet, "batch=4 pp=2 mb=2"},
    {kVit, "batch=4 dp_shard=2 accumulation=2"},
    {kVit, "batch=4 tp=2 pp=2 mb=2"},
    {kGpt2, "batch=4 dp_shard=2 zero_stage=1 optimizer.name=Muon"},
    {kLlama, "batch=4 tp=2 dp_shard=2 optimizer.name=Muon optimizer.weight_decay_on=matrices"},
    {kLlama, "batch=4 dp_shard=2 ep=2 model.experts=4 optimizer.name=Muon"},
    {kGpt2, "batch=4 dp_replicate=2 local_sgd.method=diloco local_sgd.sync_steps=2"},
    {kLlama,
     "batch=4 dp_replicate=2 dp_shard=2 zero_stage=1 local_sgd.method=local_sgd "
     "local_sgd.sync_steps=1"},
    {kLlama,
     "batch=4 dp_replicate=2 tp=2 pp=2 mb=2 local_sgd.method=diloco local_sgd.sync_steps=1 "
     "local_sgd.offload=true"},
    {kGpt2, "batch=4 dp_shard=2 zero_quantized_weights=true zero_quantized_block_size=4"},
    {kLlama,
     "batch=4 dp_shard=4 fsdp_reshard_degree=2 zero_quantized_weights=true "
     "zero_quantized_gradients=true zero_quantized_block_size=4"},
    {kLlama, "batch=4 dp_replicate=2 accumulation=2 power_sgd.matrix_approximation_rank=2"},
    {kGpt2, "batch=4 dp_shard=2 zero_stage=1 optimizer.name=Adafactor"},
    {kLlama, "batch=4 tp=2 dp_shard=2 optimizer.name=Adafactor optimizer.first_moment_decay=0.9"},
    {kLlama, "batch=4 dp_shard=2 ep=2 model.experts=4 optimizer.name=Adafactor"},
});

Scenario scenario_of(const Layout& layout) {
  test::ParityRow row = test::parity_row(layout.keys, layout.keys);
  row.images = layout.architecture == Architecture::Resnet;
  Scenario scenario = test::parity_scenario(layout.architecture, row, DType::F64);
  for (const Fault& fault : validate(scenario)) FAIL(fault.error.message);
  return scenario;
}

Program lowered(const Layout& layout) {
  auto program = lower(scenario_of(layout));
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

/// What a run leaves: losses and norms of the steps, then all values of the final state.
struct Results {
  bool failed = false;
  std::vector<double> values;
};

constexpr int kSteps = 2;

/// Trains a program for kSteps. Nothing else here knows how a program is run.
Results train(const Program& program, const Scenario& scenario) {
  RunOptions options;
  options.steps = kSteps;
  options.return_state = true;
  // Arenas are poisoned: what is read before it is written is NaN, and so is all that follows.
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

/// Whether two runs have the same results. Their last bits may differ, because sums may be taken in
/// another order.
bool alike(const Results& a, const Results& b) {
  if (a.failed || b.failed || a.values.size() != b.values.size()) return false;
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

int number(const char* variable, int otherwise) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::atoi(given) : otherwise;
}

}  // namespace

TEST_CASE("no mutant that changes a result passes verify", "[mutants]") {
  const int wanted = number("LOCKSTEP_MUTANTS", 2300), seed = number("LOCKSTEP_MUTANT_SEED", 1);
  const int only = number("LOCKSTEP_MUTANT_LAYOUT", -1);
  IndexArray<MutantClass, Count, test::kNumMutantClasses> counts;
  std::vector<std::string> harmful;
  const int layouts = static_cast<int>(kLayouts.size());
  int relaxing = 0;
  for (int l = 0; l < layouts; ++l) {
    if (only >= 0 && l != only) continue;
    const Layout& layout = kLayouts[to_size(l)];
    INFO(layout.keys);
    const Scenario scenario = scenario_of(layout);
    Program given = lowered(layout);
    if (number("LOCKSTEP_MUTANT_OWN", 0) != 0) {  // verify then knows less of them
      given.emitted = 0;
      for (Function& f : given.functions) f.emitted = 0;
    }
    const auto program = parse_program(print(given));  // mutants are made of printed programs
    REQUIRE(program.ok());
    REQUIRE(verify(*program).empty());
    const Results original = train(*program, scenario);
    REQUIRE_FALSE(original.failed);
    const bool relaxes = verify(test::relaxed(*program)).empty();  // some schedules would deadlock
    relaxing += relaxes ? 1 : 0;
    if (relaxes) CHECK(alike(train(test::relaxed(*program), scenario), original));
    for (int n = l; n < wanted; n += layouts) {
      // Every mutant has a seed of its own, so that a run of one layout makes the same ones again.
      std::seed_seq seeds{seed, n};
      std::mt19937 random(seeds);
      const auto which = static_cast<MutantClass>((n / layouts + l) % test::kNumMutantClasses);
      std::optional<Mutant> mutant;
      for (int attempt = 0; attempt < 20 && !mutant; ++attempt) {
        mutant = test::mutate(*program, which, random);
      }
      if (!mutant) continue;
      Count& count = counts[which];
      ++count.made;
      if (relaxes && n / layouts / test::kNumMutantClasses % 2 == 0) {
        mutant->program = test::relaxed(std::move(mutant->program));
        mutant->what += ", relaxed";
      }
      const auto parsed = parse_program(print(mutant->program));
      if (!parsed || !verify(*parsed).empty()) {
        ++count.refused;
      } else if (alike(train(*parsed, scenario), original)) {
        ++count.harmless;
      } else {
        ++count.harmful;
        harmful.push_back("layout " + std::to_string(l) + " (" + layout.keys + "), " +
                          std::string(to_string(which)) + " " + std::to_string(n) + ": " +
                          mutant->what);
      }
    }
  }
  std::printf("%d of %d layouts relax\n", relaxing, layouts);
  std::printf("seed %d\n%-10s %6s %8s %9s %8s\n", seed, "class", "made", "refused", "harmless",
              "harmful");
  Count all;
  for (const MutantClass c : counts.ids()) {
    const Count& n = counts[c];
    all = {all.made + n.made, all.refused + n.refused, all.harmless + n.harmless,
           all.harmful + n.harmful};
    std::printf("%-10s %6d %8d %9d %8d\n", to_string(c).data(), n.made, n.refused, n.harmless,
                n.harmful);
  }
  std::printf("%-10s %6d %8d %9d %8d\n", "all", all.made, all.refused, all.harmless, all.harmful);
  for (const std::string& one : harmful) {
    std::printf("%s\n", one.c_str());
    UNSCOPED_INFO(one);
  }
  CHECK(all.made > 0);
  if (only < 0) CHECK(relaxing > layouts / 2);
  CHECK(harmful.empty());
}

TEST_CASE("whatever functions are declared the user's own, a sound program stays sound",
          "[mutants]") {
  for (const Layout& layout : kLayouts) {
    INFO(layout.keys);
    Program program = lowered(layout);
    for (std::size_t f = 0; f <= program.functions.size(); ++f) {
      Program own = program;
      for (std::size_t g = 0; g < own.functions.size(); ++g) {
        if (g == f || f == own.functions.size()) own.functions[g].emitted = 0;
      }
      const std::vector<Error> faults = verify(own);
      INFO((f < own.functions.size() ? own.functions[f].name : "all"));
      CHECK((faults.empty() ? "sound" : faults.front().message) == "sound");
    }
  }
}
