// Compressed communication: what is sent of codes (ZeRO++) and of products of low rank (PowerSGD),
// and closed forms of what they make of gradients. That layouts train alike is in the parity table,
// and that they train as PyTorch does in tests/oracle.
#include <cmath>
#include <map>

#include "backends/backends.hpp"
#include "core/base/block_codes.hpp"
#include "tests/integration/parity_runs.hpp"

using namespace lockstep;
using test::parity_row;
using test::parity_scenario;
using test::state_distance;
using test::train;

namespace {

const std::string kWeights = " zero_quantized_weights=true zero_quantized_block_size=4";
const std::string kGradients = " zero_quantized_gradients=true zero_quantized_block_size=4";
const std::string kLowRank = " power_sgd.matrix_approximation_rank=";

Scenario scenario_of(const std::string& keys, DType dtype = DType::F64) {
  return parity_scenario(Architecture::Llama, parity_row("", keys), dtype);
}
Program program_of(const std::string& keys) {
  auto program = lower(scenario_of(keys, DType::F32));
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

/// Whether an op gathers parameters, not squares of norms.
bool gathers(const Op& op) { return op.kind == OpKind::AllGather && op.stream == Stream::Gather; }

/// The bytes of the collectives of a kind of a role, unsharded, by group.
std::map<std::string, std::int64_t> bytes_of(const Program& program, const Role& role,
                                             OpKind kind) {
  std::map<std::string, std::int64_t> bytes;
  for (const Op& op : role.ops) {
    if (op.kind != kind || (kind == OpKind::AllGather && !gathers(op))) continue;
    bytes[program.group(op.group()).name] += payload_bytes(program, role, op).v;
  }
  return bytes;
}

std::int64_t calls(const Program& program, const Role& role, std::string_view prefix) {
  std::int64_t count = 0;
  for (const Op& op : role.ops) {
    count +=
        op.kind == OpKind::Call && program.function(op.function()).name.text().starts_with(prefix);
  }
  return count;
}

}  // namespace

TEST_CASE("a gather of codes sends a byte of every element and a scale of every block",
          "[integration]") {
  for (const int shards : {2, 3, 4}) {
    const std::string layout = "dp_shard=" + std::to_string(shards);
    const Program plain = program_of(layout), coded = program_of(layout + kWeights);
    const Role& role = coded.roles.front();
    std::int64_t expected = 0;
    for (const Op& op : role.ops) {
      if (op.kind != OpKind::Call) continue;
      const Kernel& kernel = coded.function(op.function()).kernels.front();
      if (kernel.kind != KernelKind::ToCodes) continue;
      const std::int64_t n = kernel.dims[0];
      CHECK(n % 4 == 0);
      expected += shards * (n + 4 * (n / 4));
    }
    const auto sent = bytes_of(coded, role, OpKind::AllGather);
    CHECK(sent == std::map<std::string, std::int64_t>{{"dp", expected}});
    // As many as of parameters in full.
    const auto& ops = plain.roles.front().ops;
    const auto wanted = std::count_if(ops.begin(), ops.end(), gathers);
    CHECK(calls(coded, role, "to_codes.") == wanted);
    CHECK(calls(coded, role, "from_codes.") == wanted);
  }
}

TEST_CASE(
    "an exchange of codes sends half a byte of every element, and shards once more if "
    "neighbours exchange first",
    "[integration]") {
  const std::string layout = "dp_shard=4 zero_stage=2" + kGradients;
  const Program once = program_of(layout);
  std::int64_t of_shard = 0, in_bytes = 0;  // of the shards of all units; codes fill whole words
  for (const Unit& unit : once.roles.front().units) {
    const std::int64_t n = unit.shard_elements;
    CHECK(n % 4 == 0);
    of_shard += (n + 7) / 8 * 4 + 4 * (n / 4);
    in_bytes += n + 4 * (n / 4);
  }
  CHECK(bytes_of(once, once.roles.front(), OpKind::AllToAll) ==
        std::map<std::string, std::int64_t>{{"dp", 4 * of_shard}});
  CHECK(bytes_of(once, once.roles.front(), OpKind::ReduceScatter).empty());
  // Inside a node all four shards are sent, between nodes the two that have the rank's place.
  const Program twice = program_of(layout + " zero_quantized_gradients_inner_degree=2");
  CHECK(
      bytes_of(twice, twice.roles.front(), OpKind::AllToAll) ==
      std::map<std::string, std::int64_t>{{"dp_inner", 4 * of_shard}, {"dp_outer", 2 * of_shard}});
  const Program eight = program_of(layout + " zero_quantized_gradients_bits=8");
  CHECK(bytes_of(eight, eight.roles.front(), OpKind::AllToAll)["dp"] == 4 * in_bytes);
}

TEST_CASE("ranks add up (n + m) r elements of a matrix, and others as they are", "[integration]") {
  for (const int rank : {1, 2, 4}) {
    const Program program = program_of("dp_replicate=2" + kLowRank + std::to_string(rank));
    std::int64_t expected = 4, kept = 0, factors = 0;  // with the loss
    for (const Unit& unit : program.roles.front().units) {
      for (const UnitParameter& part : unit.parameters) {
        const Parameter& parameter = program.parameters[part.parameter];
        const auto [rows, cols] = matrix_shape(parameter);
        const std::int64_t r = std::min<std::int64_t>(rank, std::min(rows, cols));
        const bool worth = 2 * (rows + cols) * r < rows * cols;
        CHECK(part.low_rank == (worth ? r : 0));
        expected += 4 * (worth ? (rows + cols) * r : parameter.elements());
        factors += worth ? 4 * cols * r : 0;
      }
      if (unit.has(StateKind::Feedback))
        kept += program.roles.front().buffer(unit.states[StateKind::Feedback]).bytes.v;
      if (unit.has(StateKind::Sketch))
        factors -= program.roles.front().buffer(unit.states[StateKind::Sketch]).bytes.v;
    }
    CHECK(factors == 0);
    CHECK(kept > 0);
    std::int64_t sent = 0;
    for (const auto& [group, bytes] : bytes_of(program, program.roles.front(), OpKind::AllReduce)) {
      sent += bytes;
    }
    CHECK(sent == expected);
  }
}

TEST_CASE("products of full rank are the gradients themselves", "[integration]") {
  const Scenario plain = scenario_of("dp_replicate=2");
  for (const char* feedback : {"true", "false"}) {
    const Scenario full =
        scenario_of("dp_replicate=2" + kLowRank + "1000 power_sgd.min_compression_rate=0.001" +
                    " power_sgd.use_error_feedback=" + feedback);
    const auto expected = train(plain), found = train(full);
    for (std::size_t i = 0; i < expected.run.trace.steps.size(); ++i) {
      CHECK(found.run.trace.steps[i].loss ==
            Approx(expected.run.trace.steps[i].loss).epsilon(1e-9));
      CHECK(found.run.trace.steps[i].grad_norm ==
            Approx(expected.run.trace.steps[i].grad_norm).epsilon(1e-7));
    }
  }
}

TEST_CASE("what ranks keep is what the product leaves out of the sum of their gradients",
          "[integration]") {
  // One step of SGD moves the weights by lr times the gradient. Where the product is the gradient
  // less what is kept, the weights differ by lr times that, summed over ranks.
  const std::string sgd =
      " optimizer.name=SGD optimizer.momentum=0 optimizer.weight_decay=0 training.max_norm=0"
      " lr_scheduler.warmup_steps=0";
  for (const int ranks : {1, 2, 3}) {
    const std::string layout = "dp_replicate=" + std::to_string(ranks) + sgd;
    const auto whole = train(scenario_of(layout), 1),
               low = train(scenario_of(layout + kLowRank + "1"), 1);
    const double lr = whole.run.trace.steps[0].lr;
    double most = 0;
    for (const auto& [name, kept] : low.run.state.tensors) {
      if (!name.starts_with("feedback0.")) continue;
      const std::string parameter = name.substr(10);
      const auto numbers = [](const TrainingState& state, const std::string& of) {
        const Tensor& tensor = state.tensors.at(of);
        return test::decoded(tensor.data, tensor.dtype);
      };
      test::Numbers sum = numbers(low.run.state, name);
      for (int rank = 1; rank < ranks; ++rank) {
        const auto other =
            numbers(low.run.state, "feedback" + std::to_string(rank) + "." + parameter);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
      }
      const auto a = numbers(low.run.state, parameter), b = numbers(whole.run.state, parameter);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        most = std::max(most, std::abs(sum[i]));
        CHECK(a[i] - b[i] == Approx(lr * sum[i]).margin(1e-14));
      }
    }
    CHECK(most > 1e-3);
  }
}

TEST_CASE("PowerSGD goes on to the last bit on as many ranks, and as one on others",
          "[integration]") {
  const auto part = [](const std::string& layout, int steps, const TrainingState* from) {
    return train(scenario_of(layout + kLowRank + "2"), steps, from).run.state;
  };
  const TrainingState whole = part("dp_replicate=3", 10, nullptr);
  const TrainingState first = part("dp_replicate=3", 6, nullptr);
  CHECK(first.tensors.contains("feedback2.blocks.0.attn.wqkv"));
  CHECK(first.tensors.at("sketch.blocks.0.attn.wqkv").shape == std::vector<std::int64_t>{24, 2});
  CHECK(part("dp_replicate=3", 4, &first) == whole);
  for (const char* other : {"", "dp_replicate=2", "dp_replicate=2 pp=2 mb=3"}) {
    INFO(other);
    CHECK(state_distance(part(other, 4, &first), whole) <= 1e-11);
  }
  // Training that has not compressed anything goes on compressed, and the reverse.
  const TrainingState plain = train(scenario_of("dp_replicate=2"), 6).run.state;
  CHECK(part("dp_replicate=2", 4, &plain).step == 10);
  CHECK(train(scenario_of("dp_replicate=2"), 4, &first).run.state.step == 10);
}

TEST_CASE("compressed communication is the same on the reference backend to 1e-11",
          "[integration]") {
  const auto reference = make_backend("reference");
  REQUIRE(reference.ok());
  for (const std::string& keys :
       {"dp_shard=2" + kWeights, "dp_shard=4 zero_quantized_gradients_inner_degree=2" + kGradients,
        "dp_replicate=2" + kLowRank + "2"}) {
    INFO(keys);
    const auto cpu = train(scenario_of(keys), 3);
    const auto other = train(scenario_of(keys), 3, nullptr, reference->get());
    CHECK(state_distance(other.run.state, cpu.run.state) <= 1e-11);
  }
}
