#include <functional>
#include <queue>
#include <utility>

#include "core/base/interval_map.hpp"
#include "core/ir/users.hpp"
#include "core/ir/verify/arena.hpp"

namespace lockstep::verification {
namespace {

using Followed = IndexVector<BufferId, std::uint8_t>;  // by buffer: 1 or 0

/// Checks that ops read what was written, and do not race, on some buffers.
class Races {
 public:
  Races(const Program& program, const Role& role, const Ranges& ranges, const HappensBefore& order,
        Faults& faults)
      : program_(program),
        role_(role),
        ranges_(ranges),
        order_(order),
        faults_(faults),
        history_of_(role.buffers.size(), -1) {}

  /// Of buffers that are `followed`, of which all views of a root are or none.
  template <class Ops>
  void check(const Ops& ops, const Followed& followed) {
    for (const OpId id : ops) {
      if (faults_.full()) return;
      const Op& op = role_.op(id);
      const auto args = role_.args_of(op);
      touches_.clear();
      for (std::size_t a = 0; a < args.size(); ++a) {
        if (followed[args[a]]) touches_.push_back(ranges_.touch(op, a));
      }
      for (const Touch& touch : touches_) {
        if (touch.access != Access::Write) read(id, touch);
      }
      for (const Touch& touch : touches_) {
        if (touch.access != Access::Read) write(id, touch);
      }
      for (; !ends_.empty() && ends_.top().first <= id; ends_.pop()) forget(ends_.top().second);
    }
  }

 private:
  /// What happened last to a byte range of a root buffer.
  struct History {
    OpId write;  // the last one; invalid if there was none in this step
    Stream stream = Stream::Compute;
    Users reads;  // since that write
  };

  IntervalMap<History>& history(BufferId root) {
    std::int32_t& known = history_of_[root];
    if (known < 0) {
      if (unused_.empty()) {
        unused_.push_back(histories_.next());
        histories_.emplace_back();
      }
      known = unused_.back();
      unused_.pop_back();
      if (!role_.buffer(root).persistent()) ends_.push({role_.buffer(root).last(), root});
    }
    return histories_[known];
  }

  void forget(BufferId root) {
    const std::int32_t known = std::exchange(history_of_[root], -1);
    histories_[known].clear();
    unused_.push_back(known);
  }

  bool ended_before(const History& piece, OpId id) const {
    return order_.ended(piece.write.v, piece.stream, id);
  }

  void read(OpId id, const Touch& touch) {
    const bool persistent = role_.buffer(touch.root).persistent();
    const Stream stream = role_.op(id).stream;
    bool unwritten = false;
    OpId unordered;
    history(touch.root).update(touch.begin, touch.end, [&](History& piece) {
      if (!piece.write.valid()) {
        unwritten = !persistent;
      } else if (!ended_before(piece, id)) {
        unordered = piece.write;
      }
      piece.reads.add(stream, id.v);
    });
    if (unwritten) {
      faults_.add(op_at(program_, role_, id) + " reads " +
                  buffer_name(program_, role_, touch.root) + bytes_of(touch) +
                  " before it is written");
    }
    if (unordered.valid()) add_race(id, "reads", touch, unordered, "writes");
  }

  void write(OpId id, const Touch& touch) {
    if (touch.begin >= touch.end) return;
    OpId reader, writer;
    History& piece =
        history(touch.root).one_piece(touch.begin, touch.end, [&](const History& earlier) {
          if (!ended_before(earlier, id)) writer = earlier.write;
          const OpId read = order_.first_unordered(earlier.reads, id);
          if (read.valid()) reader = read;
        });
    if (writer.valid()) add_race(id, "writes", touch, writer, "writes");
    if (reader.valid()) add_race(id, "writes", touch, reader, "reads");
    piece.write = id;
    piece.stream = role_.op(id).stream;
    piece.reads.clear();
  }

  static std::string bytes_of(const Touch& touch) {
    return " [" + std::to_string(touch.begin) + ", " + std::to_string(touch.end) + ")";
  }

  void add_race(OpId id, std::string_view does, const Touch& touch, OpId other,
                std::string_view other_does) {
    faults_.add(op_at(program_, role_, id) + " " + std::string(does) + " " +
                buffer_name(program_, role_, touch.root) + bytes_of(touch) +
                " and does not wait for %" + std::to_string(other.v) + " " +
                describe(program_, role_, other) + " (stream " +
                std::string(to_string(role_.op(other).stream)) + "), which " +
                std::string(other_does) + " it: a race");
  }

  const Program& program_;
  const Role& role_;
  const Ranges& ranges_;
  const HappensBefore& order_;
  Faults& faults_;
  // Of few buffers at a time, so that they stay in a cache.
  IndexVector<std::int32_t, IntervalMap<History>> histories_;        // from their first bytes
  IndexVector<BufferId, std::int32_t> history_of_;                   // by root; -1: none
  std::vector<std::int32_t> unused_;                                 // histories that are over
  using End = std::pair<OpId, BufferId>;                             // the last op of a root
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  // of those with a history
  std::vector<Touch> touches_;                                       // of the op at hand
};

/// The microbatches whose ops do not race on buffers of their own, as is known of those that they
/// repeat: their ops do not race even if there were no others, and these waited only where all that
/// repeat them do.
IndexVector<Microbatch, bool> settled(const Program& program, RoleId id, const Ranges& ranges,
                                      const Repeats& repeats, HappensBefore& order) {
  const Role& role = program.roles[id];
  IndexVector<Microbatch, bool> sound(repeats.microbatches(), false), asked = sound;
  Faults found;
  Races races(program, role, ranges, order, found);
  Followed own;
  for (Microbatch mb = 0; mb < repeats.microbatches(); ++mb) {
    const Microbatch original = repeats.original(mb);
    if (original == mb) continue;
    if (!asked[original]) {
      asked[original] = true;
      if (own.empty()) {
        for (const BufferId b : role.buffers.ids()) {
          own.push_back(repeats.is_own(id, ranges.root(b)) ? 1 : 0);
        }
      }
      const std::vector<OpId> ops = repeats.ops(id, original);
      order.follow(ops, [&](OpId op, std::size_t n) { return repeats.all_wait(id, op, n); });
      races.check(ops, own);
      sound[original] = found.none();
      found.take();
    }
    sound[mb] = sound[original];
  }
  return sound;
}

}  // namespace

void check_memory(const Program& program, RoleId id, const Ranges& ranges, const Repeats& repeats,
                  Faults& faults) {
  const Role& role = program.roles[id];
  HappensBefore order(role);
  const IndexVector<Microbatch, bool> known = settled(program, id, ranges, repeats, order);
  order.follow(role.ops.ids(), [](OpId, std::size_t) { return true; });
  check_arena(program, id, ranges, repeats, order, faults);
  Followed followed(role.buffers.size(), 1);
  for (const BufferId buffer : followed.ids()) {
    const Microbatch owner = repeats.owner(id, ranges.root(buffer));
    if (owner >= 0 && known[owner]) followed[buffer] = 0;
  }
  Races(program, role, ranges, order, faults).check(role.ops.ids(), followed);
}

}  // namespace lockstep::verification
