// synchronize: brings replicas that train apart together, after their update, in every
// sync_every-th step. With local SGD (Stich 2019) all take the mean of their parameters. With
// DiLoCo (Douillard et al. 2023) an outer optimizer, SGD with Nesterov momentum, takes the mean way
// that they have gone since the last synchronization for its gradient, and all take its parameters.
//
// Each rank brings together what its optimizer updates: a shard of a unit or all of it, whatever
// the layout inside a replica. So these ops are the same for all layouts, and come after offload,
// which may have moved the weights to the host: the device computes, and fetches them.
#include <memory>
#include <string>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/draft/one_kernel.hpp"
#include "core/lower/draft/op_writer.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// The synchronization of one unit.
class UnitSynchronization : OpWriter {
 public:
  UnitSynchronization(Draft& draft, DraftRole& out, std::size_t unit)
      : OpWriter{draft, out.role, Phase::S, layer_of(out, unit)},
        index_(unit),
        what_(draft.scenario.strategy.local_sgd),
        type_(sum_type(draft.scenario.training.dtype)) {}

  /// Adds what the outer optimizer keeps.
  void declare_states() {
    const auto state = [&](const char* suffix) {
      const BufferId id = shard_buffer(BufferKind::Outer, unit().name + suffix);
      role.buffers[id].tier = what_.offload ? Tier::Host : Tier::Device;
      return id;
    };
    unit().states[StateKind::Outer] = state(".outer");
    unit().states[StateKind::OuterMomentum] = state(".outer_momentum");
  }

  /// Sums the replicas' terms.
  void begin() {
    term_ = shard_buffer(BufferKind::Comm, "way");
    const BufferId weights =
        fetched(unit().has(StateKind::Master) ? unit().states[StateKind::Master]
                                              : own_parameters(role, unit()));
    std::vector<BufferId> args = {weights};
    if (unit().has(StateKind::Outer)) {
      args.push_back(from_ = fetched(unit().states[StateKind::Outer]));
    }
    args.push_back(term_);
    const DType dtype = role.buffer(weights).dtype;
    const std::int64_t n = unit().shard_elements;
    call(one_kernel(
             "replica_term." + std::to_string(n) + "." + std::string(to_string(dtype)),
             bare_kernel(KernelKind::ReplicaTerm, type_, {n}, {1.0 / draft.program.replicas()}),
             {{"w", dtype}, {from_.valid() ? "from" : "", type_}}, {{"term", type_}}),
         args);
    if (draft.program.replica_dim() >= 0) {
      communicate(OpKind::AllReduce, Stream::Replicate, apart_group(draft), {term_});
    }
  }

  /// Moves the weights to what all replicas take.
  void finish() {
    BufferId result = term_;
    if (from_.valid()) {
      const BufferId momentum = fetched(unit().states[StateKind::OuterMomentum]);
      const std::int64_t n = unit().shard_elements;
      call(one_kernel("outer_sgd." + std::to_string(n),
                      bare_kernel(
                          KernelKind::OuterSgd, type_, {n},
                          {what_.outer_lr, what_.outer_momentum, what_.outer_nesterov ? 1.0 : 0.0}),
                      {{"way", type_}}, {{"w", type_}, {"m", type_}}),
           {term_, from_, momentum});
      bring_back(from_, unit().states[StateKind::Outer]);
      bring_back(momentum, unit().states[StateKind::OuterMomentum]);
      result = from_;
    }
    if (unit().has(StateKind::Master)) take(result, unit().states[StateKind::Master]);
    const BufferId own = own_parameters(role, unit());
    take(result, own);
    if (!unit().whole_param || unit().gathered_late) return;
    communicate(OpKind::AllGather, Stream::Gather, unit().shard_group, {own, unit().param()});
  }

 private:
  Unit& unit() const { return role.units[index_]; }
  /// As many elements as the optimizer updates of the unit.
  BufferId shard_buffer(BufferKind kind, const std::string& name) const {
    return buffer(kind, name, unit().shard_elements, type_);
  }
  /// A buffer on the device with what `id` holds, which may lie on the host.
  BufferId fetched(BufferId id) const {
    if (role.buffer(id).tier == Tier::Device) return id;
    const BufferId here = twin(id);
    add(memory_copy(OpKind::HostToDevice, layer), {id, here});
    return here;
  }
  BufferId twin(BufferId id) const {
    Buffer other = role.buffer(id);
    other.tier = Tier::Device;
    other.offset = 0;
    return add_buffer(role, other);
  }
  /// Brings what was computed in `here` back to `id`, if that is another buffer.
  void bring_back(BufferId here, BufferId id) const {
    if (here != id) add(memory_copy(OpKind::DeviceToHost, layer), {here, id});
  }
  /// Lets weights be what all replicas take, rounded to their type.
  void take(BufferId result, BufferId weights) const {
    const BufferId here = role.buffer(weights).tier == Tier::Host ? twin(weights) : weights;
    const DType to = role.buffer(here).dtype;
    call(copy_function(draft, unit().shard_elements, type_, to, false), {result, here});
    bring_back(here, weights);
  }

  const std::size_t index_;
  const LocalSgdSpec& what_;
  const DType type_;  // of the outer states and of what is summed
  BufferId term_;     // the replica's, then the mean of all
  BufferId from_;     // what the replicas started from, on the device; invalid for local SGD
};

}  // namespace

void synchronize(Draft& draft) {
  if (!draft.scenario.strategy.trains_apart() || draft.model.units.empty()) return;
  for (DraftRole& out : draft.roles) {
    std::vector<UnitSynchronization> units;
    for (std::size_t u = 0; u < out.units.size(); ++u) {
      if (out.units[u].trained()) units.emplace_back(draft, out, u);
    }
    if (draft.scenario.strategy.local_sgd.method == SemiSyncMethod::DiLoCo) {
      for (UnitSynchronization& unit : units) unit.declare_states();
    }
    // The terms of a unit are summed while the unit before it is moved.
    for (std::size_t i = 0; i <= units.size(); ++i) {
      if (i < units.size()) units[i].begin();
      if (i > 0) units[i - 1].finish();
    }
  }
}

}  // namespace lockstep
