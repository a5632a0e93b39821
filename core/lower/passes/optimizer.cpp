// optimizer: adds the norm of the gradients, by which they are clipped, the update of every unit by
// its rule (core/lower/update), and the metrics of the step.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/lower/update/clip.hpp"
#include "core/lower/update/update_rule.hpp"

namespace lockstep {
namespace {

/// The update of a unit, of which some parts are written.
struct Turn {
  UnitUpdate update;
  std::vector<UpdatePart> parts;
  std::size_t written = 0;

  bool has_several() const { return parts.size() > 1; }
  void write_next() { parts[written++].write(); }
  /// Writes parts up to one that does not come so early.
  void write_ahead(Lead lead) {
    while (written < parts.size() && parts[written].lead == lead) write_next();
  }
};

class OptimizerStep : OpWriter {
 public:
  OptimizerStep(Draft& draft, DraftRole& out) : OpWriter{draft, out.role, Phase::O}, out_(out) {}

  void run() {
    if (!out_.updates.empty()) {
      update_under_way();
    } else {
      update_all(clip(draft, out_));
    }
    if (out_.losses.valid()) report_loss();
  }

 private:
  /// The updates of all units that are trained. They stay where they are: parts refer to them.
  std::vector<std::unique_ptr<Turn>> turns(BufferId coefficient) {
    std::vector<std::unique_ptr<Turn>> turns;
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      if (!out_.units[u].trained()) continue;
      auto turn = std::make_unique<Turn>(Turn{{draft, out_, u, coefficient}, {}});
      turn->parts = rule_of(turn->update.optimizer(), turn->update.layout()).parts(turn->update);
      turns.push_back(std::move(turn));
    }
    return turns;
  }

  /// Updates all units, with what they communicate as early as their rules say (Lead).
  void update_all(BufferId coefficient) {
    const auto all = turns(coefficient);
    for (std::size_t k = 0, most = 1; k < most; ++k) {
      for (const auto& turn : all) {
        most = std::max(most, turn->parts.size());
        if (k < turn->parts.size() && turn->parts[k].lead == Lead::AllUnits) turn->write_next();
      }
    }
    for (auto turn = all.begin(); turn != all.end(); ++turn) {
      while ((*turn)->written + 1 < (*turn)->parts.size()) (*turn)->write_next();
      if ((*turn)->has_several()) {
        const auto next = std::find_if(turn + 1, all.end(),
                                       [](const auto& later) { return later->has_several(); });
        if (next != all.end()) (*next)->write_ahead(Lead::OneUnit);
      }
      finish(**turn);
    }
  }

  /// With several updates in a step, puts each where its last gradient is ready.
  void update_under_way() {
    std::vector<Insertion> insertions;
    const std::size_t end = role.ops.size();
    for (std::size_t k = 0; k < out_.updates.size(); ++k) {
      const DraftUpdate& next = out_.updates[k];
      for (std::size_t u = 0; u < out_.units.size(); ++u) {
        if (out_.units[u].trained()) out_.units[u].reduced = next.gradients[u];
      }
      for (const auto& turn : turns({})) finish(*turn);
      for (std::size_t i = end; i < role.ops.size(); ++i) {
        const auto args = role.args_of(role.ops[i]);
        insertions.push_back({next.place, role.ops[i], {args.begin(), args.end()}});
        insertions.back().op.microbatch = static_cast<Microbatch>(k);
      }
      role.ops.resize(end);
    }
    insert_ops(role, std::move(insertions));
  }

  /// Writes what is left of an update, and what makes the new weights those of the forward pass.
  void finish(Turn& turn) {
    UnitUpdate& update = turn.update;
    const BufferId own = update.own();
    while (turn.written < turn.parts.size()) turn.write_next();
    const Unit& unit = update.unit();
    if (unit.has(StateKind::Master)) {  // rounds it to the parameters' own type
      const BufferId master = unit.states[StateKind::Master];
      update.call(copy_function(draft, unit.shard_elements, update.dtype_of(master),
                                update.dtype_of(own), false),
                  {master, own});
    }
    if (unit.whole_param && !unit.gathered_late) {
      update.communicate(OpKind::AllGather, Stream::Gather, unit.shard_group, {own, unit.param()});
    }
  }

  void report_loss() {
    const DType sums = draft.dtype_of(BufferKind::Metric);
    const std::int64_t m = role.buffer(out_.losses).bytes.v / size_of(sums);
    const BufferId loss = buffer(BufferKind::Metric, "loss", 1);
    call(one_kernel("loss", bare_kernel(KernelKind::Sum, sums, {m}), {{"losses", sums}},
                    {{"loss", sums}}),
         {out_.losses, loss});
    std::vector<int> ends;  // the pipeline ranks on which some of the microbatches end
    for (std::size_t r = 0; r < draft.roles.size(); ++r) {
      if (draft.roles[r].losses.valid()) ends.push_back(static_cast<int>(r));
    }
    const auto add_up = [&](GroupId group) {
      communicate(OpKind::AllReduce, Stream::Reduce, group, {loss});
    };
    // Those of copies of the model have other microbatches; those that divide the vocabulary all.
    if (draft.schedule.copies > 1 && ends.size() > 1) add_up(pipeline_group(draft, ends));
    if (draft.scenario.strategy.gradient_ranks() > 1) add_up(data_group(draft));
    copy(OpKind::DeviceToHost, HostData::Loss, loss);
  }

  DraftRole& out_;
};

}  // namespace

void optimizer(Draft& draft) {
  if (draft.model.units.empty()) return;  // the synthetic model has nothing to update
  for (DraftRole& role : draft.roles) {
    OptimizerStep(draft, role).run();
    std::vector<Unit>& units = role.role.units;
    units.insert(units.end(), role.statistics.begin(), role.statistics.end());
  }
}

}  // namespace lockstep
