// memory: gives buffers their lifetimes and their offsets in the arenas. A buffer lives from the
// first op of the list that names it to the last. If it takes over bytes of another buffer, its
// first op on each stream waits for the last users of that buffer. Each tier has an arena.
//
// A buffer that a transfer uses last lives on until the next transfer of that stream. Otherwise its
// bytes would be used by the computation beside the transfer, which would have to wait for it; FSDP
// keeps one input of a reduce-scatter for the same reason. What is written to a drive lives on
// until the next unit is written, so that reading ahead of the update waits for no write beside it.
// What an exchange sends lives on until the last receive of the exchange is posted: all its
// messages are posted together, so that none of its receives may wait for one of its sends. Where
// all backward passes follow all forward passes (GPipe, LoopedBFS) and ranks share a vocabulary,
// what is sent lives on to the end of the step: a rank sends far ahead of its peer, and a
// collective of all ranks that took over the bytes would wait for a receive that stands behind it
// there.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/base/free_list.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/interval_map.hpp"
#include "core/ir/lifetimes.hpp"
#include "core/ir/users.hpp"
#include "core/lower/draft/dependencies.hpp"
#include "core/lower/draft/each_role.hpp"
#include "core/lower/draft/exchange.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/schedule/schedules.hpp"

namespace lockstep {
namespace {

using ByStream = IndexArray<Stream, std::int32_t, kNumStreams>;  // the newest op; -1: none

constexpr ByStream no_ops() {
  ByStream none{};
  none.fill(-1);
  return none;
}

class ArenaPlanner {
 public:
  ArenaPlanner(Role& role, const StrategySpec& strategy)
      : role_(role),
        posting_(strategy.pipeline_parallel_p2p),
        keeps_sent_(strategy.vocabulary_stages() > 1 &&
                    rules_of(strategy.pipeline_parallel_schedule).forwards_first),
        writes_behind_(strategy.offload_pipeline_write),
        stay_of_(role.buffers.size(), kNone) {}

  void run() {
    uses_drive_ = std::any_of(role_.buffers.begin(), role_.buffers.end(),
                              [](const Buffer& buffer) { return buffer.tier == Tier::Drive; });
    find_roots();
    find_lifetimes();
    for (const BufferId id : role_.buffers.ids()) {
      Buffer& buffer = role_.buffers[id];
      if (!buffer.persistent()) continue;
      buffer.offset = arena(buffer).allocate(room_of(buffer));
      stay_of_[id] = kPersistent;
    }
    Dependencies dependencies(role_);
    for (const OpId id : role_.ops.ids()) {
      dependencies.begin(id);
      const Op& op = role_.op(id);
      for (const BufferId root : roots_of(op)) {
        if (stay_of_[root] == kPersistent) continue;
        Stay& stay = stay_of(root);
        // The first op of each stream waits; later ops of the stream come after it.
        if (!stay.users.on(op.stream)) {
          stay.tenants.visit(
              [&](Stream of, std::int32_t tenant) { dependencies.add({tenant}, of); });
        }
        stay.users.add(op.stream, id.v);
      }
      for (; next_expiry_ < expiries_.size() && role_.buffer(expiries_[next_expiry_]).last == id;
           ++next_expiry_) {
        give_back(expiries_[next_expiry_]);
      }
      dependencies.end();
    }
    dependencies.store();
    role_.arena = Bytes{arenas_[Tier::Device].high_water()};
    role_.host_arena = Bytes{arenas_[Tier::Host].high_water()};
    role_.drive_arena = Bytes{arenas_[Tier::Drive].high_water()};
  }

 private:
  static constexpr std::int32_t kNone = -1, kPersistent = -2;

  /// What a buffer does in the arena, from its first op to its last.
  struct Stay {
    Users users;    // the ops that have used it
    Users tenants;  // the last ops that used its bytes before it
  };

  FreeList& arena(const Buffer& buffer) { return arenas_[buffer.tier]; }
  std::span<const BufferId> roots_of(const Op& op) const {
    return {roots_.data() + op.args_begin, op.args_count};
  }

  void find_roots() {
    IndexVector<BufferId, BufferId> root_of(role_.buffers.size());
    for (const BufferId id : root_of.ids()) root_of[id] = role_.root(id);
    roots_.reserve(role_.args.size());
    for (const BufferId argument : role_.args) roots_.push_back(root_of[argument]);
  }

  void find_lifetimes() {
    struct Life {
      OpId first, last;
      bool persistent = false;
    };
    IndexVector<BufferId, Life> lives(role_.buffers.size());
    for (const Unit& unit : role_.units) {
      for (const BufferId id : unit.persistent()) {
        if (id.valid()) lives[id].persistent = true;
      }
    }
    for (const OpId id : role_.ops.ids()) {
      for (const BufferId root : roots_of(role_.op(id))) {
        Life& life = lives[root];
        if (!life.first.valid()) life.first = id;
        life.last = id;
      }
    }
    for (const BufferId id : lives.ids()) {
      const Life& life = lives[id];
      if (life.persistent || !life.first.valid()) continue;
      role_.buffers[id].first = life.first;
      role_.buffers[id].last = life.last;
    }
    ByStream next = no_ops();  // by stream, the next op after the present one
    IndexVector<OpId, OpId> next_on_stream(role_.ops.size());
    OpId last_write, later_write;  // to the drive: after the present update, and after the next
    for (std::size_t i = role_.ops.size(); i-- > 0;) {
      const Stream stream = role_.ops[i].stream;
      const OpId id{static_cast<std::int32_t>(i)};
      std::int32_t& following = next[stream];
      next_on_stream[i] = {following};
      following = id.v;
      if (stream == Stream::Host && last_write.valid()) {
        later_write = std::exchange(last_write, OpId{});
      } else if (stream == Stream::DriveWrite) {
        if (!last_write.valid()) last_write = id;
        next_on_stream[i] = later_write;
      }
    }
    const IndexVector<OpId, OpId> receives = last_receives(role_, posting_);
    const OpId end{static_cast<std::int32_t>(role_.ops.size()) - 1};
    for (const BufferId id : role_.buffers.ids()) {
      Buffer& buffer = role_.buffers[id];
      if (!buffer.last.valid()) continue;
      const OpId used_last = buffer.last;
      const Stream last = role_.op(used_last).stream;
      const OpId receive = receives[buffer.last];
      const bool at_once = last == Stream::DriveWrite && !writes_behind_;
      if (last != Stream::Compute && last != Stream::Host && !at_once) {
        const OpId later = next_on_stream[buffer.last];
        if (later.valid()) buffer.last = later;
      }
      buffer.last = std::max(buffer.last, receive);
      if (keeps_sent_ && role_.op(used_last).kind == OpKind::Send) buffer.last = end;
    }
    expiries_ = temporaries_by(&Buffer::last, role_);
  }

  /// The stay of a buffer, which begins here if this is its first op.
  Stay& stay_of(BufferId root) {
    std::int32_t& stay = stay_of_[root];
    if (stay >= 0) return stays_[stay];
    if (unused_.empty()) {
      unused_.push_back(stays_.next());
      stays_.emplace_back();
    }
    stay = unused_.back();
    unused_.pop_back();
    Stay& begun = stays_[stay];
    begun.users.clear();
    begun.tenants.clear();
    Buffer& buffer = role_.buffers[root];
    buffer.offset = arena(buffer).allocate(room_of(buffer));
    PastUsers::Place added = -1;
    freed_[buffer.tier].visit(buffer.offset, end_of(buffer),
                              [&](std::int64_t, std::int64_t, PastUsers::Place users) {
                                if (users != added) past_.add_to(begun.tenants, users);
                                added = users;
                              });
    return begun;
  }

  void give_back(BufferId id) {
    const Buffer& buffer = role_.buffer(id);
    const std::int32_t stay = std::exchange(stay_of_[id], kNone);
    unused_.push_back(stay);
    arena(buffer).release(buffer.offset, room_of(buffer));
    freed_[buffer.tier].assign(buffer.offset, end_of(buffer), past_.keep(stays_[stay].users));
  }

  /// The bytes that a buffer takes. Beside a drive, those in host memory are whole blocks, too, so
  /// that every one begins where direct I/O can.
  std::int64_t room_of(const Buffer& buffer) const {
    const bool in_blocks = uses_drive_ && buffer.tier != Tier::Device;
    return round_up(buffer.bytes.v, in_blocks ? kDriveBlock : FreeList::kAlignment);
  }
  std::int64_t end_of(const Buffer& buffer) const { return buffer.offset + room_of(buffer); }

  Role& role_;
  const P2pPosting posting_;
  const bool keeps_sent_;
  const bool writes_behind_;  // what is written to the drive is not waited for
  bool uses_drive_ = false;
  IndexArray<Tier, FreeList, kNumTiers> arenas_;
  std::vector<BufferId> roots_;            // of Role::args
  IndexVector<std::int32_t, Stay> stays_;  // of few buffers at a time, so that they stay in a cache
  /// By root buffer; kNone: it is not in the arena; kPersistent: it is there for the whole step.
  IndexVector<BufferId, std::int32_t> stay_of_;
  std::vector<std::int32_t> unused_;  // stays that are over
  std::vector<BufferId> expiries_;    // buffers with a lifetime, sorted by its end
  std::size_t next_expiry_ = 0;
  /// The last users of freed bytes, in each arena. Where a buffer has taken them over, they stand
  /// until it is given back, and nobody asks.
  IndexArray<Tier, IntervalMap<PastUsers::Place>, kNumTiers> freed_;
  PastUsers past_;
};

}  // namespace

void memory(IndexVector<int, DraftRole>& roles, const StrategySpec& strategy) {
  each_role(roles, 2, [&](Role& role) { ArenaPlanner(role, strategy).run(); });
}

}  // namespace lockstep
