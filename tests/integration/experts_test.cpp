// Compares mixtures of experts with the dense models to which they are equal in special cases, and
// simulates them at the scale for which expert parallelism is meant.
#include <array>
#include <cstring>
#include <random>
#include <set>

#include "backends/backends.hpp"
#include "core/cost/collective.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"
#include "tests/integration/parity_runs.hpp"
#include "tests/integration/parity_table.hpp"

using namespace lockstep;
using test::lowered;
using test::parity_row;
using test::parity_scenario;

namespace {

TrainingState random_state(const Program& program) {
  TrainingState state;
  std::mt19937 random(5);
  std::normal_distribution<double> values(0, 0.1);
  for (const Parameter& p : program.parameters) {
    Tensor tensor{DType::F64, p.shape, {}};
    tensor.data.resize(static_cast<std::size_t>(p.elements()) * 8);
    for (std::size_t i = 0; i < tensor.data.size(); i += 8) {
      const double value = values(random) + (p.init == InitKind::Ones ? 1 : 0);
      std::memcpy(&tensor.data[i], &value, 8);
    }
    state.tensors.emplace(p.name, std::move(tensor));
  }
  return state;
}

/// A state of the mixture in which every expert is the feed-forward network of the dense model. If
/// its router has biases, they make every token choose the first expert.
TrainingState with_equal_experts(const Program& mixture, const TrainingState& dense) {
  TrainingState state = random_state(mixture);
  const std::string inner = ".moe.experts.";
  const double large = 100;
  for (auto& [name, tensor] : state.tensors) {
    const auto at = name.find(inner);
    if (at == std::string::npos) {
      if (dense.tensors.count(name) > 0) tensor = dense.tensors.at(name);
      if (name.ends_with(".router_bias")) std::memcpy(tensor.data.data(), &large, 8);
      continue;
    }
    const Tensor& one =
        dense.tensors.at(name.substr(0, at) + ".mlp." + name.substr(at + inner.size()));
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      tensor.data[i] = one.data[i % one.data.size()];
    }
  }
  return state;
}

/// A state of the mixture in which the shared expert is `factor` times the feed-forward network of
/// the dense model and all other weights of the mixture, that of its gate among them, are zero.
/// Experts have the bias that a shared expert lacks.
TrainingState with_shared_network(const Program& mixture, const TrainingState& dense,
                                  double factor) {
  TrainingState state = random_state(mixture);
  for (auto& [name, tensor] : state.tensors) {
    const auto moe = name.find(".moe."), shared = name.find(".moe.shared.");
    const bool bias = name.ends_with(".moe.experts.bproj");
    const std::string rest = moe == std::string::npos ? name
                             : bias                   ? name.substr(0, moe) + ".mlp.bproj"
                             : shared == std::string::npos
                                 ? ""
                                 : name.substr(0, shared) + ".mlp." + name.substr(shared + 12);
    if (rest.empty()) {
      tensor.data.assign(tensor.data.size(), std::byte{0});
      continue;
    }
    tensor.data = dense.tensors.at(rest).data;
    if (!name.ends_with(".moe.shared.w2") && !name.ends_with(".moe.shared.wproj")) continue;
    for (std::size_t i = 0; i < tensor.data.size(); i += 8) {
      double value;
      std::memcpy(&value, &tensor.data[i], 8);
      value *= factor;
      std::memcpy(&tensor.data[i], &value, 8);
    }
  }
  return state;
}

std::vector<StepResult> train(const Scenario& s, const Program& program, const TrainingState& from,
                              int steps) {
  auto backend = make_backend("cpu");
  REQUIRE(backend.ok());
  RunOptions options;
  options.steps = steps;
  options.initial_state = &from;
  auto run = (*backend)->run(program, s.cluster, options);
  if (!run) FAIL(to_string(run.error()));
  return run->trace.steps;
}

}  // namespace

TEST_CASE("a mixture of one expert trains as the dense model, of equal ones computes as it",
          "[integration]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const auto scenario = [&](const char* keys) {
      return parity_scenario(architecture, parity_row("", keys), DType::F64);
    };
    const Scenario plain = scenario("");
    const Program dense = lowered(plain);
    const TrainingState state = random_state(dense);
    const std::vector<StepResult> expected = train(plain, dense, state, 5);
    const auto steps = [&](const char* keys, int count) {
      INFO(keys);
      const Scenario s = scenario(keys);
      const Program program = lowered(s);
      return train(s, program, with_equal_experts(program, state), count);
    };
    // One expert: its gate is 1, and the router learns nothing.
    const auto one = steps("model.experts=1 model.experts_per_token=1", 5);
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK(one[i].loss == Approx(expected[i].loss).epsilon(1e-12));
      CHECK(one[i].grad_norm == Approx(expected[i].grad_norm).epsilon(1e-11));
    }
    // Equal experts: gates add up to 1 whoever is chosen, as long as all find room, even if all
    // choose one.
    const std::string biased = " model.experts=4 model.router_bias_update_rate=1";
    for (const std::string& keys : {biased + " model.capacity_factor=0",
                                    biased + " model.capacity_factor=0 dp_shard=4 ep=4"}) {
      CHECK(steps(keys.c_str(), 1)[0].loss == Approx(expected[0].loss).epsilon(1e-12));
    }
    CHECK(std::abs(steps((biased + " model.capacity_factor=1.25").c_str(), 1)[0].loss -
                   expected[0].loss) > 1e-6);
    for (const char* keys : {"model.experts=4 model.capacity_factor=0",
                             "model.experts=5 model.experts_per_token=3 model.capacity_factor=0",
                             "model.experts=4 model.capacity_factor=0 dp_shard=4 ep=2"}) {
      CHECK(steps(keys, 1)[0].loss == Approx(expected[0].loss).epsilon(1e-12));
    }
    CHECK(std::abs(steps("model.experts=4 model.capacity_factor=0.5", 1)[0].loss -
                   expected[0].loss) > 1e-6);
  }
}

TEST_CASE("experts that drop no token compute what experts with room for all of them do",
          "[integration]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const std::string layout :
         {"", "dp_shard=4 ep=4", "dp_shard=4 ep=2 accumulation=3 model.router_aux_loss_coef=0.1",
          "tp=2 enable_sequence_parallel=true ep=2 expert_parallel_folding=true",
          "dp_shard=2 ep=2 pp=2 mb=3 model.router_bias_update_rate=0.01"}) {
      INFO(layout);
      const auto trained = [&](const std::string& factor) {
        const std::string keys = layout + " model.experts=4 model.capacity_factor=" + factor;
        return test::train(parity_scenario(architecture, parity_row("", keys), DType::F64));
      };
      const test::Distance d = test::distance(trained("0"), trained("2"));  // experts / choices
      CHECK(d.loss < 1e-12);
      CHECK(d.weights < 1e-12);
    }
  }
}

TEST_CASE("a rank without room for the rows that come ends the run, and room for them does not",
          "[integration]") {
  const auto run = [](const char* name, const std::string& factor) {
    const Scenario s =
        parity_scenario(Architecture::Llama,
                        parity_row("",
                                   "dp_shard=4 ep=4 model.experts=8 model.capacity_factor=0 "
                                   "model.expert_rank_capacity_factor=" +
                                       factor),
                        DType::F32);
    auto backend = make_backend(name);
    REQUIRE(backend.ok());
    RunOptions options;
    options.steps = 2;
    return (*backend)->run(lowered(s), s.cluster, options);
  };
  for (const char* name : {"cpu", "reference"}) {
    const auto ended = run(name, "1");  // only a router that is even to the last row needs no more
    REQUIRE_FALSE(ended.ok());
    CHECK(ended.error().kind == ErrorKind::InvalidSpec);
    const std::string& message = ended.error().message;
    CHECK_THAT(message, ContainsSubstring("rows come to the experts of rank"));
    const std::string before = "model.expert_rank_capacity_factor must be at least ";
    const std::size_t at = message.find(before);
    REQUIRE(at != std::string::npos);
    CHECK(std::stod(message.substr(at + before.size())) > 1);
    CHECK(run(name, "4").ok());  // all that can come
  }
}

TEST_CASE("a shared expert beside one that gives nothing trains as the dense model",
          "[integration]") {
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const auto scenario = [&](const std::string& keys) {
      return parity_scenario(architecture, parity_row("", keys), DType::F64);
    };
    const Scenario plain = scenario("");
    const Program dense = lowered(plain);
    TrainingState state = random_state(dense);
    for (auto& [name, tensor] : state.tensors) {  // or an expert of width 0 would learn from it
      if (name.ends_with("mlp.bfc")) tensor.data.assign(tensor.data.size(), std::byte{0});
    }
    const std::vector<StepResult> expected = train(plain, dense, state, 5);
    const std::string shared =
        "model.experts=1 model.experts_per_token=1 model.capacity_factor=0 "
        "model.shared_expert_hidden=" +
        std::to_string(plain.model.ffn_hidden);
    const auto steps = [&](const std::string& keys, double factor, int count) {
      const Scenario s = scenario(shared + keys);
      const Program program = lowered(s);
      return train(s, program, with_shared_network(program, state, factor), count);
    };
    const auto one = steps("", 1, 5);
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK(one[i].loss == Approx(expected[i].loss).epsilon(1e-12));
      CHECK(one[i].grad_norm == Approx(expected[i].grad_norm).epsilon(1e-11));
    }
    // A gate whose weights are 0 is half open.
    const auto gated = steps(" model.shared_expert_gate=true", 2, 1);
    CHECK(gated[0].loss == Approx(expected[0].loss).epsilon(1e-12));
    CHECK(std::abs(steps(" model.shared_expert_gate=true", 1, 1)[0].loss - expected[0].loss) >
          1e-6);
  }
}

TEST_CASE("experts resume on ranks that divide them otherwise", "[integration]") {
  const auto part = [](const char* layout, int steps, const TrainingState* from) {
    // If there is room for all tokens, microbatches make no difference.
    const std::string keys = std::string("model.experts=4 model.capacity_factor=0 ") + layout;
    const Scenario s = parity_scenario(Architecture::Llama, parity_row("", keys), DType::F64);
    const Program program = lowered(s);
    auto backend = make_backend("cpu");
    REQUIRE(backend.ok());
    RunOptions options;
    options.steps = steps;
    options.return_state = true;
    options.initial_state = from;
    auto run = (*backend)->run(program, s.cluster, options);
    if (!run) FAIL(to_string(run.error()));
    return std::move(*run);
  };
  const RunResult whole = part("", 6, nullptr);
  const RunResult first = part("dp_shard=4 ep=2", 3, nullptr);
  for (const char* layout : {"", "dp_shard=4 ep=4", "dp_shard=2 ep=2 pp=2 mb=3", "dp_shard=3",
                             "dp_shard=4 ep=2 zero_stage=0",
                             ("tp=2 enable_sequence_parallel=true dp_shard=2 ep=4 "
                              "expert_parallel_folding=true"),
                             ("tp=2 enable_sequence_parallel=true dp_shard=4 ep=2 "
                              "expert_tensor_parallel_degree=2"),
                             ("tp=2 enable_sequence_parallel=true dp_shard=3 "
                              "expert_tensor_parallel_degree=2")}) {
    INFO(layout);
    const RunResult second = part(layout, 3, &first.state);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(second.trace.steps[i].loss == Approx(whole.trace.steps[i + 3].loss).epsilon(1e-11));
      CHECK(second.trace.steps[i].grad_norm ==
            Approx(whole.trace.steps[i + 3].grad_norm).epsilon(1e-10));
    }
  }
}

namespace {

/// How often each expert of a block was chosen in the last step of a training.
test::Numbers last_load(const TrainingState& state, int block) {
  const Tensor& load =
      state.tensors.at("adam_m.blocks." + std::to_string(block) + ".moe.router_bias");
  return test::decoded(load.data, load.dtype);
}

}  // namespace

TEST_CASE("biases even out the choices of a router that does not learn", "[integration]") {
  for (const char* layout : {"", "dp_shard=2 ep=2", "dp_replicate=2 accumulation=3"}) {
    INFO(layout);
    Scenario s = parity_scenario(
        Architecture::Llama,
        parity_row("", std::string(layout) + " model.experts=4 model.capacity_factor=0 "
                                             "model.router_bias_update_rate=0.01"),
        DType::F64);
    s.optimizer.lr = 0;
    const auto choices = double(s.global_batch_size()) * double(s.training.seq_len) * 2;
    // A bias of 1 makes every token choose the first expert, for its first or second choice.
    TrainingState state = test::train(s, 1).run.state;
    const double one = 1;
    for (int block = 0; block < s.model.layers; ++block) {
      Tensor& bias = state.tensors.at("blocks." + std::to_string(block) + ".moe.router_bias");
      std::memcpy(bias.data.data(), &one, 8);
    }
    const auto unevenness = [&](int steps) {
      const test::Outcome trained = test::train(s, steps, &state);
      double largest = 0;
      for (int block = 0; block < s.model.layers; ++block) {
        double all = 0, most = 0;
        for (const double load : last_load(trained.run.state, block)) {
          all += load;
          most = std::max(most, load);
        }
        CHECK(all == choices);  // of all ranks and microbatches
        largest = std::max(largest, most * 4 / all - 1);
      }
      return largest;
    };
    CHECK(unevenness(1) == 1);
    // One goes down by 0.01 in a step and the others up: after 50 steps they meet.
    CHECK(unevenness(40) > 0.9);
    CHECK(unevenness(60) < 0.6);
  }
}

TEST_CASE("a training without biases goes on with them, from 0", "[integration]") {
  const auto scenario = [&](const char* keys) {
    return parity_scenario(Architecture::Gpt2,
                           parity_row("", std::string("dp_shard=2 model.experts=4 ") + keys),
                           DType::F64);
  };
  const test::Outcome first = test::train(scenario(""), 2);
  const test::Outcome plain = test::train(scenario(""), 2, &first.run.state);
  const test::Outcome biased =
      test::train(scenario("model.router_bias_update_rate=10"), 2, &first.run.state);
  CHECK(biased.run.trace.steps[0].loss == plain.run.trace.steps[0].loss);
  CHECK(biased.run.trace.steps[0].grad_norm == plain.run.trace.steps[0].grad_norm);
  // A bias of 10 decides alone from then on.
  CHECK(biased.run.trace.steps[1].loss != plain.run.trace.steps[1].loss);
}

TEST_CASE("the busiest rank's products and tokens take as much longer as its load is larger",
          "[integration]") {
  const auto simulate = [](const std::string& imbalance, const std::string& capacity) {
    const LoadedScenario loaded = load_scenario(
        std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/what-if/uneven-router-mixtral-64xh100.toml",
        {"model.router_imbalance=" + imbalance, "model.capacity_factor=" + capacity});
    REQUIRE(loaded.ok());
    const Scenario& s = loaded.points.front().scenario;
    const Program program = lowered(s);
    std::int64_t sent = 0, kept = 0;
    for (const Op& op : program.roles[0].ops) {
      if (op.kind == OpKind::AllToAllRows ||
          (op.kind == OpKind::AllToAll && s.model.capacity_factor > 0))
        sent += payload_bytes(program, program.roles[0], op).v;
    }
    double products = 0;
    for (const Function& function : program.functions) {
      for (const Kernel& kernel : function.kernels) {
        const bool product =
            kernel.kind == KernelKind::GroupedGemm || kernel.kind == KernelKind::RaggedGemm;
        if (product) products += work(kernel).flops.v;
      }
    }
    auto backend = make_backend("sim");
    REQUIRE(backend.ok());
    const auto run = (*backend)->run(program, s.cluster, {});
    REQUIRE(run.ok());
    SimTime end{};
    for (const Span& span : run->trace.spans) end = std::max(end, span.end);
    kept = program.roles[0].arena.v;
    return std::array{double(sent), products, double(end.count()), double(kept)};
  };
  const auto even = simulate("1", "0"), half = simulate("1.5", "0"), twice = simulate("2", "0");
  // 8192 tokens choose two of eight experts; six all-to-alls for each of 32 blocks.
  CHECK(even[0] == 32.0 * 6 * 8192 * 2 * 4096 * 2);
  CHECK(half[0] == 1.5 * even[0]);
  CHECK(twice[0] == 2 * even[0]);
  CHECK(half[1] == 1.5 * even[1]);
  CHECK(twice[2] > half[2]);
  CHECK(half[2] > even[2]);
  CHECK(twice[2] < 2 * even[2]);  // attention has no part in it
  CHECK(twice[3] > even[3]);
  // With room for a quarter more, what is beyond is dropped.
  const auto dropped = simulate("2", "1.25"), quarter = simulate("1.25", "0");
  CHECK(dropped[0] == quarter[0]);
  CHECK(dropped[1] == quarter[1]);
  CHECK(dropped[2] == Approx(quarter[2]).epsilon(0.01));  // counts are exchanged before
}

TEST_CASE("Mixtral 8x7B on 64 GPUs exchanges its tokens inside the nodes", "[integration]") {
  const LoadedScenario loaded = load_scenario(
      std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/experts/mixtral-8x7b-ep8-fsdp-64xh100.toml",
      {});
  REQUIRE(loaded.ok());
  const Scenario& s = loaded.points.front().scenario;
  const Program program = lowered(s);
  auto backend = make_backend("sim");
  REQUIRE(backend.ok());
  const auto run = (*backend)->run(program, s.cluster, {});
  REQUIRE(run.ok());
  const std::set<Rank> shown(run->trace.same_as.begin(), run->trace.same_as.end());
  CHECK(shown.size() == 1);  // all ranks do the same
  // 8192 tokens choose two of eight experts, with a quarter more room: bfloat16 values.
  const std::int64_t bytes = 8 * 2560 * std::int64_t{4096} * 2;
  const double seconds =
      collective_time(OpKind::AllToAll, Bytes{bytes}, 8,
                      group_links(s.cluster, {0, 1, 2, 3, 4, 5, 6, 7}), s.cluster)
          .time.total()
          .v;
  int count = 0;
  for (const Span& span : run->trace.spans) {
    const Role& role = program.role_of(span.rank);
    const Op& op = role.op(span.op);
    if (op.kind != OpKind::AllToAll) continue;
    CHECK(payload_bytes(program, role, op).v == bytes);
    const double took = double((span.end - span.active).count()) * 1e-12;
    CHECK(took > 0.999 * seconds);
    CHECK(took < 2.1 * seconds);  // gathers of parameters beside it take half of its links
    ++count;
  }
  CHECK(count == 32 * 6);  // to the experts and back: forward, again, backward
}

TEST_CASE("the auxiliary loss balances the tokens of a microbatch together, on whatever ranks",
          "[integration]") {
  // A part of the tokens has other shares of the choices: balanced by themselves, parts train
  // otherwise, by about 1e-4 of the loss.
  const std::string balanced =
      " model.experts=4 model.capacity_factor=0 model.router_aux_loss_coef=0.1";
  for (const Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    test::References references(architecture, DType::F64);
    for (const std::string keys :
         {"tp=2 enable_sequence_parallel=true", "cp=2",
          "tp=2 enable_sequence_parallel=true cp=2 model.kv_heads=4",
          "dp_shard=2 ep=2 tp=2 enable_sequence_parallel=true", "dp_shard=2 ep=2 cp=2",
          "pp=2 mb=3 tp=2 enable_sequence_parallel=true activation_checkpoint.mode=full",
          "pp=2 mb=3 pipeline_parallel_schedule=ZB-H1 cp=2"}) {
      INFO(keys);
      const test::ParityRow row = parity_row("", keys + balanced);
      const test::Distance d = test::distance(
          test::train(parity_scenario(architecture, row, DType::F64)), references.of(row));
      CHECK(d.loss < 1e-11);
      CHECK(d.weights < 1e-11);
    }
  }
}
