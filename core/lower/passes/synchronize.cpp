// synchronize: brings replicas that train apart together, after their update, in every
// sync_every-th step. With local SGD (Stich 2019) all take the mean of their parameters. With
// DiLoCo (Douillard et al. 2023) an outer optimizer, SGD with Nesterov momentum, takes the mean way
// that they have gone since the last synchronization for its gradient, and all take its parameters.
//
// Each rank brings together what its optimizer updates: a shard of a unit or all of it, whatever
// the layout inside a replica. So these ops are the same for all layouts, and come after offload,
// which may have moved the weights to the host: the device computes, and fetches them.
#include <map>
#include <string>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/lower/passes/update_functions.hpp"

namespace lockstep {
namespace {

class Synchronization {
 public:
  Synchronization(Draft& draft, DraftRole& out)
      : draft_(draft),
        role_(out.role),
        units_(out.units),
        out_(out),
        what_(draft.scenario.strategy.local_sgd),
        type_(sum_type(draft.scenario.training.dtype)) {}

  /// The terms of a unit are summed while the unit before it is moved.
  void run() {
    if (what_.method == SemiSyncMethod::DiLoCo) declare_states();
    std::size_t before = kNever;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (!units_[u].trained()) continue;
      begin(u);
      if (before != kNever) finish(before);
      before = u;
    }
    if (before != kNever) finish(before);
  }

 private:
  /// What the parts of the synchronization of a unit hand on.
  struct Way {
    BufferId term;  // the replica's, then the mean of all
    BufferId from;  // what the replicas started from, on the device; invalid for local SGD
  };

  void declare_states() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (!units_[u].trained()) continue;
      Unit& unit = role_.units[u];
      unit.states[StateKind::Outer] = state(u, unit.name + ".outer");
      unit.states[StateKind::OuterMomentum] = state(u, unit.name + ".outer_momentum");
    }
  }
  BufferId state(std::size_t u, const std::string& name) {
    const BufferId id = buffer(u, BufferKind::Outer, name);
    role_.buffers[id].tier = what_.offload ? Tier::Host : Tier::Device;
    return id;
  }
  /// As many elements as the optimizer updates of the unit.
  BufferId buffer(std::size_t u, BufferKind kind, const std::string& name) {
    Buffer buffer;
    buffer.kind = kind;
    buffer.dtype = type_;
    buffer.bytes = Bytes{role_.units[u].shard_elements * size_of(type_)};
    buffer.layer = layer(u);
    buffer.name = draft_.name(name);
    return add_buffer(role_, buffer);
  }
  std::int16_t layer(std::size_t u) const { return static_cast<std::int16_t>(layer_of(out_, u)); }

  void add(Op op, const std::vector<BufferId>& args) {
    op.phase = Phase::S;
    add_op(role_, op, args);
  }
  void call(std::size_t u, FunctionId function, const std::vector<BufferId>& args) {
    Op op;
    op.kind = OpKind::Call;
    op.target = function.v;
    op.layer = layer(u);
    add(op, args);
  }
  /// A buffer on the device with what `id` holds, which may lie on the host.
  BufferId fetched(BufferId id) {
    if (role_.buffer(id).tier == Tier::Device) return id;
    const BufferId here = twin(id);
    add(memory_copy(OpKind::HostToDevice, role_.buffer(id).layer), {id, here});
    return here;
  }
  BufferId twin(BufferId id) {
    Buffer other = role_.buffer(id);
    other.tier = Tier::Device;
    other.offset = 0;
    return add_buffer(role_, other);
  }
  /// Brings what was computed in `here` back to `id`, if that is another buffer.
  void bring_back(BufferId here, BufferId id) {
    if (here != id) add(memory_copy(OpKind::DeviceToHost, role_.buffer(id).layer), {here, id});
  }

  void begin(std::size_t u) {
    const Unit& unit = role_.units[u];
    Way way;
    way.term = buffer(u, BufferKind::Comm, "way");
    const BufferId weights =
        fetched(unit.has(StateKind::Master) ? unit.states[StateKind::Master] : own_param(u));
    std::vector<BufferId> args = {weights};
    if (unit.has(StateKind::Outer))
      args.push_back(way.from = fetched(unit.states[StateKind::Outer]));
    args.push_back(way.term);
    const DType dtype = role_.buffer(weights).dtype;
    const std::int64_t n = role_.units[u].shard_elements;
    const std::string of = std::to_string(n) + "." + std::string(to_string(dtype));
    call(u,
         draft_.function(one_kernel(
             "replica_term." + of,
             bare_kernel(KernelKind::ReplicaTerm, type_, {n}, {1.0 / draft_.program.replicas()}),
             {{"w", dtype}, {way.from.valid() ? "from" : "", type_}}, {{"term", type_}})),
         args);
    if (draft_.program.replica_dim() >= 0) {
      add(collective(OpKind::AllReduce, Stream::Replicate, apart_group(draft_), layer(u)),
          {way.term});
    }
    ways_[u] = way;
  }

  void finish(std::size_t u) {
    const auto [term, from] = ways_[u];
    const Unit unit = role_.units[u];
    BufferId result = term;
    if (from.valid()) {
      const BufferId momentum = fetched(unit.states[StateKind::OuterMomentum]);
      const std::string n = std::to_string(unit.shard_elements);
      call(
          u,
          draft_.function(one_kernel(
              "outer_sgd." + n,
              bare_kernel(KernelKind::OuterSgd, type_, {unit.shard_elements},
                          {what_.outer_lr, what_.outer_momentum, what_.outer_nesterov ? 1.0 : 0.0}),
              {{"way", type_}}, {{"w", type_}, {"m", type_}})),
          {term, from, momentum});
      bring_back(from, unit.states[StateKind::Outer]);
      bring_back(momentum, unit.states[StateKind::OuterMomentum]);
      result = from;
    }
    if (unit.has(StateKind::Master)) take(u, result, unit.states[StateKind::Master]);
    const BufferId own = own_param(u);
    take(u, result, own);
    if (!unit.whole_param || unit.gathered_late) return;
    add(collective(OpKind::AllGather, Stream::Gather, unit.shard_group, layer(u)),
        {own, unit.param()});
  }
  /// Lets weights be what all replicas take, rounded to their type.
  void take(std::size_t u, BufferId result, BufferId weights) {
    const BufferId here = role_.buffer(weights).tier == Tier::Host ? twin(weights) : weights;
    call(u,
         copy_function(draft_, role_.units[u].shard_elements, type_, role_.buffer(here).dtype,
                       false),
         {result, here});
    bring_back(here, weights);
  }
  /// The part of the parameters that the rank updates.
  BufferId own_param(std::size_t u) {
    const Unit& unit = role_.units[u];
    if (!unit.whole_param) return unit.param();
    const Bytes bytes{unit.shard_elements * size_of(role_.buffer(unit.param()).dtype)};
    return add_piece(role_, unit.param(), unit.shard_group, bytes);
  }

  Draft& draft_;
  Role& role_;
  const IndexVector<int, DraftUnit>& units_;
  DraftRole& out_;
  const LocalSgdSpec& what_;
  const DType type_;  // of the outer states and of what is summed
  std::map<std::size_t, Way> ways_;
};

}  // namespace

void synchronize(Draft& draft) {
  if (!draft.scenario.strategy.trains_apart() || draft.model.units.empty()) return;
  for (DraftRole& out : draft.roles) Synchronization(draft, out).run();
}

}  // namespace lockstep
