#include "core/memory/device_memory.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/cluster/narrow_products.hpp"
#include "core/format/format.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

/// The workspace that PyTorch gives to cuBLAS (aten/src/ATen/cuda/CublasHandlePool.cpp): 32 MiB
/// from Hopper on, and ":4096:2:16:8" before, in KiB: 2 of 4096 and 8 of 16.
constexpr std::int64_t kWorkspace = 32 * kMebibyte;
constexpr std::int64_t kWorkspaceBeforeHopper = (2 * 4096 + 8 * 16) * std::int64_t{1024};

/// What NCCL allocates for a connection of a channel: the receiver's buffers of the three
/// protocols, of 4 MiB, 4.7 MiB and 0.5 MiB, and the sender's structure, each rounded up to 2 MiB
/// (NVIDIA/nccl, src/init.cc, computeBuffSizes; src/transport/p2p.cc; issue 1685).
constexpr std::int64_t kConnection = 12 * kMebibyte;
/// How many connections a channel has on average: one of its ring and one of its tree, and if there
/// are more than two ranks, half of them have one more in the tree. 24 channels of A100s took 544
/// and 688 MB (NVIDIA/nccl, issue 964).
double connections(int ranks) { return ranks > 2 ? 2.5 : 2; }

/// The program's own states of AdamW where masters are float32: the master and two moments.
constexpr double kOptimizerBytes = 12;
std::int64_t workspace(const DeviceSpec& device) {
  return device.compute_capability >= 9 ? kWorkspace : kWorkspaceBeforeHopper;
}

/// A number with as many digits as it needs.
std::string plain(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}
std::string count(std::int64_t value) { return count_text(static_cast<double>(value)); }

bool is_16_bit(DType type) { return type == DType::BF16 || type == DType::F16; }
bool belongs_to_block(const Function& function) {
  return function.name.kind() == FunctionName::Kind::Block;
}

/// The terms of one role, one function each.
class Terms {
 public:
  Terms(const Program& program, const Role& role, const ClusterSpec& cluster)
      : program_(program),
        role_(role),
        cluster_(cluster),
        framework_(cluster.framework),
        narrow_(narrow_products(cluster.device, cluster.framework)) {}

  std::vector<MemoryTerm> all() {
    gaps();
    one_by_one();
    workspaces();
    optimizer_states();
    gradient_copies();
    gradient_placeholders();
    narrow_weights();
    narrow_activations();
    context();
    communicators();
    blocks();
    return std::move(terms_);
  }

 private:
  void add(std::string name, double bytes, std::string formula, MemoryPlace place,
           bool given_back = false) {
    const auto whole = static_cast<std::int64_t>(bytes);
    if (whole == 0) return;
    terms_.push_back({std::move(name), {whole}, std::move(formula), place, given_back});
  }

  /// Subtracts the gaps between the arena's buffers, which a caching allocator does not have: what
  /// a rank has alive at once is less than its arena. The allocator has `fragments` instead.
  void gaps() {
    if (!framework_.caching_allocator) return;
    const Bytes alive = most_alive(role_);
    add("gaps of the arena", static_cast<double>(alive.v - role_.arena.v),
        bytes_text(alive) + " alive at once - arena", MemoryPlace::Tensors);
  }

  bool is_of_block(const Buffer& b) const {
    return b.name >= 0 && program_.names[to_size(b.name)].starts_with("blocks.");
  }

  /// Where parameters move one by one, no more than one of a block's is gathered, and no more than
  /// one gradient is whole; the program has all of a unit.
  void one_by_one() {
    if (!(framework_.parameter_part.v > 0)) return;
    std::int64_t largest = 0;
    each_block_weight([&](const Parameter&, std::int64_t held, const Unit& unit) {
      if (unit.shard_group.valid() && !unit.whole_param) largest = std::max(largest, held);
    });
    if (largest == 0) return;
    const OpId at = fullest_op(role_);
    for (const BufferKind kind : {BufferKind::ParamFull, BufferKind::Grad}) {
      std::int64_t units = 0, one = 0;
      for (const Buffer& b : role_.buffers) {
        if (b.kind != kind || b.tier != Tier::Device || b.is_view() || b.persistent()) continue;
        if (!is_alive(b, at) || !is_of_block(b)) continue;
        units += b.bytes.v;
        one = largest * size_of(b.dtype);
      }
      one_by_one_ += std::min<std::int64_t>(0, one - units);
    }
    add("parameters and gradients one by one", static_cast<double>(one_by_one_),
        "largest parameter, " + count(largest) + " elements, instead of whole blocks",
        MemoryPlace::Tensors);
  }

  /// What optimizers keep less of a parameter than a float32 master and two float32 moments.
  void optimizer_states() {
    std::int64_t elements = 0;
    for (const Unit& unit : role_.units) {
      if (!unit.has(StateKind::Master) || !unit.has(StateKind::Moment2)) continue;
      const Buffer& moment = role_.buffer(unit.states[StateKind::Moment2]);
      if (moment.dtype == DType::F32 && moment.tier == Tier::Device)
        elements += unit.shard_elements;
    }
    const double fewer = framework_.optimizer_bytes - kOptimizerBytes;
    add("optimizer's states", fewer * static_cast<double>(elements),
        "(" + plain(framework_.optimizer_bytes) + " - " + plain(kOptimizerBytes) + ") B x " +
            count(elements) + " parameters",
        MemoryPlace::Tensors);
  }

  void workspaces() {
    const std::int64_t bytes = workspace(cluster_.device);
    add("workspaces of cuBLAS", static_cast<double>(framework_.workspaces * bytes),
        plain(framework_.workspaces) + " x " + bytes_text({bytes}), MemoryPlace::Tensors);
  }

  /// The elements of the parameters of which this rank computes gradients. Parameters count whole
  /// where they are gathered only for the optimizer.
  std::int64_t own_elements() const {
    std::int64_t elements = 0;
    for (const Unit& unit : role_.units) {
      if (unit.frozen) continue;
      elements +=
          unit.whole_param || !unit.shard_group.valid() ? unit.elements : unit.shard_elements;
    }
    return elements;
  }
  bool sums_in_float32() const {
    return std::any_of(role_.buffers.begin(), role_.buffers.end(), [](const Buffer& b) {
      return b.kind == BufferKind::Grad && b.dtype == DType::F32;
    });
  }

  void gradient_copies() {
    if (!framework_.gradient_copies || !is_16_bit(program_.dtype) || !sums_in_float32()) return;
    const std::int64_t elements = own_elements();
    add("gradients in 16 bits", 2.0 * static_cast<double>(elements),
        "2 B x " + count(elements) + " parameters", MemoryPlace::Tensors);
  }

  int parts(const Unit& unit) const {
    return unit.split_group.valid() ? group_size(program_.mesh, program_.group(unit.split_group))
                                    : 1;
  }
  /// Calls visit(parameter, elements that this rank holds before sharding, unit) for the weights of
  /// products in blocks, which are the parameters of two dimensions or more.
  template <class Visit>
  void each_block_weight(Visit&& visit) const {
    for (const Unit& unit : role_.units) {
      for (const UnitParameter& used : unit.parameters) {
        const Parameter& p = program_.parameters[used.parameter];
        if (p.shape.size() >= 2 && p.name.starts_with("blocks.")) {
          visit(p, held_elements(p, parts(unit), used.sections), unit);
        }
      }
    }
  }

  void gradient_placeholders() {
    if (!framework_.gradient_placeholders || !framework_.fused_gradient_accumulation) return;
    if (!is_16_bit(program_.dtype)) return;
    std::set<std::vector<std::int64_t>> shapes;
    std::int64_t elements = 0;
    each_block_weight([&](const Parameter& p, std::int64_t held, const Unit& unit) {
      if (unit.frozen) return;
      if (shapes.insert(p.shape).second) elements += held;
    });
    add("placeholders of gradients", 2.0 * static_cast<double>(elements),
        "2 B x " + count(elements) + " elements of " + std::to_string(shapes.size()) +
            " shapes of weights",
        MemoryPlace::Tensors);
  }

  std::string bits() const { return narrow_->bytes < 1 ? "4 bits" : "8 bits"; }

  void narrow_weights() {
    if (!narrow_ || framework_.fp8_parameters) return;
    std::int64_t elements = 0;
    each_block_weight([&](const Parameter&, std::int64_t held, const Unit& unit) {
      const bool gathered = unit.shard_group.valid() && !unit.whole_param;  // cast anew every time
      if (!gathered) elements += held;
    });
    add("weights in " + bits() + ", and transposed",
        2.0 * narrow_->bytes * static_cast<double>(elements),
        "2 x " + plain(narrow_->bytes) + " B x " + count(elements) + " weights of blocks",
        MemoryPlace::Tensors);
  }

  void narrow_activations() {
    if (!narrow_ || !is_16_bit(program_.dtype)) return;
    const OpId at = fullest_op(role_);
    double bytes = 0;
    std::int64_t calls = 0;
    for (const Op& op : role_.ops) {
      if (op.kind != OpKind::Call || op.phase != Phase::F) continue;
      const Function& function = program_.function(op.function());
      if (!belongs_to_block(function)) continue;
      const auto args = role_.args_of(op);
      const bool kept = std::any_of(args.begin(), args.end(), [&](BufferId id) {
        const Buffer& b = role_.buffer(role_.root(id));
        return b.name >= 0 && program_.names[to_size(b.name)].starts_with("saved") &&
               b.first() <= at && at <= b.last();
      });
      if (!kept) continue;
      bytes += saved_by_narrow_inputs(function, *narrow_);
      ++calls;
    }
    add("inputs of products in " + bits(), -bytes,
        "-" + plain(2 - narrow_->bytes) + " B an element, of " + count(calls) +
            " functions of blocks",
        MemoryPlace::Tensors);
  }

  void context() {
    add("driver's context", static_cast<double>(framework_.context.v), "framework.context_mb",
        MemoryPlace::Process);
  }

  void communicators() {
    if (cluster_.network.library != CollectiveLibrary::Nccl) return;
    const int world = program_.mesh.world_size();
    std::set<std::int32_t> groups;
    bool messages = false;
    for (const Op& op : role_.ops) {
      if (is_collective(op.kind)) groups.insert(op.target);
      messages |= is_p2p(op.kind);
    }
    std::vector<int> sizes;
    for (const std::int32_t group : groups) {
      sizes.push_back(group_size(program_.mesh, program_.group(GroupId{group})));
    }
    if (messages) sizes.push_back(program_.mesh.size_of("pp"));
    sizes.insert(sizes.end(), to_size(framework_.communicators), world);
    double all = 0;
    int used = 0;
    for (const int size : sizes) {
      if (size < 2) continue;
      all += connections(size);
      ++used;
    }
    add("buffers of NCCL", all * cluster_.network.channels * static_cast<double>(kConnection),
        std::to_string(used) + " communicators, " + plain(all) + " connections x " +
            std::to_string(cluster_.network.channels) + " channels x " + bytes_text({kConnection}),
        MemoryPlace::Process);
  }

  void blocks() {
    if (!framework_.caching_allocator) return;
    std::int64_t transient = most_alive(role_).v + one_by_one_;
    for (const Buffer& b : role_.buffers) {
      if (b.persistent() && b.tier == Tier::Device) transient -= b.bytes.v;
    }
    const auto part = [&](const char* name, double fraction, bool given_back) {
      add(name, fraction * static_cast<double>(transient),
          plain(fraction) + " x " + bytes_text({transient}) + " that is not persistent",
          MemoryPlace::Blocks, given_back);
    };
    part("lost between blocks", framework_.fragments, false);
    part("held by the allocator", framework_.cached, true);
  }

  const Program& program_;
  const Role& role_;
  const ClusterSpec& cluster_;
  const FrameworkSpec& framework_;
  const std::optional<NarrowProducts> narrow_;
  std::int64_t one_by_one_ = 0;  // bytes of that term, which are not lost between blocks either
  std::vector<MemoryTerm> terms_;
};

}  // namespace

MemoryFigures DeviceMemory::figures() const {
  MemoryFigures sums{arena, arena, arena};
  for (const MemoryTerm& term : terms) {
    if (term.place == MemoryPlace::Tensors) sums.allocated += term.bytes;
    sums.process += term.bytes;
    if (!term.given_back) sums.needed += term.bytes;
  }
  return sums;
}

DeviceMemory device_memory(const Program& program, const Role& role, const ClusterSpec& cluster) {
  DeviceMemory memory{role.arena, {}};
  if (!cluster.device.is_host()) memory.terms = Terms(program, role, cluster).all();
  return memory;
}

MemoryFigures most_memory(const Program& program, const ClusterSpec& cluster) {
  MemoryFigures most;
  for (const Role& role : program.roles) {
    const MemoryFigures figures = device_memory(program, role, cluster).figures();
    if (figures.needed > most.needed) most = figures;
  }
  return most;
}

double saved_by_narrow_inputs(const Function& function, const NarrowProducts& narrow) {
  if (!belongs_to_block(function)) return 0;
  std::set<std::pair<int, std::int64_t>> results_of_attention, seen;
  double bytes = 0;
  for (const Kernel& kernel : function.kernels) {
    if (kernel.kind == KernelKind::AttentionForward && !kernel.out.empty()) {
      results_of_attention.insert({kernel.out[0].formal, kernel.out[0].offset});
    }
    if (kernel.kind != KernelKind::Gemm || kernel.in.empty() || kernel.in[0].formal < 0) continue;
    const Operand& x = kernel.in[0];
    if (!function.formals[to_size(x.formal)].name.starts_with("saved")) continue;
    if (!seen.insert({x.formal, x.offset}).second) continue;
    const auto elements = static_cast<double>(kernel.dims[0] * kernel.dims[2]);
    const bool both = results_of_attention.count({x.formal, x.offset}) > 0;
    bytes += elements * (both ? -narrow.bytes : 2 - narrow.bytes);
  }
  return bytes;
}

Bytes least_beside_tensors(const ClusterSpec& cluster, int world, const std::vector<int>& groups) {
  if (cluster.device.is_host()) return {};
  const FrameworkSpec& framework = cluster.framework;
  double all = 0;
  if (cluster.network.library == CollectiveLibrary::Nccl) {
    for (const int size : groups) all += size < 2 ? 0 : connections(size);
    if (world > 1) all += framework.communicators * connections(world);
  }
  return framework.context + Bytes{framework.workspaces * workspace(cluster.device)} +
         Bytes{static_cast<std::int64_t>(all * cluster.network.channels *
                                         static_cast<double>(kConnection))};
}

Bytes memory_per_rank(const ClusterSpec& cluster, int ranks) {
  const int sharing = std::max(1, std::min(cluster.ranks_per_device, ranks));
  return Bytes{cluster.device.memory.v / sharing};
}

bool is_alive(const Buffer& buffer, OpId at) {
  return buffer.persistent() || (buffer.first() <= at && at <= buffer.last());
}

namespace {

/// The bytes of buffers with a lifetime that are alive at each op.
std::vector<std::int64_t> alive_by_op(const Role& role, Tier tier) {
  std::vector<std::int64_t> change(role.ops.size() + 1, 0);
  for (const Buffer& b : role.buffers) {
    if (b.is_view() || b.persistent() || b.tier != tier) continue;
    change[to_size(b.first())] += b.bytes.v;
    change[to_size(b.last()) + 1] -= b.bytes.v;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

}  // namespace

OpId fullest_op(const Role& role, Tier tier) {
  const std::vector<std::int64_t> alive = alive_by_op(role, tier);
  return from_index<OpId>(
      static_cast<std::size_t>(std::max_element(alive.begin(), alive.end()) - alive.begin()));
}

Bytes most_alive(const Role& role, Tier tier) {
  const std::vector<std::int64_t> alive = alive_by_op(role, tier);
  std::int64_t bytes = *std::max_element(alive.begin(), alive.end());
  for (const Buffer& b : role.buffers) {
    if (b.persistent() && b.tier == tier) bytes += b.bytes.v;
  }
  return {bytes};
}

}  // namespace lockstep
