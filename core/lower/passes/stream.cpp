// stream: finds what each op must wait for on other streams, from what it reads and writes.
#include <bit>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/dependencies.hpp"
#include "core/lower/draft/each_role.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// The op that touched a byte range of a root buffer last.
struct Touch {
  std::int64_t begin = 0, end = 0;
  OpId op;
  Stream stream = Stream::Compute;  // of the op
  bool write = false;
  std::int32_t next =
      -1;  // the touch of the same buffer that came before it, or is not used either
};

/// The touches of all buffers, as lists in one vector: most buffers have very few at a time.
class Touches {
 public:
  explicit Touches(std::size_t buffers) : first_(buffers, -1) {}

  void add(BufferId root, Touch touch) {
    touch.next = first_[root];
    if (unused_ < 0) {
      first_[root] = touches_.next();
      touches_.push_back(touch);
    } else {
      first_[root] = unused_;
      unused_ = std::exchange(touches_[unused_], touch).next;
    }
  }
  /// Calls visit(touch) for each touch of a buffer, and forgets those for which it returns true.
  template <class Visit>
  void remove_if(BufferId root, Visit&& visit) {
    for (std::int32_t* at = &first_[root]; *at >= 0;) {
      Touch& touch = touches_[*at];
      if (visit(touch)) {
        const std::int32_t removed = std::exchange(*at, touch.next);
        touch.next = std::exchange(unused_, removed);
      } else {
        at = &touch.next;
      }
    }
  }

 private:
  IndexVector<BufferId, std::int32_t> first_;  // by root: its newest touch; -1: none
  IndexVector<std::int32_t, Touch> touches_;
  std::int32_t unused_ = -1;  // the first of those that are forgotten
};

/// The bytes of its root buffer that a buffer is, or all pieces of it together.
struct Place {
  BufferId root;  // invalid if one stream alone uses the root, so that nobody waits
  std::int64_t begin = 0, end = 0;
};

IndexVector<BufferId, Place> places_of(const Program& program, const Role& role) {
  IndexVector<BufferId, Place> places(role.buffers.size());
  for (const BufferId id : places.ids()) {
    Place& place = places[id];
    place.root = id;
    for (; role.buffer(place.root).parent.valid(); place.root = role.buffer(place.root).parent) {
      place.begin += role.buffer(place.root).offset;
    }
    place.end = place.begin + span_of(program, role.buffer(id)).v;
  }
  IndexVector<BufferId, std::uint32_t> streams(role.buffers.size(), 0);  // by root, as bits
  for (const Op& op : role.ops) {
    const std::uint32_t stream = 1u << static_cast<unsigned>(op.stream);
    for (const BufferId argument : role.args_of(op)) streams[places[argument].root] |= stream;
  }
  for (Place& place : places) {
    if (std::has_single_bit(streams[place.root])) place.root = {};
  }
  return places;
}

void order(const Program& program, Role& role) {
  Dependencies dependencies(role);
  Touches touches(role.buffers.size());
  const IndexVector<BufferId, Place> places = places_of(program, role);
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    dependencies.begin(id);
    const auto args = role.args_of(op);
    const Formal* const formals =
        op.kind == OpKind::Call ? program.function(op.function()).formals.data() : nullptr;
    for (std::size_t a = 0; a < args.size(); ++a) {
      const auto [root, begin, end] = places[args[a]];
      if (!root.valid()) continue;
      const Access does = formals != nullptr ? formals[a].access : access(program, op, a);
      const bool writes = does != Access::Read;
      touches.remove_if(root, [&, begin = begin, end = end](const Touch& t) {
        // A range without bytes still orders its users, because synthetic programs move no data.
        const bool overlaps = begin == end ? t.begin == t.end : t.begin < end && begin < t.end;
        if (overlaps && (writes || t.write)) dependencies.add(t.op, t.stream);
        if (t.begin < begin || t.end > end) return false;
        // Reads of one stream are in order, so the newest stands for those whose ranges it covers.
        return writes || (!t.write && t.op != id && t.stream == op.stream);
      });
      touches.add(root, {begin, end, id, op.stream, writes});
    }
    dependencies.end();
  }
  dependencies.store();
}

}  // namespace

void stream(const Program& program, IndexVector<int, DraftRole>& roles) {
  each_role(roles, 1, [&](Role& role) { order(program, role); });
}

}  // namespace lockstep
