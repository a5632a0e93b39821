#include "core/ir/verify/arena.hpp"

#include <utility>

#include "core/base/interval_map.hpp"
#include "core/ir/lifetimes.hpp"
#include "core/ir/users.hpp"

namespace lockstep::verification {
namespace {

/// Follows the buffers of a role as they begin and end. Who uses one is asked of its ops alone if
/// its microbatch repeats no other; else of what it stands for in the original.
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
        holds_(role_.buffers.size(), false) {}

  void check() {
    find_uses();
    for (const BufferId id : role_.buffers.ids()) {
      if (role_.buffer(id).persistent()) begin(id);
    }
    const std::vector<BufferId> ends = temporaries_by(&Buffer::last, role_);
    auto ended = ends.begin();
    for (const BufferId begun : temporaries_by(&Buffer::first, role_)) {
      if (faults_.full()) return;
      for (; role_.buffer(*ended).last < role_.buffer(begun).first; ++ended) end(*ended);
      check_lifetime(begun);
      begin(begun);
    }
  }

 private:
  /// Who has bytes of an arena.
  struct Tenancy {
    BufferId holder;  // the buffer that lives there; invalid if none does
    BufferId last;    // of the buffers whose lives have ended, the last one there that ops used
  };

  void find_uses() {
    IndexVector<BufferId, BufferId> temporary(role_.buffers.size());  // the root that has a lifetime
    for (const BufferId id : temporary.ids()) {
      const BufferId root = ranges_.root(id);
      if (!role_.buffer(root).persistent()) temporary[id] = root;
    }
    for (const OpId id : role_.ops.ids()) {
      const Op& op = role_.op(id);
      const bool repeated = repeats_.original(role_id_, id).valid();
      for (const BufferId argument : role_.args_of(op)) {
        const BufferId root = temporary[argument];
        if (!root.valid() || (repeated && repeats_.is_own(role_id_, root))) continue;
        uses_.add(root, op.stream, id);
      }
    }
  }

  /// Calls visit(stream, first, last) for every stream that uses a root, with the first and the
  /// last op that does.
  template <class Visit>
  void each_use(BufferId root, Visit&& visit) const {
    const BufferId original = repeats_.original(role_id_, root);
    if (original == root) {
      return uses_.visit(
          root, [&](const StreamUses::Use& use) { visit(use.stream, use.first, use.last); });
    }
    const Microbatch mb = repeats_.owner(role_id_, root);
    uses_.visit(original, [&](const StreamUses::Use& use) {
      visit(use.stream, repeats_.counterpart(role_id_, use.first, mb),
            repeats_.counterpart(role_id_, use.last, mb));
    });
  }
  bool used(BufferId root) const { return uses_.any(repeats_.original(role_id_, root)); }

  void check_lifetime(BufferId id) {
    const Buffer& buffer = role_.buffer(id);
    bool outside = false;
    each_use(id, [&](Stream, OpId first, OpId last) {
      outside = outside || first < buffer.first || buffer.last < last;
    });
    if (!outside) return;
    for (const OpId op : role_.ops.ids()) {
      if (buffer.first <= op && op <= buffer.last) continue;
      for (const BufferId argument : role_.args_of(role_.op(op))) {
        if (ranges_.root(argument) == id) add_use_outside_life(op, id);
      }
    }
  }

  /// Gives a buffer its bytes of the arena, and checks that its users wait for those who have used
  /// them, unless another living buffer holds some of them.
  void begin(BufferId id) {
    const Buffer& buffer = role_.buffer(id);
    IntervalMap<Tenancy>& arena = arenas_[buffer.tier];
    const std::int64_t end = buffer.offset + buffer.bytes.v;
    BufferId other, last;
    Users before;
    arena.visit(buffer.offset, end, [&](std::int64_t, std::int64_t, const Tenancy& tenancy) {
      if (tenancy.holder.valid()) other = tenancy.holder;
      if (tenancy.last.valid() && tenancy.last != last) {
        last = tenancy.last;
        each_use(last, [&](Stream stream, OpId, OpId user) { before.add(stream, user.v); });
      }
    });
    if (other.valid()) return add_overlap(id, other);
    holds_[id] = true;
    if (buffer.persistent() || used(id)) {
      arena.assign(buffer.offset, end, {id, {}});
    } else {  // those who used its bytes before it are still the last
      arena.update(buffer.offset, end, [id](Tenancy& tenancy) { tenancy.holder = id; });
    }
    // What the first op of a stream has waited for, those behind it need not be asked about.
    each_use(id, [&](Stream, OpId user, OpId) {
      const OpId earlier = order_.first_unordered(before, user);
      if (earlier.valid()) add_use_too_early(user, id, earlier);
    });
  }

  void end(BufferId id) {
    if (!holds_[id]) return;
    const Buffer& buffer = role_.buffer(id);
    IntervalMap<Tenancy>& arena = arenas_[buffer.tier];
    const std::int64_t end = buffer.offset + buffer.bytes.v;
    // Those who used the bytes before it need not be remembered: who has waited for its users has
    // waited for all that they have waited for.
    if (used(id)) return arena.assign(buffer.offset, end, {{}, id});
    arena.update(buffer.offset, end, [](Tenancy& tenancy) { tenancy.holder = {}; });
  }

  void add_use_outside_life(OpId id, BufferId root) {
    const Buffer& buffer = role_.buffer(root);
    faults_.add(op_at(program_, role_, id) + " uses " + buffer_name(program_, role_, root) +
                (id < buffer.first
                     ? " before it is allocated, at %" + std::to_string(buffer.first.v)
                     : " after it is freed: use after free; its last op is %" +
                           std::to_string(buffer.last.v) + " " +
                           describe(program_, role_, buffer.last)));
  }

  void add_overlap(BufferId id, BufferId other) {
    const Buffer& buffer = role_.buffer(id);
    const std::string when =
        buffer.persistent() ? " for the whole step"
                            : " at %" + std::to_string(buffer.first.v) + " (" +
                                  describe(program_, role_, buffer.first) + ")";
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
  StreamUses uses_;  // of roots that have a lifetime, and stand for no others
  IndexVector<BufferId, bool> holds_;  // its bytes of the arena, for itself
  IndexArray<Tier, IntervalMap<Tenancy>, kNumTiers> arenas_;
};

}  // namespace

void check_arena(const Program& program, RoleId role, const Ranges& ranges, const Repeats& repeats,
                 const HappensBefore& order, Faults& faults) {
  Tenancies(program, role, ranges, repeats, order, faults).check();
}

}  // namespace lockstep::verification
