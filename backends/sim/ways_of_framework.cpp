#include "backends/sim/ways_of_framework.hpp"

#include <algorithm>

#include "core/cluster/narrow_products.hpp"
#include "core/cost/kernel_time.hpp"

namespace lockstep::sim {
namespace {

/// The time of a function's first product, or of its last, in ps; 0 if it has none.
std::int64_t product_of(const Function& function, bool last, const ClusterSpec& cluster) {
  const Kernel* product = nullptr;
  for (const Kernel& kernel : function.kernels) {
    if (kernel.kind != KernelKind::Gemm && kernel.kind != KernelKind::ScaledGemm) continue;
    product = &kernel;
    if (!last) break;
  }
  if (product == nullptr) return 0;
  return to_sim_time(kernel_time(*product, cluster.device, cluster.framework)).count();
}

bool is_output_layer(const Function& function) {
  return function.name.kind() == FunctionName::Kind::OutputLayer;
}

}  // namespace

std::int64_t BesideProduct::exposed(std::int64_t whole, int members) const {
  if (product == 0) return whole;
  return std::max(whole / members, whole - product * (members - 1) / members);
}

std::vector<BesideProduct> beside_products(const Program& program, const Role& role,
                                           const ClusterSpec& cluster) {
  const FrameworkSpec& framework = cluster.framework;
  const auto narrow = narrow_products(cluster.device, framework);
  if (!framework.overlaps_products && !narrow) return {};
  std::vector<BesideProduct> beside(role.ops.size());
  const std::vector<int> tp = tensor_dims(program.mesh);
  const auto divides_layer = [&](const Op& op, OpKind kind) {
    return op.kind == kind && op.stream == Stream::Layer && program.group(op.group()).dims == tp;
  };
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.ops[id];
    if (divides_layer(op, OpKind::ReduceScatter)) {
      for (const OpId before : role.after_of(op)) {
        const Op& producer = role.ops[before];
        if (!framework.overlaps_products || producer.kind != OpKind::Call) continue;
        BesideProduct& b = beside[to_size(id)];
        b.product =
            std::max(b.product, product_of(program.function(producer.function()), true, cluster));
      }
    }
    if (op.kind != OpKind::Call) continue;
    const Function& reader = program.function(op.function());
    for (const OpId before : role.after_of(op)) {
      if (!divides_layer(role.ops[before], OpKind::AllGather)) continue;
      BesideProduct& b = beside[to_size(before)];
      if (narrow && !is_output_layer(reader)) {
        b.size_divisor = static_cast<int>(2 / narrow->bytes);  // whole: 2, or 3 for 4 bits
      }
      if (framework.overlaps_products) {
        b.product = std::max(b.product, product_of(reader, false, cluster));
      }
    }
  }
  return beside;
}

std::vector<std::vector<Bytes>> moved_parameters(const Program& program, const Role& role,
                                                 const FrameworkSpec& framework) {
  if (!(framework.parameter_part.v > 0)) return {};
  // Smaller ones are on every rank (deepspeed/runtime/zero/constants.py,
  // stage3_param_persistence_threshold).
  constexpr std::int64_t kKeptWhole = 100000;
  std::vector<std::vector<Bytes>> moved(role.ops.size());
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.ops[id];
    const bool gathers = op.kind == OpKind::AllGather && op.stream == Stream::Gather;
    if (!gathers && op.kind != OpKind::ReduceScatter) continue;
    const Buffer& whole = role.buffer(role.args_of(op)[gathers ? 1 : 0]);
    const std::int64_t members = group_size(program.mesh, program.group(op.group()));
    for (const Unit& unit : role.units) {
      const std::int64_t size = size_of(whole.dtype);
      if (unit.shard_group != op.group() || unit.shard_elements * members * size != whole.bytes.v) {
        continue;
      }
      const int parts =
          unit.split_group.valid() ? group_size(program.mesh, program.group(unit.split_group)) : 1;
      for (const UnitParameter& p : unit.parameters) {
        const Parameter& parameter = program.parameters[p.parameter];
        const std::int64_t held = held_elements(parameter, parts, p.sections);
        if (held > kKeptWhole) moved[to_size(id)].push_back(Bytes{held * size});
      }
      break;
    }
  }
  return moved;
}

std::vector<std::int64_t> launch_times(const Program& program, const Role& role,
                                       const FrameworkSpec& framework) {
  if (!(framework.host_kernel.v > 0) || framework.launch_blocking) return {};
  const SimTime kernel = to_sim_time(framework.host_kernel);
  std::vector<std::int64_t> times;
  SimTime launched{};
  for (const Op& op : role.ops) {
    const bool computes = op.kind == OpKind::Call && op.stream != Stream::Host;
    const auto kernels =
        computes ? static_cast<std::int64_t>(program.function(op.function()).kernels.size()) : 1;
    launched = std::min(launched + repeated(kernels, kernel), kLongestTime);
    times.push_back(launched.count());
  }
  return times;
}

}  // namespace lockstep::sim
