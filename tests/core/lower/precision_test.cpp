// Tests mixed precision: which buffers have which type, and the sum of their bytes.
#include <map>

#include "core/ir/verify/verify.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;
using test::lowered;

namespace {

Scenario mixed(const Layout& layout, int stage, PartDType reduce) {
  Scenario s = test::tiny_scenario(Architecture::Llama, layout);
  s.strategy.zero_stage = stage;
  s.training.mixed_precision_param = PartDType::BF16;
  s.training.mixed_precision_reduce = reduce;
  return s;
}

/// The bytes of each kind of a role's buffers that live for the whole step.
std::map<BufferKind, double> kept(const Role& role) {
  std::map<BufferKind, double> bytes;
  for (const Buffer& buffer : role.buffers) {
    if (buffer.persistent()) bytes[buffer.kind] += static_cast<double>(buffer.bytes.v);
  }
  return bytes;
}

}  // namespace

TEST_CASE("mixed precision keeps 2 bytes of parameters and 12 of the optimizer, sharded by stage",
          "[core][lower]") {
  constexpr int kRanks = 2;
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("ZeRO-" << stage);
    const Program program = lowered(mixed({1, kRanks}, stage, PartDType::BF16));
    double parameters = 0;
    for (const Unit& unit : program.roles[0].units) {
      REQUIRE(unit.elements % kRanks == 0);  // no padding: the formula is exact
      parameters += static_cast<double>(unit.elements);
    }
    const auto bytes = kept(program.roles[0]);
    // Rajbhandari et al. 2020, figure 1: 2 bytes of parameters, 12 of the optimizer.
    CHECK(bytes.at(BufferKind::Param) == 2 * parameters / (stage >= 3 ? kRanks : 1));
    CHECK(bytes.at(BufferKind::Master) + bytes.at(BufferKind::Optimizer) ==
          12 * parameters / (stage >= 1 ? kRanks : 1));
  }
}

TEST_CASE("moments take 2 bytes each in bfloat16, and a byte and 4 per block in 8 bits",
          "[core][lower]") {
  for (const int ranks : {1, 2, 3}) {
    for (const StateDType type : {StateDType::BF16, StateDType::U8}) {
      Scenario s = mixed({1, ranks}, 3, PartDType::BF16);
      s.optimizer.state_dtype = type;
      if (type == StateDType::U8) s.optimizer.block_size = 64;
      const Program program = lowered(s);
      CHECK(verify(program).empty());
      for (const Unit& unit : program.roles[0].units) {
        const std::int64_t n = unit.shard_elements;
        const bool quantized = type == StateDType::U8;
        // Shards begin where blocks do, so that blocks are the same for any number of ranks.
        CHECK(n == (ranks == 1  ? unit.elements
                    : quantized ? round_up(ceil_div(unit.elements, ranks), 64)
                                : ceil_div(unit.elements, ranks)));
        CHECK(unit.state_block == (quantized ? 64 : 0));
        for (const BufferId moment :
             {unit.states[StateKind::Moment1], unit.states[StateKind::Moment2]}) {
          const Buffer& buffer = program.roles[0].buffer(moment);
          CHECK(buffer.bytes.v == (quantized ? n + 4 * ceil_div(n, 64) : 2 * n));
        }
        CHECK(program.roles[0].buffer(unit.states[StateKind::Master]).bytes.v == 4 * n);
      }
    }
  }
}

TEST_CASE("every buffer has the type of its part", "[core][lower]") {
  for (PartDType reduce : {PartDType::BF16, PartDType::Default}) {
    const Program program = lowered(mixed({1, 2, 2, 2}, 3, reduce));
    CHECK(program.dtype == DType::BF16);
    for (const Role& role : program.roles) {
      for (const Buffer& buffer : role.buffers) {
        INFO(to_string(buffer.kind));
        switch (buffer.kind) {
          case BufferKind::Master:
          case BufferKind::Optimizer:
          case BufferKind::Metric:
            CHECK(buffer.dtype == DType::F32);
            break;
          case BufferKind::Grad:
            CHECK(buffer.dtype == (reduce == PartDType::BF16 ? DType::BF16 : DType::F32));
            break;
          case BufferKind::Input:
            CHECK(buffer.dtype == DType::I32);
            break;
          default:
            CHECK(buffer.dtype == DType::BF16);
        }
      }
    }
  }
}

TEST_CASE("parameters and messages move in half the bytes", "[core][lower]") {
  const auto sent = [](const Scenario& s, OpKind kind) {
    const Program program = lowered(s);
    std::int64_t bytes = 0;
    for (const Role& role : program.roles) {
      for (const Op& op : role.ops) {
        if (op.kind != kind || role.buffer(role.args_of(op)[0]).kind == BufferKind::Metric)
          continue;
        bytes += payload_bytes(program, role, op).v;
      }
    }
    return bytes;
  };
  Scenario wide = mixed({1, 2, 2, 3}, 3, PartDType::Default);
  wide.training.mixed_precision_param = PartDType::Default;
  for (PartDType reduce : {PartDType::BF16, PartDType::Default}) {
    const Scenario narrow = mixed({1, 2, 2, 3}, 3, reduce);
    CHECK(2 * sent(narrow, OpKind::AllGather) == sent(wide, OpKind::AllGather));
    CHECK(2 * sent(narrow, OpKind::Send) == sent(wide, OpKind::Send));
    const int gradients = reduce == PartDType::BF16 ? 2 : 1;
    CHECK(gradients * sent(narrow, OpKind::ReduceScatter) == sent(wide, OpKind::ReduceScatter));
  }
}

TEST_CASE(
    "batch norm's statistics have a type of their own, its sums are float32 between ranks, too",
    "[core][lower]") {
  for (const PartDType kept : {PartDType::Default, PartDType::BF16}) {
    Scenario s = test::tiny_scenario(Architecture::Resnet, {2, 2, 2, 2}, 2);
    s.training.mixed_precision_param = PartDType::BF16;
    s.training.mixed_precision_buffer = kept;
    s.strategy.sync_batch_norm = true;
    const Program program = lowered(s);
    int statistics = 0, exchanged = 0;
    for (const Role& role : program.roles) {
      for (const Unit& unit : role.units) {
        if (unit.has(StateKind::Moment1)) {
          CHECK(role.buffer(unit.param()).dtype == DType::BF16);
          CHECK(role.buffer(unit.states[StateKind::Master]).dtype == DType::F32);
          continue;
        }
        ++statistics;
        const Buffer& running = role.buffer(unit.param());
        CHECK(running.dtype == (kept == PartDType::BF16 ? DType::BF16 : DType::F32));
        CHECK(running.bytes.v == unit.elements * (kept == PartDType::BF16 ? 2 : 4));
        CHECK_FALSE(unit.has(StateKind::Master));
      }
      for (const Op& op : role.ops) {
        if (op.kind == OpKind::HostToDevice) continue;  // images in bfloat16, targets
        for (const BufferId arg : role.args_of(op)) {
          const Buffer& buffer = role.buffer(arg);
          const std::string& name = program.names[buffer.name];
          if (!name.starts_with("bn") && !name.starts_with("downsample.bn")) continue;
          CHECK(buffer.dtype == DType::F32);
          exchanged += is_collective(op.kind) ? 1 : 0;
        }
      }
    }
    CHECK(statistics == 5);  // stem and four blocks
    CHECK(exchanged > 0);
    for (const Function& function : program.functions) {
      for (const Kernel& kernel : function.kernels) {
        INFO(info(kernel.kind).name);
        switch (kernel.kind) {
          case KernelKind::BatchNormStatistics:
          case KernelKind::BatchNormBackwardSums:
            CHECK(kernel.dtype == DType::BF16);
            CHECK(kernel.out[0].dtype == DType::F32);
            break;
          case KernelKind::BatchNormForward:
            CHECK(kernel.in[1].dtype == DType::BF16);
            CHECK(kernel.in[3].dtype == DType::F32);
            CHECK(kernel.out[0].dtype == DType::BF16);
            break;
          case KernelKind::BatchNormCombine:
            CHECK(kernel.dtype == DType::F32);
            break;
          case KernelKind::BatchNormBackwardWeight:
          case KernelKind::Conv2dBackwardWeight:
            CHECK(kernel.out[0].dtype == DType::F32);  // gradients are reduced in float32
            break;
          default:
            break;
        }
      }
    }
  }
}

TEST_CASE("types given as the default change nothing", "[core][lower]") {
  Scenario s = mixed({1, 2}, 3, PartDType::F32);
  s.training.mixed_precision_param = PartDType::F32;
  CHECK(lowered(s) == lowered(test::tiny_scenario(Architecture::Llama, {1, 2})));
}

TEST_CASE("only products in float32, on a device that has TF32, may be in it", "[core][lower]") {
  const auto marked = [](const Scenario& s) {
    std::map<KernelKind, bool> kinds;
    for (const Function& function : lowered(s).functions) {
      for (const Kernel& kernel : function.kernels) {
        if (info(kernel.kind).tf32 != Tf32::Never) kinds[kernel.kind] = kernel.tf32;
        if (info(kernel.kind).tf32 == Tf32::Never) CHECK_FALSE(kernel.tf32);
      }
    }
    return kinds;
  };
  Scenario s = test::tiny_scenario(Architecture::Resnet, {});
  CHECK_FALSE(marked(s).at(KernelKind::Conv2dForward));  // a CPU
  s.cluster.device.tf32_rate = {1e14};
  CHECK(marked(s).at(KernelKind::Conv2dForward));  // PyTorch's defaults
  CHECK(marked(s).at(KernelKind::Conv2dBackwardWeight));
  CHECK_FALSE(marked(s).at(KernelKind::Gemm));
  s.training.float32_matmul = Float32Products::Tf32;
  s.training.float32_convolution = Float32Products::Highest;
  CHECK_FALSE(marked(s).at(KernelKind::Conv2dForward));
  CHECK(marked(s).at(KernelKind::Gemm));
  s.training.mixed_precision_param = PartDType::BF16;
  CHECK_FALSE(marked(s).at(KernelKind::Gemm));
}
