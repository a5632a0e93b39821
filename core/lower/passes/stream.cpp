// stream: finds what each op must wait for on other streams, from what it reads and writes.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/dependencies.hpp"
#include "core/lower/draft/each_role.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// The cells that a buffer is, or all pieces of it together: ranges of bytes of its root that no
/// buffer divides. Buffers without bytes are a cell, too, because synthetic programs move no data
/// and yet order the users of their buffers.
struct Cells {
  std::int32_t begin = 0, end = 0;
};

/// The cells of all buffers, which begin where another buffer of the same root begins or ends.
/// Sets `count` to how many there are.
IndexVector<BufferId, Cells> cells_of(const Program& program, const Role& role,
                                      std::int32_t& count) {
  struct Place {
    BufferId root;
    std::int64_t begin = 0, end = 0;
  };
  IndexVector<BufferId, Place> places(role.buffers.size());
  IndexVector<BufferId, std::uint8_t> divided(role.buffers.size(), 0);  // 1: the root has views
  for (const BufferId id : places.ids()) {
    Place& place = places[id];
    place.root = id;
    for (; role.buffer(place.root).is_view(); place.root = role.buffer(place.root).parent()) {
      place.begin += role.buffer(place.root).offset;
    }
    place.end = place.begin + span_of(program, role.buffer(id)).v;
    if (place.root != id) divided[place.root] = 1;
  }
  using Cut = std::pair<BufferId, std::int64_t>;  // the end of a root is a cell without bytes
  std::vector<Cut> cuts;
  for (const Place& place : places) {
    if (divided[place.root] == 0) continue;
    cuts.insert(cuts.end(), {{place.root, place.begin}, {place.root, place.end}});
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const auto cell_at = [&](BufferId root, std::int64_t at) {
    const auto cut = std::lower_bound(cuts.begin(), cuts.end(), Cut{root, at});
    return static_cast<std::int32_t>(cut - cuts.begin());
  };
  count = static_cast<std::int32_t>(cuts.size());
  IndexVector<BufferId, Cells> cells;
  cells.reserve(places.size());
  for (const Place& place : places) {
    if (divided[place.root] == 0) {
      cells.push_back({count, count + 1});
      ++count;
    } else if (place.begin < place.end) {
      cells.push_back({cell_at(place.root, place.begin), cell_at(place.root, place.end)});
    } else {
      const std::int32_t end = cell_at(place.root, places[place.root].end);
      cells.push_back({end, end + 1});
    }
  }
  return cells;
}

/// The op that touched a cell last.
struct Touch {
  OpId op;
  Stream stream = Stream::Compute;  // of the op
  bool write = false;
  std::int32_t next = -1;  // the touch of the same cell that came before it, or is not used either
};

/// The touches of all cells, as lists in one vector: most cells have very few at a time.
class Touches {
 public:
  explicit Touches(std::int32_t cells) : newest_(cells, -1) { touches_.reserve(newest_.size()); }

  /// Notes that an op touches a cell. Calls wait(op, stream) for those that it must wait for, if
  /// they are on other streams.
  template <class Wait>
  void add(std::int32_t cell, Touch touch, Wait&& wait) {
    for (std::int32_t* at = &newest_[cell]; *at >= 0;) {
      Touch& earlier = touches_[*at];
      if (touch.write || earlier.write) wait(earlier.op, earlier.stream);
      // Reads of one stream are in order, so the newest stands for all.
      if (touch.write || (!earlier.write && earlier.stream == touch.stream)) {
        const std::int32_t over = std::exchange(*at, earlier.next);
        earlier.next = std::exchange(unused_, over);
      } else {
        at = &earlier.next;
      }
    }
    touch.next = newest_[cell];
    if (unused_ < 0) {
      newest_[cell] = touches_.next();
      touches_.push_back(touch);
    } else {
      newest_[cell] = unused_;
      unused_ = std::exchange(touches_[unused_], touch).next;
    }
  }

 private:
  IndexVector<std::int32_t, std::int32_t> newest_;  // by cell; -1: none
  IndexVector<std::int32_t, Touch> touches_;
  std::int32_t unused_ = -1;  // the first of those that are forgotten
};

void order(const Program& program, Role& role) {
  Dependencies dependencies(role);
  std::int32_t count = 0;
  const IndexVector<BufferId, Cells> cells = cells_of(program, role, count);
  Touches touches(count);
  const auto wait = [&](OpId op, Stream stream) { dependencies.add(op, stream); };
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    dependencies.begin(id);
    const auto args = role.args_of(op);
    const Formal* const formals =
        op.kind == OpKind::Call ? program.function(op.function()).formals.data() : nullptr;
    for (std::size_t a = 0; a < args.size(); ++a) {
      const Access does = formals != nullptr ? formals[a].access : access(program, op, a);
      const Touch touch{id, op.stream, does != Access::Read};
      const auto [begin, end] = cells[args[a]];
      for (std::int32_t cell = begin; cell < end; ++cell) touches.add(cell, touch, wait);
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
