// versions: makes pipelines that never drain update weights while microbatches are in flight, and
// keep the versions that those have read.
// - PipeDream (Harlap et al. 2018): a stage updates after its backward pass of every microbatch,
//   and a backward pass reads what its forward pass read (weight stashing).
// - PipeDream-2BW (Narayanan et al. 2021): gradients of a group of microbatches are accumulated,
//   and all stages read the version before the latest, so that weights are one update late and
//   there are two versions.
#include <algorithm>
#include <map>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// An update of the weights in the middle of a step.
struct WeightUpdate {
  std::size_t place = 0;            // it comes before the op that has this index
  std::vector<BufferId> gradients;  // by unit
  std::vector<Insertion> before;    // ops to insert before it, at the same place
};

class Versioner {
 public:
  Versioner(Draft& draft, DraftRole& out)
      : draft_(draft),
        out_(out),
        group_(draft.scenario.microbatches_per_update()),
        updates_(draft.scenario.updates_per_step()) {}

  void run() {
    accumulate_by_update();
    redirect_reads();
    std::vector<Insertion> insertions;
    for (std::size_t k = 0; k < updates_.size(); ++k) {
      for (Insertion& insertion : updates_[k].before) {
        insertion.before = updates_[k].place;
        insertion.op.microbatch = static_cast<Microbatch>(k);
        insertions.push_back(std::move(insertion));
      }
    }
    const IndexVector<OpId, OpId> moved_to = insert_ops(out_.role, std::move(insertions));
    for (WeightUpdate& update : updates_) {
      const OpId next = moved_to[update.place];
      out_.updates.push_back({to_size(next), std::move(update.gradients)});
    }
  }

 private:
  void accumulate_by_update() {
    for (WeightUpdate& update : updates_) update.gradients.resize(out_.units.size());
    for (const MicrobatchGradient& g : split_by_microbatch(draft_, out_, group_)) {
      const Microbatch last = out_.role.ops[g.ready].microbatch;
      WeightUpdate& update = updates_[last / group_];
      update.gradients[g.unit] = g.buffer;
      update.place = std::max(update.place, g.ready + 1);
      const UnitLayout& layout = layout_of(draft_, out_.units[g.unit]);
      if (replicas(draft_, layout) == 1) continue;
      update.before.push_back({0,
                               collective(OpKind::AllReduce, Stream::Reduce,
                                          replica_group(draft_, layout), layer_of(out_, g.unit)),
                               {g.buffer}});
    }
  }

  /// How many updates are in the weights when the op at `place` runs.
  int latest(std::size_t place) const {
    return static_cast<int>(
        std::count_if(updates_.begin(), updates_.end(),
                      [&](const WeightUpdate& update) { return update.place <= place; }));
  }
  int wanted(Microbatch microbatch, std::size_t place) {
    const ScheduleRules& rules = rules_of(draft_.scenario.strategy.pipeline_parallel_schedule);
    if (rules.versions == WeightVersions::Double) return std::max(0, microbatch / group_ - 1);
    // The forward pass comes first and fixes the version of its microbatch.
    return read_by_.try_emplace(microbatch, latest(place)).first->second;
  }

  /// Copies a version before the update that replaces it, if it is read after that update.
  void redirect_reads() {
    Role& role = out_.role;
    IndexVector<BufferId, int> unit_of(role.buffers.size(), -1);
    for (std::size_t u = 0; u < role.units.size(); ++u) {
      if (!role.units[u].frozen) unit_of[role.units[u].param()] = static_cast<int>(u);
    }
    std::map<std::pair<std::size_t, int>, BufferId> copies;  // by unit and version
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      const Op& op = role.ops[i];
      for (std::uint32_t a = op.args_begin; a < op.args_begin + op.args_count; ++a) {
        const int u = unit_of[role.args[a]];
        if (u < 0) continue;
        const int version = wanted(op.microbatch, i);
        if (version == latest(i)) continue;
        const std::size_t unit = to_size(u);
        const auto [at, fresh] = copies.try_emplace({unit, version});
        if (fresh) at->second = copy(unit, version);
        role.args[a] = at->second;
      }
    }
  }

  BufferId copy(std::size_t u, int version) {
    const Unit& unit = out_.role.units[u];
    Buffer stashed = out_.role.buffer(unit.param());
    stashed.kind = BufferKind::ParamVersion;
    const BufferId id = add_buffer(out_.role, stashed);
    Op op;
    op.phase = Phase::O;
    op.target = copy_function(draft_, unit.elements, stashed.dtype, stashed.dtype, false).v;
    op.layer = static_cast<std::int16_t>(layer_of(out_, u));
    updates_[version].before.push_back({0, op, {unit.param(), id}});
    return id;
  }

  Draft& draft_;
  DraftRole& out_;
  const int group_;  // number of microbatches from update to update
  IndexVector<int, WeightUpdate> updates_;
  std::map<Microbatch, int> read_by_;  // by microbatch: the version that it reads
};

}  // namespace

void versions(Draft& draft) {
  if (draft.model.units.empty() || draft.scenario.updates_per_step() == 1) return;
  for (DraftRole& out : draft.roles) Versioner(draft, out).run();
}

}  // namespace lockstep
