#include <algorithm>
#include <array>
#include <utility>

#include "core/base/interval_map.hpp"
#include "core/ir/lifetimes.hpp"
#include "core/ir/stream_clock.hpp"
#include "core/ir/users.hpp"
#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/repeats.hpp"

namespace lockstep::verification {
namespace {

/// How many ops of each stream are known to have ended.
using Clock = StreamClock;

/// The vector clocks of one role's ops, made in the order of their ids. An op follows the ops
/// before it on its stream and those in `after`, and no others.
class HappensBefore {
 public:
  explicit HappensBefore(const Role& role) : role_(role), saved_(role.ops.size(), kUnwanted) {
    std::size_t wanted = 0;
    for (const Op& op : role.ops) wanted += want(op);
    clocks_.reserve(wanted);
  }
  /// Of the ops of one microbatch, as if there were no others, and these waited only where all that
  /// repeat them do.
  HappensBefore(const Role& role, const Repeats& repeats, RoleId id, const std::vector<OpId>& ops)
      : role_(role), saved_(role.ops.size(), kUnwanted), repeats_(&repeats), role_id_(id) {
    for (const OpId op : ops) want(role.op(op));
  }

  /// Makes the clock of the next op, which has the op's place on its stream, counted from 1. The op
  /// itself counts as ended, so that it may touch a buffer twice.
  const Clock& advance(OpId id) {
    const Op& op = role_.op(id);
    const Stream s = op.stream;
    Clock& clock = tails_[s];
    const auto after = role_.after_of(op);
    for (std::size_t n = 0; n < after.size(); ++n) {
      if (repeats_ != nullptr && !waits(id, n)) continue;
      clock.merge(clocks_[saved_[after[n]]]);
    }
    const std::int32_t sequence = clock[s] + 1;
    auto& slot = saved_[id];
    if (slot != kUnwanted) {
      slot = clocks_.next();
      clocks_.push_back(clock);  // before one place of it changes, for which the copy would wait
      clocks_.back()[s] = sequence;
    }
    clock[s] = sequence;
    return clock;
  }

  /// One of the users that has not ended by `clock`; invalid if all have.
  OpId first_unordered(const Users& users, const Clock& clock) const {
    OpId first;
    users.visit([&](Stream stream, std::int32_t sequence) {
      if (!first.valid() && sequence > clock[stream]) first = op_at(stream, sequence);
    });
    return first;
  }

 private:
  /// The op at a place of a stream. It is looked for, because only messages ask.
  OpId op_at(Stream stream, std::int32_t sequence) const {
    for (const OpId id : role_.ops.ids()) {
      if (role_.op(id).stream == stream && --sequence == 0) return id;
    }
    return {};
  }

  /// Notes that `op` will ask for the clocks of those in its `after`. Returns how many are new.
  std::size_t want(const Op& op) {
    std::size_t fresh = 0;
    for (const OpId dependency : role_.after_of(op)) {
      auto& slot = saved_[dependency];
      if (slot != kUnwanted) continue;
      ++fresh;
      slot = kWanted;
    }
    return fresh;
  }

  /// Whether all that repeat an op wait for the one at this place of its `after`.
  bool waits(OpId op, std::size_t n) const {
    const OpId other = role_.after_of(role_.op(op))[n];
    return repeats_->microbatch(role_id_, op) == repeats_->microbatch(role_id_, other) &&
           repeats_->all_wait(role_id_, op, n);
  }

  static constexpr std::int32_t kUnwanted = -1, kWanted = -2;
  const Role& role_;
  /// Index into clocks_; kUnwanted: no op waits for it; kWanted: it has not come yet.
  IndexVector<OpId, std::int32_t> saved_;
  const Repeats* repeats_ = nullptr;  // null: all ops
  RoleId role_id_;
  IndexVector<std::int32_t, Clock> clocks_;
  IndexArray<Stream, Clock, kNumStreams> tails_{};
};

/// What happened last to a byte range of a root buffer.
struct History {
  OpId write;  // the last one; invalid if there was none in this step
  Stream stream = Stream::Compute;
  std::int32_t sequence = 0;  // of the write on its stream
  Users reads;                // since that write
  bool written_before(const Clock& clock) const { return sequence <= clock[stream]; }
};

class Memory {
 public:
  Memory(const Program& program, RoleId id, const Ranges& ranges, const Repeats& repeats,
         Faults& faults, HappensBefore order)
      : program_(program),
        role_id_(id),
        role_(program.roles[id]),
        faults_(faults),
        ranges_(ranges),
        repeats_(repeats),
        order_(std::move(order)),
        life_of_(role_.buffers.size(), -1) {}

  /// Checks that some ops of one microbatch do not race on its own buffers, even if there were no
  /// other ops for which they wait.
  void check_alone(const std::vector<OpId>& ops) {
    for (const OpId id : ops) {
      const Clock& clock = order_.advance(id);
      find_touches(id);
      std::erase_if(touches_, [&](const Touch& t) { return !repeats_.is_own(role_id_, t.root); });
      find_lives();
      read_and_write(id, clock);
    }
  }

  /// `settled` are the microbatches that do not race on their own buffers, by check_alone().
  void check(IndexVector<Microbatch, bool> settled) {
    settled_ = std::move(settled);
    begins_ = temporaries_by(&Buffer::first, role_);
    finishes_ = temporaries_by(&Buffer::last, role_);
    place_persistent();
    for (const OpId id : role_.ops.ids()) {
      if (faults_.full()) return;
      const Clock& clock = order_.advance(id);
      while (next_begin_ < begins_.size() && role_.buffer(begins_[next_begin_]).first == id) {
        begin_life(begins_[next_begin_++]);
      }
      touch_all(id, clock);
      while (next_end_ < finishes_.size() && role_.buffer(finishes_[next_end_]).last == id) {
        end_life(finishes_[next_end_++]);
      }
    }
  }

 private:
  /// What is known of a root buffer, from its first op to its last.
  struct Life {
    Users needed;                  // the ops that used its bytes of the arena before it
    Users used;                    // the ops that used it
    bool placed = false;           // it has its bytes of the arena for itself
    OpId first, last;              // of the buffer, which is at hand here
    IntervalMap<History> history;  // from its first byte
    bool persistent() const { return !first.valid(); }
  };

  void place_persistent() {
    for (const BufferId id : role_.buffers.ids()) {
      Users none;
      if (role_.buffer(id).persistent()) occupy(id, none);
    }
  }

  /// Gives a buffer its bytes of the arena, and notes which ops have used them. If another living
  /// buffer holds some of them, adds a fault and returns false.
  bool occupy(BufferId id, Users& used) {
    const Buffer& buffer = role_.buffer(id);
    auto& arena = arena_[buffer.tier];
    const std::int64_t end = buffer.offset + buffer.bytes.v;
    BufferId other;
    PastUsers::Place added = -1;
    arena.update(buffer.offset, end, [&](Tenancy& tenancy) {
      if (tenancy.last != added) past_.add_to(used, tenancy.last);
      added = tenancy.last;
      if (tenancy.holder.valid()) {
        other = tenancy.holder;
      } else {
        tenancy.holder = id;
      }
    });
    if (other.valid()) {
      used.clear();
      arena.update(buffer.offset, end, [id](Tenancy& tenancy) {
        if (tenancy.holder == id) tenancy.holder = {};
      });
      const std::string when =
          buffer.persistent() ? " for the whole step" : " at %" + std::to_string(buffer.first.v);
      std::string message = "rank " + std::to_string(role_.ranks.front()) + ": buffers " +
                            buffer_name(program_, role_, id) + " and " +
                            buffer_name(program_, role_, other) +
                            " overlap in the arena and are alive together" + when;
      if (!buffer.persistent()) {
        message += " (" + describe(program_, role_, buffer.first) + ")";
      }
      faults_.add(std::move(message));
      return false;
    }
    return true;
  }

  void begin_life(BufferId id) {
    Life& life = life_of(id);
    life.placed = occupy(id, life.needed);
  }

  void end_life(BufferId id) {
    const Buffer& buffer = role_.buffer(id);
    auto& arena = arena_[buffer.tier];
    const std::int64_t end = buffer.offset + buffer.bytes.v;
    Life& life = life_of(id);
    const bool touched = !life.used.none();
    // Those who used the bytes before it need not be remembered: who has waited for its users has
    // waited for all that they have waited for.
    const PastUsers::Place last = past_.keep(life.used);
    if (life.placed && touched) {
      arena.assign(buffer.offset, end, {BufferId{}, last});
    } else {  // if no op touched the buffer, those who used its bytes before it are still the last
      arena.update(buffer.offset, end, [&](Tenancy& tenancy) {
        if (touched) tenancy.last = last;
        if (tenancy.holder == id) tenancy.holder = {};
      });
    }
    life.history.clear();
    life.needed.clear();
    life.used.clear();
    life.placed = false;
    unused_.push_back(std::exchange(life_of_[id], -1));
  }

  void touch_all(OpId id, const Clock& clock) {
    find_touches(id);
    find_lives();
    for (std::size_t t = 0; t < touches_.size(); ++t) {
      if (!life_at(t).persistent()) enter(life_at(t), id, touches_[t], clock);
    }
    const Microbatch mb = repeats_.microbatch(role_id_, id);
    if (mb >= 0 && settled_[mb]) {
      std::size_t kept = 0;
      for (std::size_t t = 0; t < touches_.size(); ++t) {
        if (repeats_.is_own(role_id_, touches_[t].root)) continue;
        touches_[kept] = touches_[t];
        lives_at_[kept++] = lives_at_[t];
      }
      touches_.resize(kept);
    }
    read_and_write(id, clock);
  }

  void find_touches(OpId id) { ranges_.touch_all(role_.op(id), touches_); }
  void find_lives() {
    lives_at_.clear();
    for (const Touch& touch : touches_) {
      life_of(touch.root);
      lives_at_.push_back(life_of_[touch.root]);
    }
  }
  void read_and_write(OpId id, const Clock& clock) {
    for (std::size_t t = 0; t < touches_.size(); ++t) {
      if (touches_[t].access != Access::Write) read(life_at(t), id, touches_[t], clock);
    }
    for (std::size_t t = 0; t < touches_.size(); ++t) {
      if (touches_[t].access != Access::Read) write(life_at(t), id, touches_[t], clock);
    }
  }

  // Checks that the op uses a buffer within its lifetime, and after every op that used the same
  // bytes of the arena before it.
  void enter(Life& life, OpId id, const Touch& touch, const Clock& clock) {
    const Stream s = role_.op(id).stream;
    if (id < life.first || life.last < id) return add_use_outside_life(life, id, touch);
    // What one op of a stream has waited for, those behind it need not be asked about.
    if (!life.used.on(s)) {
      const OpId earlier = order_.first_unordered(life.needed, clock);
      if (earlier.valid()) add_overlap(id, touch, earlier);
    }
    life.used.add(s, clock[s]);
  }

  void add_use_outside_life(const Life& life, OpId id, const Touch& touch) {
    faults_.add(op_at(program_, role_, id) + " uses " + buffer_name(program_, role_, touch.root) +
                (id < life.first ? " before it is allocated, at %" + std::to_string(life.first.v)
                                 : " after it is freed: use after free; its last op is %" +
                                       std::to_string(life.last.v) + " " +
                                       describe(program_, role_, life.last)));
  }

  void add_overlap(OpId id, const Touch& touch, OpId earlier) {
    faults_.add(op_at(program_, role_, id) + " uses " + buffer_name(program_, role_, touch.root) +
                ", which overlaps in the arena with a buffer that %" + std::to_string(earlier.v) +
                " " + describe(program_, role_, earlier) + " uses, and does not wait for it");
  }

  void read(Life& life, OpId id, const Touch& touch, const Clock& clock) {
    const Stream s = role_.op(id).stream;
    const bool persistent = life.persistent();
    bool unwritten = false;
    OpId unordered;
    life.history.update(touch.begin, touch.end, [&](History& piece) {
      if (!piece.write.valid()) {
        unwritten = !persistent;
      } else if (!piece.written_before(clock)) {
        unordered = piece.write;
      }
      piece.reads.add(s, clock[s]);
    });
    if (unwritten) {
      faults_.add(op_at(program_, role_, id) + " reads " +
                  buffer_name(program_, role_, touch.root) + bytes_of(touch) +
                  " before it is written");
    }
    if (unordered.valid()) add_race(id, "reads", touch, unordered, "writes");
  }

  void write(Life& life, OpId id, const Touch& touch, const Clock& clock) {
    if (touch.begin >= touch.end) return;
    OpId reader, writer;
    life.history.visit(touch.begin, touch.end,
                       [&](std::int64_t, std::int64_t, const History& piece) {
                         if (!piece.written_before(clock)) writer = piece.write;
                         const OpId read = order_.first_unordered(piece.reads, clock);
                         if (read.valid()) reader = read;
                       });
    if (writer.valid()) add_race(id, "writes", touch, writer, "writes");
    if (reader.valid()) add_race(id, "writes", touch, reader, "reads");
    History& piece = life.history.one_piece(touch.begin, touch.end);
    piece.write = id;
    piece.stream = role_.op(id).stream;
    piece.sequence = clock[piece.stream];
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

  Life& life_of(BufferId root) {
    const std::int32_t life = life_of_[root];
    return lives_[life >= 0 ? life : new_life(root)];
  }
  Life& life_at(std::size_t touch) { return lives_[lives_at_[touch]]; }
  std::int32_t new_life(BufferId root) {
    if (unused_.empty()) {
      unused_.push_back(lives_.next());
      lives_.emplace_back();
    }
    const std::int32_t life = unused_.back();
    unused_.pop_back();
    lives_[life].first = role_.buffer(root).first;
    lives_[life].last = role_.buffer(root).last;
    return life_of_[root] = life;
  }
  /// Who has bytes of an arena.
  struct Tenancy {
    BufferId holder;             // the buffer that lives there; invalid if none does
    PastUsers::Place last = -1;  // who used them in the last life that has ended
  };

  const Program& program_;
  const RoleId role_id_;
  const Role& role_;
  Faults& faults_;
  const Ranges& ranges_;
  const Repeats& repeats_;
  HappensBefore order_;
  IndexVector<Microbatch, bool> settled_;
  // Of few buffers at a time, so that they stay in a cache.
  IndexVector<std::int32_t, Life> lives_;
  IndexVector<BufferId, std::int32_t> life_of_;  // by root; -1: it does not live
  std::vector<std::int32_t> unused_;             // lives that are over
  IndexArray<Tier, IntervalMap<Tenancy>, kNumTiers> arena_;
  PastUsers past_;
  std::vector<BufferId> begins_, finishes_;  // temporary roots by first and by last op
  std::size_t next_begin_ = 0, next_end_ = 0;
  std::vector<Touch> touches_;          // of the op at hand
  std::vector<std::int32_t> lives_at_;  // likewise: the lives that they touch
};

/// The microbatches that do not race on buffers of their own, as is known of those that they
/// repeat.
IndexVector<Microbatch, bool> settled(const Program& program, RoleId role, const Ranges& ranges,
                                      const Repeats& repeats) {
  IndexVector<Microbatch, bool> sound(repeats.microbatches(), false);
  IndexVector<Microbatch, bool> asked(repeats.microbatches(), false);
  for (Microbatch mb = 0; mb < repeats.microbatches(); ++mb) {
    const Microbatch original = repeats.original(mb);
    if (original == mb) continue;
    if (!asked[original]) {
      asked[original] = true;
      const std::vector<OpId> ops = repeats.ops(role, original);
      Faults found;
      HappensBefore order(program.roles[role], repeats, role, ops);
      Memory(program, role, ranges, repeats, found, std::move(order)).check_alone(ops);
      sound[original] = found.none();
    }
    sound[mb] = sound[original];
  }
  return sound;
}

}  // namespace

void check_memory(const Program& program, RoleId role, const Ranges& ranges, const Repeats& repeats,
                  Faults& faults) {
  Memory(program, role, ranges, repeats, faults, HappensBefore(program.roles[role]))
      .check(settled(program, role, ranges, repeats));
}

}  // namespace lockstep::verification
