// Replicas that train apart (local SGD, DiLoCo): what they send, keep and take, whatever the layout
// inside a replica. That layouts train alike is in the parity table, and that they train as PyTorch
// does in tests/oracle.
#include <cmath>

#include "backends/backends.hpp"
#include "core/analysis/report.hpp"
#include "core/ir/ring.hpp"
#include "tests/integration/parity_runs.hpp"

using namespace lockstep;
using test::parity_row;
using test::parity_scenario;
using test::train;

namespace {

const std::string kDiloco = " local_sgd.method=diloco local_sgd.sync_steps=4";
const std::string kLocal = " local_sgd.method=local_sgd local_sgd.sync_steps=3";

Scenario scenario_of(const std::string& keys, DType dtype = DType::F32) {
  return parity_scenario(Architecture::Llama, parity_row("", keys), dtype);
}
Program program_of(const std::string& keys) {
  auto program = lower(scenario_of(keys));
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

bool spans_replicas(const Program& program, const Op& op) {
  const int dim = program.mesh.index_of("dp_replicate");
  const auto& dims = program.group(op.group()).dims;
  return is_collective(op.kind) && std::find(dims.begin(), dims.end(), dim) != dims.end();
}

std::int64_t elements_updated(const Role& role) {
  std::int64_t elements = 0;
  for (const Unit& unit : role.units)
    elements += unit.has(StateKind::Moment1) ? unit.shard_elements : 0;
  return elements;
}

constexpr const char* kLayouts[] = {
    "dp_replicate=2", "dp_replicate=3 dp_shard=2", "dp_replicate=2 dp_shard=2 zero_stage=1 tp=2",
    "dp_replicate=2 pp=2 mb=3", "dp_replicate=2 cp=2 context_parallel_method=ring"};

}  // namespace

TEST_CASE(
    "between synchronizations nothing crosses replicas, and a synchronization sends 4 bytes of "
    "every parameter that a rank updates",
    "[integration]") {
  for (const std::string layout : kLayouts) {
    for (const std::string& method : {kDiloco, kLocal}) {
      INFO(layout << method);
      const Program program = program_of(layout + method);
      const int replicas = program.replicas();
      for (const Role& role : program.roles) {
        Bytes sent;
        for (const OpId id : role.ops.ids()) {
          const Op& op = role.op(id);
          CHECK((op.phase == Phase::S) == (id >= first_synchronization(role)));
          if (!spans_replicas(program, op)) continue;
          CHECK(op.phase == Phase::S);
          CHECK(op.kind == OpKind::AllReduce);
          sent += payload_bytes(program, role, op);
        }
        CHECK(sent == Bytes{4 * elements_updated(role)});
        CHECK(replicas >= 2);
      }
    }
  }
}

TEST_CASE(
    "DiLoCo keeps 8 bytes of every parameter that a rank updates, on the device or the host; "
    "local SGD none",
    "[integration]") {
  for (const std::string layout : kLayouts) {
    INFO(layout);
    const auto outer_bytes = [](const Role& role, bool on_host) {
      std::int64_t bytes = 0;
      for (const Buffer& b : role.buffers) {
        if (b.kind == BufferKind::Outer && b.persistent() && (b.tier == Tier::Host) == on_host)
          bytes += b.bytes.v;
      }
      return bytes;
    };
    const Program here = program_of(layout + kDiloco);
    const Program away = program_of(layout + kDiloco + " local_sgd.offload=true");
    const Program none = program_of(layout + kLocal);
    for (const RoleId r : here.roles.ids()) {
      const std::int64_t wanted = 8 * elements_updated(here.roles[r]);
      CHECK(outer_bytes(here.roles[r], false) == wanted);
      CHECK(outer_bytes(here.roles[r], true) == 0);
      CHECK(outer_bytes(away.roles[r], false) == 0);
      CHECK(outer_bytes(away.roles[r], true) == wanted);
      CHECK(outer_bytes(none.roles[r], false) + outer_bytes(none.roles[r], true) == 0);
      CHECK(away.roles[r].host_arena.v >= wanted);
      CHECK(away.roles[r].arena < here.roles[r].arena);
    }
  }
}

TEST_CASE("the step time is the mean over a period, of which one step synchronizes",
          "[integration]") {
  for (const int every : {1, 2, 5, 100}) {
    const Scenario s = scenario_of(
        "dp_replicate=2 dp_shard=2 local_sgd.method=diloco "
        "local_sgd.sync_steps=" +
        std::to_string(every));
    const auto program = lower(s);
    REQUIRE(program.ok());
    auto backend = make_backend("sim");
    const auto run = (*backend)->run(*program, s.cluster, {});
    REQUIRE(run.ok());
    const Report report = analyze(run->trace, *program, s.cluster);
    CHECK(report.sync_step_time.v > 0);
    CHECK((report.apart_step_time.v > 0) == (every > 1));
    const double part = 1.0 / every;
    CHECK(report.step_time.v ==
          Approx(part * report.sync_step_time.v + (1 - part) * report.apart_step_time.v));
    CHECK(report.apart_step_time < report.sync_step_time);
    // A period sends what all its steps do.
    Bytes always, synchronizing;
    const Role& role = program->roles.front();
    for (const Op& op : role.ops) {
      if (!is_collective(op.kind)) continue;
      (op.phase == Phase::S ? synchronizing : always) +=
          ring_bytes(op.kind, payload_bytes(*program, role, op),
                     group_size(program->mesh, program->group(op.group())));
    }
    CHECK(report.ranks[0].comm_bytes_sent == always + Bytes{synchronizing.v / every});
  }
}

TEST_CASE(
    "a run that stops inside a period or after it goes on to the last bit, also in another "
    "layout of a replica that adds up alike",
    "[integration]") {
  for (const std::string& method : {kDiloco, kDiloco + " local_sgd.offload=true", kLocal}) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      const auto part = [&](const std::string& layout, int steps, const TrainingState* from) {
        return train(scenario_of(layout + method, dtype), steps, from).run.state;
      };
      const TrainingState whole = part("dp_replicate=2 dp_shard=2", 10, nullptr);
      for (const int stop : {3, 4, 6, 7}) {
        INFO(method << ", stopped after " << stop << " steps");
        const TrainingState first = part("dp_replicate=2 dp_shard=2", stop, nullptr);
        CHECK(part("dp_replicate=2 dp_shard=2", 10 - stop, &first) == whole);
        CHECK(part("dp_replicate=2 dp_shard=2 zero_stage=1", 10 - stop, &first) == whole);
        CHECK(part("dp_replicate=2 dp_shard=2 zero_stage=2", 10 - stop, &first) == whole);
      }
    }
  }
}

TEST_CASE("another number of replicas goes on where all are equal, and nowhere else",
          "[integration]") {
  const auto run = [&](const std::string& keys, int steps, const TrainingState* from) {
    const Scenario s = scenario_of(keys);
    auto program = lower(s);
    REQUIRE(program.ok());
    RunOptions options;
    options.steps = steps;
    options.initial_state = from;
    options.return_state = true;
    return (*make_backend("cpu"))->run(*program, s.cluster, options);
  };
  const auto together = run("dp_replicate=2" + kDiloco, 8, nullptr);
  const auto apart = run("dp_replicate=2" + kDiloco, 7, nullptr);
  REQUIRE(together.ok());
  REQUIRE(apart.ok());
  CHECK(together->state.steps_apart == 0);
  CHECK(apart->state.steps_apart == 3);
  const auto& tensors = together->state.tensors;
  CHECK(tensors.at("head.norm.weight").data == tensors.at("replica1.head.norm.weight").data);
  CHECK(tensors.at("head.norm.weight").data == tensors.at("outer.head.norm.weight").data);
  CHECK(tensors.at("adam_m.head.norm.weight").data !=
        tensors.at("replica1.adam_m.head.norm.weight").data);
  for (const std::string& keys :
       {std::string(), std::string("dp_replicate=4"), "dp_replicate=3" + kLocal}) {
    INFO(keys);
    CHECK(run(keys, 1, &together->state).ok());
    const auto refused = run(keys, 1, &apart->state);
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message, ContainsSubstring("trained apart for 3 steps"));
  }
  // A run without replicas that train apart goes on with them: post-local SGD.
  const auto plain = run("", 4, nullptr);
  REQUIRE(plain.ok());
  const auto later = run("dp_replicate=3" + kDiloco, 3, &plain->state);
  REQUIRE(later.ok());
  CHECK(later->state.tensors.at("outer.head.norm.weight").data ==
        plain->state.tensors.at("head.norm.weight").data);
}
