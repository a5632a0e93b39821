// Tests what lies on drives: how much, what the host holds of it at a time, and what waits for
// what.
#include <algorithm>
#include <map>

#include "core/ir/verify/verify.hpp"
#include "core/lower/capacity.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;

namespace {

Scenario on_drive(const Layout& layout, Offload offload = Offload::Optimizer, int stage = 3) {
  Scenario s = test::tiny_scenario(Architecture::Llama, layout);
  s.strategy.zero_stage = stage;
  s.strategy.offload = offload;
  s.strategy.offload_optimizer_device = OffloadDevice::Nvme;
  s.cluster.drives.count = 1;
  s.cluster.drives.read = s.cluster.drives.write = {1e9};
  return s;
}

Program lowered(const Scenario& s) {
  for (const Fault& fault : validate(s)) FAIL(fault.error.message);
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  for (const Error& fault : verify(*program)) FAIL_CHECK(fault.message);
  return std::move(*program);
}

std::int64_t parameters(const Program& program) {
  std::int64_t sum = 0;
  for (const Unit& unit : program.roles[0].units) sum += unit.elements;
  return sum;
}

std::int64_t kept(const Program& program, Tier tier) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.roles[0].buffers) {
    if (buffer.persistent() && buffer.tier == tier) bytes += buffer.bytes.v;
  }
  return bytes;
}

std::int64_t copied(const Program& program, OpKind kind, BufferKind of) {
  const Role& role = program.roles[0];
  std::int64_t bytes = 0;
  for (const Op& op : role.ops) {
    const bool counts = op.kind == kind && role.buffer(role.args_of(op)[0]).kind == of;
    if (counts) bytes += payload_bytes(program, role, op).v;
  }
  return bytes;
}
std::int64_t states_copied(const Program& program, OpKind kind) {
  return copied(program, kind, BufferKind::Master) + copied(program, kind, BufferKind::Optimizer);
}

/// The most bytes of states that host memory holds at an op of the list.
std::int64_t most_staged(const Role& role) {
  std::int64_t most = 0;
  for (const OpId id : role.ops.ids()) {
    std::int64_t bytes = 0;
    for (const Buffer& b : role.buffers) {
      const bool state = b.kind == BufferKind::Master || b.kind == BufferKind::Optimizer;
      if (state && b.tier == Tier::Host && b.first() <= id && id <= b.last()) bytes += b.bytes.v;
    }
    most = std::max(most, bytes);
  }
  return most;
}

/// Whether op `a` has ended before op `b` begins, whatever streams do beside each other.
bool is_before(const Role& role, OpId a, OpId b) {
  std::vector<bool> ended(role.ops.size(), false);  // before b
  ended[to_size(b)] = true;
  for (std::size_t i = to_size(b) + 1; i-- > 0;) {
    if (!ended[i]) continue;
    const Op& op = role.ops[i];
    for (const OpId earlier : role.after_of(op)) ended[to_size(earlier)] = true;
    for (std::size_t k = i; k-- > 0;) {
      if (role.ops[k].stream != op.stream) continue;
      ended[k] = true;
      break;
    }
  }
  return a != b && ended[to_size(a)];
}

/// The ops of the update of each unit, in order: the first read, the last call, the last write.
struct Update {
  OpId read, call, write;
};
std::vector<Update> updates(const Role& role) {
  std::vector<Update> found;
  for (const Unit& unit : role.units) {
    Update update;
    for (const OpId id : role.ops.ids()) {
      const Op& op = role.op(id);
      if (op.kind == OpKind::DriveToHost && role.args_of(op)[0] == unit.states[StateKind::Moment1])
        update.read = id;
      if (op.kind == OpKind::HostToDrive && role.args_of(op)[1] == unit.states[StateKind::Moment1])
        update.write = id;
    }
    const BufferId staged = role.args_of(role.op(update.read))[1];
    for (const OpId id : role.ops.ids()) {
      const auto args = role.args_of(role.op(id));
      const bool uses = std::find(args.begin(), args.end(), staged) != args.end();
      if (role.op(id).kind == OpKind::Call && uses) update.call = id;
    }
    found.push_back(update);
  }
  return found;
}

}  // namespace

TEST_CASE("a drive holds 12 bytes a parameter, and is read and written once a step",
          "[core][lower]") {
  constexpr int kRanks = 2;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("ZeRO-" << stage);
    const Program program = lowered(on_drive({1, kRanks}, Offload::Optimizer, stage));
    const std::int64_t p = parameters(program);
    REQUIRE(p % kRanks == 0);
    const int shards = stage >= 1 ? kRanks : 1;
    // Rajbhandari et al. 2021 (ZeRO-Infinity): master copy and moments in float32.
    CHECK(kept(program, Tier::Drive) == 12 * p / shards);
    CHECK(kept(program, Tier::Host) == 0);
    CHECK(kept(program, Tier::Device) == 4 * p / (stage == 3 ? kRanks : 1));
    CHECK(states_copied(program, OpKind::DriveToHost) == 12 * p / shards);
    CHECK(states_copied(program, OpKind::HostToDrive) == 12 * p / shards);
    CHECK(copied(program, OpKind::HostToDevice, BufferKind::Master) == 4 * p / shards);
  }
}

TEST_CASE("every buffer of a drive, and beside it in host memory, begins at a block",
          "[core][lower]") {
  const Program program = lowered(on_drive({1, 3}));
  std::int64_t blocks = 0;
  for (const Buffer& b : program.roles[0].buffers) {
    if (b.tier == Tier::Device || b.is_view()) continue;
    CHECK(b.offset % kDriveBlock == 0);
    if (b.tier == Tier::Drive) blocks += round_up(b.bytes.v, kDriveBlock);
  }
  CHECK(program.roles[0].drive_arena.v == blocks);
}

TEST_CASE("host memory has the states of as many units as are read, updated and written",
          "[core][lower]") {
  constexpr int kRanks = 2;
  struct Case {
    bool reads, writes;
    int count, units_before, units_behind;  // that are held beside the one that is updated
  };
  for (const Case& c :
       {Case{true, true, 0, 1, 1}, Case{true, true, 5, 1, 3}, Case{true, false, 0, 0, 1},
        Case{false, true, 0, 1, 0}, Case{false, false, 0, 0, 0}}) {
    INFO(c.reads << c.writes << c.count);
    Scenario s = on_drive({1, kRanks});
    s.strategy.offload_pipeline_read = c.reads;
    s.strategy.offload_pipeline_write = c.writes;
    s.strategy.offload_buffer_count = c.count;
    const Program program = lowered(s);
    const auto& units = program.roles[0].units;
    const int n = static_cast<int>(units.size());
    std::int64_t most = 0;
    for (int k = 0; k < n; ++k) {
      std::int64_t bytes = 0;
      for (int j = std::max(0, k - c.units_before); j <= std::min(n - 1, k + c.units_behind); ++j) {
        bytes += 12 * units[j].shard_elements;
      }
      most = std::max(most, bytes);
    }
    CHECK(most_staged(program.roles[0]) == most);
  }
}

TEST_CASE("states are read and written beside the update of another unit, if they may be",
          "[core][lower]") {
  for (const bool reads : {false, true}) {
    for (const bool writes : {false, true}) {
      INFO(reads << writes);
      Scenario s = on_drive({1, 2});
      s.strategy.offload_pipeline_read = reads;
      s.strategy.offload_pipeline_write = writes;
      const Program program = lowered(s);
      const Role& role = program.roles[0];
      const std::vector<Update> of = updates(role);
      REQUIRE(of.size() > 3);
      for (std::size_t k = 0; k < of.size(); ++k) {
        CHECK(is_before(role, of[k].read, of[k].call));
        CHECK(is_before(role, of[k].call, of[k].write));
        if (k == 0) continue;
        CHECK(is_before(role, of[k - 1].call, of[k].read) == !reads);
        CHECK(is_before(role, of[k - 1].write, of[k].call) == !writes);
      }
    }
  }
}

TEST_CASE("parameters on a drive are read before each copy to the device, and written once",
          "[core][lower]") {
  Scenario s = on_drive({1, 2}, Offload::Parameters);
  s.strategy.offload_param_device = OffloadDevice::Nvme;
  s.training.mixed_precision_param = PartDType::BF16;
  const Program program = lowered(s);
  const std::int64_t p = parameters(program);
  CHECK(kept(program, Tier::Drive) == (12 + 2) * p / 2);
  CHECK(kept(program, Tier::Host) == 0);
  CHECK(kept(program, Tier::Device) == 0);
  CHECK(copied(program, OpKind::DriveToHost, BufferKind::Param) ==
        copied(program, OpKind::HostToDevice, BufferKind::Param));
  CHECK(copied(program, OpKind::HostToDrive, BufferKind::Param) == 2 * p / 2);
}

TEST_CASE("optimizer and parameters lie where each of them is said to", "[core][lower]") {
  for (const OffloadDevice optimizer : {OffloadDevice::Cpu, OffloadDevice::Nvme}) {
    for (const OffloadDevice param : {OffloadDevice::Cpu, OffloadDevice::Nvme}) {
      Scenario s = on_drive({1, 2}, Offload::Parameters);
      s.strategy.offload_optimizer_device = optimizer;
      s.strategy.offload_param_device = param;
      s.training.mixed_precision_param = PartDType::BF16;
      const Program program = lowered(s);
      const std::int64_t p = parameters(program);
      const std::int64_t drive = (optimizer == OffloadDevice::Nvme ? 12 : 0) * p / 2 +
                                 (param == OffloadDevice::Nvme ? 2 : 0) * p / 2;
      CHECK(kept(program, Tier::Drive) == drive);
      CHECK(kept(program, Tier::Host) == 14 * p / 2 - drive);
    }
  }
}

TEST_CASE("units below the persistence threshold keep their parameters on the device",
          "[core][lower]") {
  for (const OffloadDevice device : {OffloadDevice::Cpu, OffloadDevice::Nvme}) {
    for (const PartDType type : {PartDType::Default, PartDType::BF16}) {
      Scenario s = on_drive({1, 2}, Offload::Parameters);
      s.strategy.offload_optimizer_device = s.strategy.offload_param_device = device;
      s.strategy.fsdp_persistence_threshold = 2000;
      s.training.mixed_precision_param = type;
      const Program program = lowered(s);
      const Role& role = program.roles[0];
      const std::int64_t size = type == PartDType::BF16 ? 2 : 4;
      std::int64_t small = 0, large = 0;
      for (const Unit& unit : role.units) {
        (unit.elements <= 2000 ? small : large) += unit.elements;
        CHECK(unit.whole_param == (unit.elements <= 2000));
      }
      REQUIRE(small > 0);
      REQUIRE(large > 0);
      CHECK(kept(program, Tier::Device) == size * small);
      const Tier beyond = device == OffloadDevice::Nvme ? Tier::Drive : Tier::Host;
      const std::int64_t shards = type == PartDType::BF16 ? 2 * large : 0;  // beside the masters
      CHECK(kept(program, beyond) == (12 * (small + large) + shards) / 2);
    }
  }
}

TEST_CASE("every layout verifies with states on drives", "[core][lower]") {
  for (const Layout& layout : {Layout{1, 3}, Layout{2, 2, 2, 3}, Layout{1, 2, 4, 5}}) {
    for (const PartDType type : {PartDType::Default, PartDType::BF16}) {
      for (const Offload offload : {Offload::Optimizer, Offload::Parameters}) {
        for (const bool pipelined : {false, true}) {
          Scenario s = on_drive(layout, offload);
          s.strategy.offload_pipeline_read = s.strategy.offload_pipeline_write = pipelined;
          if (offload == Offload::Parameters) s.strategy.offload_param_device = OffloadDevice::Nvme;
          s.training.mixed_precision_param = type;
          s.strategy.pipeline_parallel_schedule =
              layout.pp == 2 ? PipelineSchedule::ZbH1 : PipelineSchedule::OneFOneB;
          CHECK(lowered(s).roles[0].drive_arena.v > 0);
        }
      }
    }
  }
}

TEST_CASE("the ranks of a node must fit its drives together", "[core][lower]") {
  Scenario s = on_drive({1, 4});
  const Program program = lowered(s);
  const std::int64_t rank = program.roles[0].drive_arena.v;
  s.cluster.drives.count = 2;
  s.cluster.ranks_per_device = 4;
  s.cluster.drives.capacity = {4 * rank / 2};
  CHECK(check_capacity(program, s.cluster).ok());
  s.cluster.drives.capacity = {4 * rank / 2 - 1};
  const auto refused = check_capacity(program, s.cluster);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::OutOfMemory);
  CHECK(refused.error().message.find("ranks 0 to 3") != std::string::npos);
  s.cluster.ranks_per_device = 2;  // two nodes
  CHECK(check_capacity(program, s.cluster).ok());
}

TEST_CASE("what the ranks of a node offload must fit its host's memory", "[core][lower]") {
  Scenario s = on_drive({1, 4});
  s.strategy.offload_optimizer_device = OffloadDevice::Cpu;
  const Program program = lowered(s);
  const std::int64_t rank = program.roles[0].host_arena.v;
  REQUIRE(rank > 0);
  s.cluster.ranks_per_device = 2;
  s.cluster.devices_per_node = 2;
  s.cluster.device.host_memory = {2 * rank};  // half of the node's: it is shared
  CHECK(check_capacity(program, s.cluster).ok());
  s.cluster.device.host_memory = {2 * rank - 1};
  const auto refused = check_capacity(program, s.cluster);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::OutOfMemory);
  CHECK(refused.error().message.find("ranks 0 to 3") != std::string::npos);
  CHECK(refused.error().message.find("host_memory_gb") != std::string::npos);
  s.cluster.devices_per_node = 1;  // two nodes, whose hosts have half as much
  CHECK_FALSE(check_capacity(program, s.cluster).ok());
  s.cluster.device.host_memory = {2 * rank};
  CHECK(check_capacity(program, s.cluster).ok());
}
