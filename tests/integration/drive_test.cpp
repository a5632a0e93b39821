// Tests states on drives: every layout trains to the same bits as with states in host memory, goes
// on from a checkpoint, and takes the time that the drives of a node need.
#include <algorithm>
#include <filesystem>
#include <map>

#include "backends/backends.hpp"
#include "backends/reference/reference_backend.hpp"
#include "backends/sim/engine.hpp"
#include "core/ir/text/text.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/integration/parity_runs.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;
using test::Outcome;
using test::parity_row;
using test::parity_scenario;
using test::train;

namespace {

const std::string kStatesAway = " offload_optimizer_device=nvme";
const std::string kAll = kStatesAway + " offload_param_device=nvme";

Scenario scenario(const std::string& keys, DType dtype = DType::F32) {
  return parity_scenario(Architecture::Llama, parity_row("", keys), dtype);
}

RunOptions options(int steps, const std::string& folder) {
  RunOptions o;
  o.steps = steps;
  o.return_state = true;
  o.drive_folder = folder;
  return o;
}

}  // namespace

TEST_CASE("states on a drive and in host memory train to the same bits", "[integration]") {
  for (const std::string layout :
       {"dp_shard=2", "dp_shard=3 accumulation=2", "dp_shard=2 pp=2 mb=3", "dp_shard=2 tp=2",
        "dp_shard=2 training.mixed_precision_param=bfloat16",
        "dp_shard=2 optimizer.state_dtype=uint8", "dp_shard=2 optimizer.name=SGD"}) {
    INFO(layout);
    const Outcome host = train(scenario(layout + " offload=parameters"));
    check_same_bits(host, train(scenario(layout + " offload=parameters" + kStatesAway)));
    check_same_bits(host, train(scenario(layout + " offload=parameters" + kAll)));
    for (const char* how :
         {"", " offload_pipeline_read=false", " offload_pipeline_write=false",
          " offload_pipeline_read=false offload_pipeline_write=false", " offload_buffer_count=4"}) {
      INFO(how);
      check_same_bits(host, train(scenario(layout + " offload=optimizer" + kStatesAway + how)));
    }
    check_same_bits(host, train(scenario(layout + " offload=parameters" + kAll +
                                         " fsdp_persistence_threshold=1700")));
  }
}

TEST_CASE("the reference backend reads and writes drives, too", "[integration]") {
  const auto reference = make_reference_backend({.poison = true});
  const auto run = [&](const std::string& keys) {
    return train(scenario("dp_shard=2 offload=parameters" + keys, DType::F64), test::kParitySteps,
                 nullptr, reference.get());
  };
  check_same_bits(run(""), run(kAll));
}

TEST_CASE("training with states on a drive goes on from its state in any other layout",
          "[integration]") {
  const std::string drive = "dp_shard=2 offload=parameters" + kAll;
  const Outcome whole = train(scenario(drive), 6);
  const Outcome half = train(scenario(drive), 3);
  CHECK(train(scenario(drive), 3, &half.run.state).run.state.tensors == whole.run.state.tensors);
  // Another number of ranks sums in another order, but the state that it starts from is the same.
  for (const std::string other : {"dp_replicate=2", "dp_shard=2", "dp_shard=4", "tp=2"}) {
    INFO(other);
    const Outcome moved = train(scenario(other), 0, &half.run.state);
    CHECK(moved.run.state.tensors == half.run.state.tensors);
    const Outcome back = train(scenario(drive), 0, &moved.run.state);
    CHECK(back.run.state.tensors == half.run.state.tensors);
  }
}

TEST_CASE("what a step changed on a drive is undone with the step", "[integration]") {
  const Scenario s = scenario("dp_shard=2 offload=optimizer" + kStatesAway);
  const auto program = lower(s);
  REQUIRE(program.ok());
  const auto cpu = make_cpu_backend({.poison = true});
  RunOptions plain = options(4, std::filesystem::temp_directory_path().string());
  RunOptions validated = plain;
  validated.validation = {
      1, 2, [](std::int64_t, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
        std::fill(tokens.begin(), tokens.end(), 3);
        std::fill(targets.begin(), targets.end(), 5);
      }};
  const auto a = cpu->run(*program, s.cluster, plain);
  const auto b = cpu->run(*program, s.cluster, validated);
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  CHECK(a->state.tensors == b->state.tensors);
}

TEST_CASE("a run without a folder for its drives, or with one that is not there, is refused",
          "[integration]") {
  const Scenario s = scenario("dp_shard=2 offload=optimizer" + kStatesAway);
  const auto program = lower(s);
  REQUIRE(program.ok());
  const auto cpu = make_cpu_backend();
  const auto nowhere = cpu->run(*program, s.cluster, options(1, ""));
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().message.find("parallelism.offload_nvme_path") != std::string::npos);
  const auto missing = cpu->run(*program, s.cluster, options(1, "/no/such/folder"));
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().message.find("does not exist") != std::string::npos);
}

TEST_CASE("a run leaves nothing in the folder of its drives", "[integration]") {
  const TemporaryFolder folder;
  const Scenario s = scenario("dp_shard=2 offload=optimizer" + kStatesAway);
  const auto program = lower(s);
  REQUIRE(program.ok());
  RunOptions o = options(2, folder.path.string());
  bool empty = true;
  o.on_step = [&](const StepResult&) { empty = empty && std::filesystem::is_empty(folder.path); };
  REQUIRE(make_cpu_backend()->run(*program, s.cluster, o).ok());
  CHECK(empty);
  CHECK(std::filesystem::is_empty(folder.path));
}

namespace {

constexpr const char* kBlocks = R"([model]
preset = "gpt2-124m"
[training]
seq_len = 256
max_norm = 0.0
dtype = "float32"
[parallelism]
data_parallel_shard_degree = 2
offload = "optimizer"
offload_optimizer_device = "nvme"
[cluster]
preset = "a100-80"
nodes = 2
[cluster.drives]
count = 2
read_gb_s = 3.0
write_gb_s = 1.5
latency_us = 100.0
)";

struct Run {
  Program program;
  Trace trace;
  Seconds time(OpId op) const {
    for (const Span& span : trace.spans) {
      if (span.rank == 0 && span.op == op) return to_seconds(span.end - span.active);
    }
    return {};
  }
};

Run simulate(const std::vector<std::string>& overrides) {
  const LoadedScenario loaded = parse_scenario(kBlocks, "drive", overrides);
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  const Scenario& s = loaded.points.front().scenario;
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  auto run = (*make_backend("sim"))->run(*program, s.cluster, {});
  if (!run) FAIL(to_string(run.error()));
  return {std::move(*program), std::move(run->trace)};
}

const std::string kInTurns = "parallelism.offload_pipeline_read=false";
const std::string kWritesInTurns = "parallelism.offload_pipeline_write=false";

OpId first_of(const Program& program, OpKind kind) {
  const Role& role = program.roles[0];
  for (const OpId id : role.ops.ids()) {
    if (role.op(id).kind == kind) return id;
  }
  FAIL("there is no such op");
  return {};
}

}  // namespace

TEST_CASE("the ranks of a node share its drives, and those of two nodes do not", "[integration]") {
  for (const OpKind kind : {OpKind::DriveToHost, OpKind::HostToDrive}) {
    const double rate = kind == OpKind::DriveToHost ? 2 * 3e9 : 2 * 1.5e9;
    for (const int per_node : {1, 2}) {
      // Nothing runs beside another copy of the same rank: reads and writes come in turns.
      const Run run = simulate({"cluster.devices_per_node=" + std::to_string(per_node), kInTurns,
                                kWritesInTurns, "parallelism.zero_stage=2"});
      const OpId op = first_of(run.program, kind);
      const Role& role = run.program.roles[0];
      Seconds all;
      Bytes bytes{0};
      const std::size_t states = 3;  // of a unit, copied one after the other
      for (std::size_t i = 0; i < states; ++i) {
        const OpId copy{op.v + static_cast<std::int32_t>(i)};
        all += run.time(copy);
        bytes += payload_bytes(run.program, role, role.op(copy));
      }
      const double alone = states * 100e-6 + static_cast<double>(bytes.v) / rate;
      CHECK(all.v == Approx(per_node * alone));
    }
  }
}

TEST_CASE("a rank that stands for others counts as often at the drives of its node",
          "[integration]") {
  struct Case {
    int nodes, replicate, shard, pipeline;
    bool folds;
  };
  for (const Case& c : {Case{4, 4, 2, 1, true}, Case{2, 1, 4, 1, true}, Case{2, 2, 1, 2, true},
                        Case{4, 2, 2, 2, true}, Case{1, 1, 2, 1, true}}) {
    INFO(c.nodes << " nodes, " << c.replicate << " x " << c.shard << " x pp " << c.pipeline);
    const auto key = [](const char* name, int value) { return name + std::to_string(value); };
    const LoadedScenario loaded = parse_scenario(
        kBlocks, "drive",
        {key("cluster.nodes=", c.nodes), "cluster.devices_per_node=2",
         key("parallelism.data_parallel_replicate_degree=", c.replicate),
         key("parallelism.data_parallel_shard_degree=", c.shard),
         key("parallelism.pipeline_parallel_degree=", c.pipeline), "model.layers=4"});
    if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
    const Scenario& s = loaded.points.front().scenario;
    const auto program = lower(s);
    REQUIRE(program.ok());
    const auto folded = sim::simulate(*program, s.cluster);
    const auto whole = sim::simulate(*program, s.cluster, {}, {.fold = false});
    REQUIRE(folded.ok());
    REQUIRE(whole.ok());
    CHECK(whole->ranks.size() == to_size(program->mesh.world_size()));
    CHECK((folded->ranks.size() < whole->ranks.size()) == c.folds);
    CHECK(folded->makespan == whole->makespan);
    for (std::size_t i = 0; i < folded->ranks.size(); ++i) {
      const auto mine = folded->of_place(i);
      const auto theirs = whole->of_place(to_size(folded->ranks[i]));
      for (std::size_t op = 0; op < mine.size(); ++op) CHECK(mine[op].end == theirs[op].end);
    }
  }
}

TEST_CASE("a rank reaches what its requests in flight bring in a latency", "[integration]") {
  const Run run = simulate({"cluster.devices_per_node=1", kInTurns, kWritesInTurns,
                            "cluster.drives.queue_depth=1", "cluster.drives.request_mb=0.125"});
  const OpId op = first_of(run.program, OpKind::DriveToHost);
  const Role& role = run.program.roles[0];
  const auto bytes = static_cast<double>(payload_bytes(run.program, role, role.op(op)).v);
  CHECK(run.time(op).v == Approx(100e-6 + bytes / (131072 / 100e-6)));  // Little's law
}

TEST_CASE("in turns, a step takes the sum of reading, updating and writing; else the drives' time",
          "[integration]") {
  const auto update = [](const Run& run) {
    SimTime first = SimTime::max(), last{};
    std::map<Stream, Seconds> busy;
    const Role& role = run.program.roles[0];
    for (const Span& span : run.trace.spans) {
      const Op& op = role.op(span.op);
      const bool updates = op.stream == Stream::Host && op.phase == Phase::O &&
                           run.program.function(op.function()).name.text().starts_with("adamw");
      if (span.rank != 0 || (!is_drive_copy(op.kind) && !updates)) continue;
      first = std::min(first, span.active);
      last = std::max(last, span.end);
      busy[op.stream] += to_seconds(span.end - span.active);
    }
    return std::pair(to_seconds(last - first), busy);
  };
  const std::string alone = "cluster.devices_per_node=1";
  auto [in_turns, apart] = update(simulate({alone, kInTurns, kWritesInTurns}));
  auto [together, beside] = update(simulate({alone}));
  // The first reads begin with the step, because no other unit is there to wait for.
  const Run turns = simulate({alone, kInTurns, kWritesInTurns});
  CHECK(apart[Stream::Host].v == Approx(beside[Stream::Host].v));
  CHECK(in_turns.v >
        apart[Stream::DriveRead].v + apart[Stream::Host].v + apart[Stream::DriveWrite].v - 1e-9);
  // Whether they overlap or not, the drives are not faster than they are.
  CHECK(together.v > apart[Stream::DriveRead].v + apart[Stream::DriveWrite].v - 1e-9);
  CHECK(together.v < in_turns.v - 0.5 * apart[Stream::Host].v);
}
