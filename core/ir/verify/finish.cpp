#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/ir/verify/repeats.hpp"
#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

/// Checks that sums have all their terms. A gradient has one for every layer and microbatch of the
/// update that uses its unit, and the loss has one for every microbatch.
void Values::finish() {
  std::sort(uses_.begin(), uses_.end());
  uses_.erase(std::unique(uses_.begin(), uses_.end()), uses_.end());
  Microbatch count = 0;
  for (const Use& use : uses_) count = std::max(count, use.microbatch + 1);
  const int per_update = std::max(1, count / std::max(1, program_.updates_per_step));
  std::map<std::pair<std::int32_t, std::int32_t>, Terms> of_update;
  std::map<std::int32_t, Terms> of_step;
  IndexVector<Microbatch, bool> seen(count);
  Terms losses;
  for (const Use& use : uses_) {
    const auto mb = static_cast<std::uint64_t>(use.microbatch);
    const Terms term = Terms::of(static_cast<std::uint64_t>(use.layer) << 32 | mb);
    Terms& of = of_update[{use.unit, use.microbatch / per_update}];
    of = of + term;
    of_step[use.unit] = of_step[use.unit] + term;
    seen[use.microbatch] = true;
  }
  const Microbatch all = repeats_ != nullptr ? repeats_->microbatches() : count;
  for (Microbatch mb = 0; mb < all; ++mb) {
    const Microbatch followed = repeats_ != nullptr ? repeats_->original(mb) : mb;
    if (followed < count && seen[followed]) losses = losses + loss_of(mb);
  }
  for (const Claim& claim : claims_) {
    const Meaning& sum = claim.sum;
    if (sum.own) continue;
    const Terms wanted = sum.what == Means::Loss ? losses
                         : claim.version < 0     ? of_step[sum.id]
                                                 : of_update[{sum.id, claim.version}];
    if (sum.terms == wanted) continue;
    fault(*claim.run, claim.op,
          text(sum) + " is the sum of " + number(sum.terms.count) + " terms, but should be of " +
              number(wanted.count) +
              (sum.what == Means::Loss ? ", one per microbatch" : ", one per use of its weights") +
              ": some are missing, twice or of another update");
  }
  for (RoleRun& run : runs_) finish(run);
}

/// Checks what a role leaves: loss and norm have left the rank, all layers have been passed, and
/// all parameters are updated.
void Values::finish(RoleRun& run) {
  const OpId end{run.role.ops.next().v - 1};
  if (run.loss.valid() && !run.loss_copied) {
    fault(run, run.loss, "the loss does not leave the rank: device_to_host loss is missing");
  }
  if (run.norm.valid() && !run.norm_copied) {
    fault(run, run.norm, "the norm does not leave the rank: device_to_host grad_norm is missing");
  }
  for (int l = 0; l < run.layers; ++l) {
    const std::int32_t kind = run.kind_of_layer[l];
    if (kind < 0 || run.own_layers[l]) continue;
    const auto wanted = [&](Phase phase) { return segment_counts_[kind][phase]; };
    for (Microbatch mb = 0; mb < run.microbatches; ++mb) {
      const Microbatch followed = repeats_ != nullptr ? repeats_->original(mb) : mb;
      const auto& done = run.segments[run.cell(l, followed)];
      const auto ended = [&](Phase phase) {
        return wanted(phase) > 0 && done[phase] == wanted(phase);
      };
      const bool none = std::all_of(done.begin(), done.end(), [](int n) { return n == 0; });
      const bool backward = ended(Phase::B) || (wanted(Phase::B) == 0 && wanted(Phase::I) == 0) ||
                            (ended(Phase::W) && (ended(Phase::I) || wanted(Phase::I) == 0)) ||
                            (ended(Phase::I) && wanted(Phase::W) == 0);
      if (none || (ended(Phase::F) && backward)) continue;
      fault(run, end,
            "the step ends, but layer " + number(l) + " of microbatch " + number(mb) +
                " has not been passed forward and backward");
    }
  }
  check_weights_after(run, end, run.synchronizing);
  const auto& units = run.role.units;
  const bool trains = std::any_of(units.begin(), units.end(), [](const Unit& unit) {
    return !unit.frozen;  // what is only read is the same everywhere
  });
  if (program_.sync_every > 0 && !unproven_.replicas && trains && !run.synchronizing && !failed_) {
    fault(run, end,
          "the step ends, but nothing brings the replicas together, which train apart: no op is of "
          "phase S");
  }
}

/// Checks that the parameters which a role leaves are updated, and in a step that brings replicas
/// together, that all replicas have taken the same.
void Values::check_weights_after(RoleRun& run, OpId end, bool synchronized) {
  const int updates = program_.updates_per_step + (synchronized ? 1 : 0);
  for (const Unit& unit : run.role.units) {
    if (synchronized) {
      unit.each_state([&](const StateRow& row, BufferId state) {
        if (row.keeper != Keeper::Synchronization) return;
        std::vector<Held> held;
        holds(run, run.ranges.part(state, 0, run.role.buffer(state).bytes.v, Access::Read), held);
        const std::optional<Content> found = unite(held);
        if (found && found->meaning.is(row.kind) && found->meaning.version == 1) return;
        fault(run, end,
              "the step ends, but " + text(Meaning::of(row.kind, unit_ids_.at(unit.name))) +
                  " is not brought up to date");
      });
    }
    const Touch touch =
        run.ranges.part(unit.param(), 0, run.role.buffer(unit.param()).bytes.v, Access::Read);
    run.held(touch.root)
        .visit(touch.begin, touch.end, [&](std::int64_t, std::int64_t, const Content& c) {
          if (!unit.trained()) return;
          const bool updated = c.meaning.what == Means::Weights &&
                               c.meaning.id == unit_ids_.at(unit.name) &&
                               c.meaning.version == updates;
          bool fresh = true;
          for (const int axis : axes_) {
            const auto& pieces = patterns_.at(c.pattern).pieces;
            const Along along = pieces[0].as.placement.along(axis);
            fresh = fresh && (unit.gathered_late || along != Along::Piece) &&
                    (!synchronized || axis != apart_ || along == Along::Same);
          }
          if (updated && fresh) return;
          fault(run, end,
                "the step ends, but the parameters of " + unit.name +
                    (updated ? " are up to date in each rank's own piece alone"
                             : " are " + text(c.meaning) + " after " + number(c.meaning.version) +
                                   " updates of " + number(updates)));
        });
    finish_on_drive(run, unit, end, updates);
    check_low_rank_after(run, unit, end);
  }
}

/// What of a unit lies on a drive was updated in host memory, and has to come back: weights after
/// `updates`, of which a synchronization is one that moments do not take part in.
void Values::finish_on_drive(RoleRun& run, const Unit& unit, OpId end, int updates) {
  if (!unit.has(StateKind::Moment1)) return;
  unit.each_state([&](const StateRow& row, BufferId state) {
    if (row.keeper != Keeper::Optimizer || run.role.buffer(state).tier != Tier::Drive) return;
    const int wanted = row.is_parameters() ? updates : program_.updates_per_step;
    const Touch touch = run.ranges.part(state, 0, run.role.buffer(state).bytes.v, Access::Read);
    run.held(touch.root)
        .visit(touch.begin, touch.end, [&](std::int64_t, std::int64_t, const Content& c) {
          if (c.meaning.version == wanted) return;
          fault(run, end,
                "the step ends, but " + buffer_name(program_, run.role, state) +
                    " on the drive is that after " + number(c.meaning.version) + " updates of " +
                    number(wanted));
        });
  });
}

}  // namespace lockstep::verification
