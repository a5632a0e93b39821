// Tests offload: what lies in which memory, and what is copied between them.
#include <map>

#include "core/ir/verify/verify.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;

namespace {

Scenario offloaded(const Layout& layout, Offload offload, int stage = 3) {
  Scenario s = test::tiny_scenario(Architecture::Llama, layout);
  s.strategy.zero_stage = stage;
  s.strategy.offload = offload;
  return s;
}

Program lowered(const Scenario& s) {
  REQUIRE(validate(s).empty());
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  CHECK(verify(*program).empty());
  return std::move(*program);
}

double parameters(const Program& program, int divisor) {
  double sum = 0;
  for (const Unit& unit : program.roles[0].units) {
    REQUIRE(unit.elements % divisor == 0);  // no padding: sizes are exact
    sum += static_cast<double>(unit.elements);
  }
  return sum;
}

/// Bytes that live for the whole step in one of the memories.
double kept(const Program& program, Tier tier) {
  double bytes = 0;
  for (const Buffer& buffer : program.roles[0].buffers) {
    if (buffer.persistent() && buffer.tier == tier) {
      bytes += static_cast<double>(buffer.bytes.v);
    }
  }
  return bytes;
}

/// Bytes of a step's copies of one kind of buffer, and how many there are.
struct Copied {
  double bytes = 0;
  int count = 0;
};
Copied copied(const Program& program, OpKind direction, BufferKind kind) {
  const Role& role = program.roles[0];
  Copied sum;
  for (const Op& op : role.ops) {
    if (!op.moves_memory() || op.kind != direction) continue;
    if (role.buffer(role.args_of(op)[1]).kind != kind) continue;
    sum.bytes += static_cast<double>(payload_bytes(program, role, op).v);
    ++sum.count;
  }
  return sum;
}

int gathers(const Program& program) {
  int count = 0;
  for (const Op& op : program.roles[0].ops) {
    count += op.kind == OpKind::AllGather &&
             program.roles[0].buffer(program.roles[0].args_of(op)[1]).kind == BufferKind::ParamFull;
  }
  return count;
}

}  // namespace

TEST_CASE("an optimizer on the host leaves the parameters alone on the device", "[core][lower]") {
  constexpr int kRanks = 2;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("ZeRO-" << stage);
    const Program program = lowered(offloaded({1, kRanks}, Offload::Optimizer, stage));
    const double p = parameters(program, kRanks);
    const int shards = stage >= 1 ? kRanks : 1;
    // Ren et al. 2021 (ZeRO-Offload): master copy and moments, 12 bytes in float32, on the host.
    CHECK(kept(program, Tier::Host) == 12 * p / shards);
    CHECK(kept(program, Tier::Device) == 4 * p / (stage == 3 ? kRanks : 1));
    const Copied down = copied(program, OpKind::DeviceToHost, BufferKind::Grad);
    CHECK(down.bytes == 4 * p / shards);
    const Copied up = copied(program, OpKind::HostToDevice, BufferKind::Param);
    CHECK(up.bytes == 4 * p / shards);
  }
}

TEST_CASE("in mixed precision the host sends rounded parameters", "[core][lower]") {
  Scenario s = offloaded({1, 2}, Offload::Optimizer, 2);
  s.training.mixed_precision_param = PartDType::BF16;
  s.training.mixed_precision_reduce = PartDType::BF16;
  const Program program = lowered(s);
  const double p = parameters(program, 2);
  CHECK(kept(program, Tier::Host) == 12 * p / 2);
  CHECK(kept(program, Tier::Device) == 2 * p);
  CHECK(copied(program, OpKind::DeviceToHost, BufferKind::Grad).bytes == 2 * p / 2);
  CHECK(copied(program, OpKind::HostToDevice, BufferKind::Param).bytes == 2 * p / 2);
}

TEST_CASE("parameters on the host leave nothing on the device between uses", "[core][lower]") {
  for (const Layout& layout : {Layout{1, 2}, Layout{2, 2}, Layout{1, 2, 1, 1, 2}}) {
    const Program program = lowered(offloaded(layout, Offload::Parameters));
    const double p = parameters(program, 2);
    CHECK(kept(program, Tier::Device) == 0);
    CHECK(kept(program, Tier::Host) == 12 * p / 2);
    // A shard comes before every gather; nothing goes back, the host has the new parameters.
    const Copied up = copied(program, OpKind::HostToDevice, BufferKind::Param);
    CHECK(up.count == gathers(program));
    CHECK(copied(program, OpKind::DeviceToHost, BufferKind::Param).count == 0);
    CHECK(copied(program, OpKind::DeviceToHost, BufferKind::Grad).bytes == 4 * p / 2);
    CHECK(program.roles[0].arena < lowered(offloaded(layout, Offload::None)).roles[0].arena);
  }
}

TEST_CASE("gradients leave for the host while backward goes on", "[core][lower]") {
  const Program program = lowered(offloaded({1, 2}, Offload::Optimizer));
  const Role& role = program.roles[0];
  std::size_t first_copy = role.ops.size();
  std::size_t last_backward = 0;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    if (role.ops[i].stream == Stream::CopyBack) first_copy = std::min(first_copy, i);
    if (role.ops[i].phase == Phase::B) last_backward = i;
  }
  CHECK(first_copy < last_backward);
  // Fewer gradients than all are left on the device.
  std::int64_t all = 0;
  std::int64_t host = 0;
  for (const Buffer& buffer : role.buffers) {
    if (buffer.kind != BufferKind::Grad || buffer.is_view()) continue;
    (buffer.tier == Tier::Host ? host : all) += buffer.bytes.v;
  }
  CHECK(host == all / 3);  // of each unit: the whole, its shard, the shard on the host
}

TEST_CASE("every layout verifies with either offload", "[core][lower]") {
  for (const Layout& layout : {Layout{1, 3}, Layout{2, 2, 2, 3}, Layout{1, 2, 4, 5}}) {
    for (const PartDType type : {PartDType::Default, PartDType::BF16}) {
      for (const Offload offload : {Offload::Optimizer, Offload::Parameters}) {
        Scenario s = offloaded(layout, offload);
        s.training.mixed_precision_param = type;
        s.strategy.pipeline_parallel_schedule =
            layout.pp == 2 ? PipelineSchedule::ZbH1 : PipelineSchedule::OneFOneB;
        const Program program = lowered(s);
        CHECK(program.roles[0].host_arena.v > 0);
      }
    }
  }
}
