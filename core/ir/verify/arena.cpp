#include "core/ir/verify/arena.hpp"

#include "core/base/cell_map.hpp"
#include "core/ir/lifetimes.hpp"
#include "core/ir/users.hpp"

namespace lockstep::verification {
namespace {

/// Follows the buffers of a role as they begin.
class Tenancies {
 public:
  Tenancies(const Program& program, RoleId id, const Ranges& ranges, const Repeats& repeats,
            const HappensBefore& order, Faults& faults)
      : program_(program),
        role_id_(id),
        role_(program.roles[id]),
        ranges_(ranges),
        repeats_(repeats),
        order_(order),
        faults_(faults),
        uses_(role_.buffers.size()),
        arenas_{{arena(Tier::Device), arena(Tier::Host), arena(Tier::Drive)}} {}

  void check() {
    find_uses();
    for (const BufferId id : role_.buffers.ids()) {
      if (role_.buffer(id).persistent() && !faults_.full()) begin(id);
    }
    for (const BufferId id : temporaries_by_first(role_)) {
      if (faults_.full()) return;
      uses_of_it_.clear();
      visit_uses(id, [this](const Use& use) { uses_of_it_.push_back(use); });
      check_lifetime(id);
      begin(id);
    }
  }

 private:
  /// Who had bytes of an arena last: a buffer that may be alive.
  struct Tenancy {
    BufferId newest;
    BufferId used;  // the newest of those that ops use
  };
  CellMap<Tenancy> arena(Tier tier) const {
    const std::int64_t bytes = role_.arena_of(tier).v;
    return {bytes, bytes > 0 ? role_.buffers.size() : 0};
  }

  /// Asks the ops about buffers that stand for no others. Those that do are used as these are.
  void find_uses() {
    IndexVector<BufferId, BufferId> asked(role_.buffers.size());  // the root, if ops are asked
    for (const BufferId id : asked.ids()) {
      const BufferId root = ranges_.root(id);
      const bool repeated = repeats_.original(role_id_, root) != root;
      if (!repeated && !role_.buffer(root).persistent()) asked[id] = root;
    }
    for (const OpId id : role_.ops.ids()) {
      const Op& op = role_.op(id);
      for (const BufferId argument : role_.args_of(op)) {
        const BufferId root = asked[argument];
        if (root.valid()) uses_.add(root, op.stream, id);
      }
    }
  }

  struct Use {
    Stream stream;
    OpId first, last;
  };
  /// Calls visit(use) for each stream that uses a root.
  template <class Visit>
  void visit_uses(BufferId root, Visit&& visit) const {
    const BufferId original = repeats_.original(role_id_, root);
    if (original == root) {
      uses_.visit(root, [&](const StreamUses::Use& use) {
        visit(Use{use.stream, use.first, use.last});
      });
    } else {
      const auto own = repeats_.counterparts(role_id_, repeats_.owner(role_id_, root));
      uses_.visit(original, [&](const StreamUses::Use& use) {
        visit(Use{use.stream, own(use.first), own(use.last)});
      });
    }
  }

  void check_lifetime(BufferId id) {
    const Buffer& buffer = role_.buffer(id);
    bool outside = false;
    for (const Use& use : uses_of_it_) {
      outside = outside || use.first < buffer.first() || buffer.last() < use.last;
    }
    if (!outside) return;
    for (const OpId op : role_.ops.ids()) {
      if (buffer.first() <= op && op <= buffer.last()) continue;
      for (const BufferId argument : role_.args_of(role_.op(op))) {
        if (ranges_.root(argument) == id) add_use_outside_life(op, id);
      }
    }
  }

  /// Gives a buffer its bytes of the arena, and checks that no living buffer has any of them, and
  /// that its users wait for those who have used them.
  void begin(BufferId id) {
    const Buffer& buffer = role_.buffer(id);
    const bool used = !uses_of_it_.empty();
    BufferId living, newest, last;
    Users before;
    arenas_[buffer.tier].visit(
        buffer.offset, buffer.offset + buffer.bytes.v, [&](Tenancy& tenancy) {
          if (tenancy.newest != newest) {
            newest = tenancy.newest;
            if (lives(newest, buffer.first())) living = newest;
          }
          tenancy.newest = id;
          if (tenancy.used.valid() && tenancy.used != last) {
            last = tenancy.used;
            visit_uses(last, [&](const Use& use) { before.add(use.stream, use.last.v); });
          }
          // Those who used the bytes before it need not be remembered: who has waited for its users
          // has waited for all that they have waited for.
          if (used) tenancy.used = id;
        });
    if (living.valid()) return add_overlap(id, living);
    // What the first op of a stream has waited for, those behind it need not be asked about.
    for (const Use& use : uses_of_it_) {
      const OpId earlier = order_.first_unordered(before, use.first);
      if (earlier.valid()) add_use_too_early(use.first, id, earlier);
    }
  }

  /// Whether a buffer that began before is alive at the op, or at all if the op is invalid.
  bool lives(BufferId id, OpId at) const {
    if (!id.valid()) return false;
    const Buffer& buffer = role_.buffer(id);
    return buffer.persistent() || buffer.last() >= at;
  }

  void add_use_outside_life(OpId id, BufferId root) {
    const Buffer& buffer = role_.buffer(root);
    faults_.add(op_at(program_, role_, id) + " uses " + buffer_name(program_, role_, root) +
                (id < buffer.first()
                     ? " before it is allocated, at %" + std::to_string(buffer.first().v)
                     : " after it is freed: use after free; its last op is %" +
                           std::to_string(buffer.last().v) + " " +
                           describe(program_, role_, buffer.last())));
  }

  void add_overlap(BufferId id, BufferId other) {
    const Buffer& buffer = role_.buffer(id);
    const std::string when = buffer.persistent()
                                 ? " for the whole step"
                                 : " at %" + std::to_string(buffer.first().v) + " (" +
                                       describe(program_, role_, buffer.first()) + ")";
    faults_.add("rank " + std::to_string(role_.ranks.front()) + ": buffers " +
                buffer_name(program_, role_, id) + " and " + buffer_name(program_, role_, other) +
                " overlap in the arena and are alive together" + when);
  }

  void add_use_too_early(OpId id, BufferId root, OpId earlier) {
    faults_.add(op_at(program_, role_, id) + " uses " + buffer_name(program_, role_, root) +
                ", which overlaps in the arena with a buffer that %" + std::to_string(earlier.v) +
                " " + describe(program_, role_, earlier) + " uses, and does not wait for it");
  }

  const Program& program_;
  const RoleId role_id_;
  const Role& role_;
  const Ranges& ranges_;
  const Repeats& repeats_;
  const HappensBefore& order_;
  Faults& faults_;
  StreamUses uses_;              // of roots that have a lifetime and stand for no others
  std::vector<Use> uses_of_it_;  // of the buffer that begins, unless it is persistent
  IndexArray<Tier, CellMap<Tenancy>, kNumTiers> arenas_;
};

}  // namespace

void check_arena(const Program& program, RoleId role, const Ranges& ranges, const Repeats& repeats,
                 const HappensBefore& order, Faults& faults) {
  Tenancies(program, role, ranges, repeats, order, faults).check();
}

}  // namespace lockstep::verification
