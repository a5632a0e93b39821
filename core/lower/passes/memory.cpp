// memory: gives buffers their lifetimes and their offsets in the arenas. A buffer lives from the
// first op of the list that names it to the last. If it takes over bytes of another buffer, its
// first op on each stream waits for the last users of that buffer. Each tier has an arena.
//
// A buffer that a transfer uses last lives on until the next transfer of that stream. Otherwise its
// bytes would be used by the computation beside the transfer, which would have to wait for it; FSDP
// keeps one input of a reduce-scatter for the same reason. FSDP waits for the last one of a
// backward pass at its end, so no gradient lives on into another microbatch. What is written to a
// drive lives on until the next unit is written, so that reading ahead of the update waits for no
// write beside it. What an exchange sends lives on until the last receive of the exchange is
// posted: all its messages are posted together, so that none of its receives may wait for one of
// its sends. Where all backward passes follow all forward passes (GPipe, LoopedBFS) and ranks share
// a vocabulary, what is sent lives on to the end of the step: a rank sends far ahead of its peer,
// and a collective of all ranks that took over the bytes would wait for a receive that stands
// behind it there.
#include <algorithm>
#include <array>
#include <utility>

#include "core/base/free_list.hpp"
#include "core/base/index_vector.hpp"
#include "core/ir/lifetimes.hpp"
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
        uses_(role.buffers.size()),
        stays_(role.buffers.size()) {}

  void run() {
    uses_drive_ = std::any_of(role_.buffers.begin(), role_.buffers.end(),
                              [](const Buffer& buffer) { return buffer.tier == Tier::Drive; });
    find_uses();
    find_lifetimes();
    for (Buffer& buffer : role_.buffers) {
      if (buffer.persistent()) place(buffer);
    }
    const std::vector<BufferId> expiries = temporaries_by_last(role_);
    auto expired = expiries.begin();
    auto use = uses_.all().begin();
    Dependencies dependencies(role_);
    for (const OpId id : role_.ops.ids()) {
      dependencies.begin(id);
      // The first op of each stream waits; later ops of the stream come after it.
      for (; use != uses_.all().end() && use->first == id; ++use) {
        if (role_.buffer(use->root).persistent()) continue;
        const Stay& stay = begin_stay(use->root);
        for (std::int32_t t = stay.former; t < stay.end_of_former; ++t) {
          uses_.visit({former_[t]}, [&](const StreamUses::Use& before) {
            dependencies.add(before.last, before.stream);
          });
        }
      }
      for (; expired != expiries.end() && role_.buffer(*expired).last() == id; ++expired) {
        arenas_[role_.buffer(*expired).tier].give_back(stays_[*expired].lot, expired->v);
      }
      dependencies.end();
    }
    dependencies.store();
    role_.arena = Bytes{arenas_[Tier::Device].high_water()};
    role_.host_arena = Bytes{arenas_[Tier::Host].high_water()};
    role_.drive_arena = Bytes{arenas_[Tier::Drive].high_water()};
  }

 private:
  /// What a buffer does in the arena, from its first op to its last.
  struct Stay {
    FreeList::Lot lot = FreeList::kNothing;
    // Who had its bytes before it, in former_; -1: it has not begun.
    std::int32_t former = -1, end_of_former = 0;
  };

  void find_uses() {
    uses_.reserve(2 * role_.buffers.size());
    IndexVector<BufferId, BufferId> root_of(role_.buffers.size());
    for (const BufferId id : root_of.ids()) root_of[id] = role_.root(id);
    for (const OpId id : role_.ops.ids()) {
      const Op& op = role_.op(id);
      for (const BufferId argument : role_.args_of(op)) uses_.add(root_of[argument], op.stream, id);
    }
  }

  void find_lifetimes() {
    IndexVector<BufferId, std::uint8_t> persistent(role_.buffers.size(), 0);
    for (const Unit& unit : role_.units) {
      for (const BufferId id : unit.states) {
        if (id.valid()) persistent[id] = 1;
      }
    }
    for (const StreamUses::Use& use : uses_.all()) {
      if (persistent[use.root] != 0) continue;
      Buffer& buffer = role_.buffers[use.root];
      const OpId first = buffer.first().valid() ? buffer.first() : use.first;
      buffer.set_lifetime(first, std::max(buffer.last(), use.last));
    }
    ByStream next = no_ops();  // by stream, the next transfer after the present op
    IndexVector<OpId, OpId> next_transfer(role_.ops.size());
    OpId last_write, later_write;  // to the drive: after the present update, and after the next
    for (std::size_t i = role_.ops.size(); i-- > 0;) {
      const Stream stream = role_.ops[i].stream;
      const OpId id{static_cast<std::int32_t>(i)};
      next_transfer[i] = {next[stream]};
      if (role_.ops[i].kind != OpKind::Call) next[stream] = id.v;
      if (stream == Stream::Host && last_write.valid()) {
        later_write = std::exchange(last_write, OpId{});
      } else if (stream == Stream::DriveWrite) {
        if (!last_write.valid()) last_write = id;
        next_transfer[i] = later_write;
      }
    }
    const IndexVector<OpId, OpId> receives = last_receives(role_, posting_);
    const OpId end{static_cast<std::int32_t>(role_.ops.size()) - 1};
    for (const BufferId id : role_.buffers.ids()) {
      Buffer& buffer = role_.buffers[id];
      const OpId used_last = buffer.last();
      if (!used_last.valid()) continue;
      OpId last = used_last;
      const Stream stream = role_.op(used_last).stream;
      const bool at_once = stream == Stream::DriveWrite && !writes_behind_;
      if (stream != Stream::Compute && stream != Stream::Host && !at_once) {
        const OpId later = next_transfer[used_last];
        if (later.valid() &&
            (buffer.kind != BufferKind::Grad || same_microbatch(used_last, later))) {
          last = later;
        }
      }
      last = std::max(last, receives[used_last]);
      if (keeps_sent_ && role_.op(used_last).kind == OpKind::Send) last = end;
      buffer.set_lifetime(buffer.first(), last);
    }
  }

  bool same_microbatch(OpId a, OpId b) const {
    return role_.op(a).microbatch == role_.op(b).microbatch;
  }

  FreeList::Lot place(Buffer& buffer, std::vector<FreeList::Tenant>* former = nullptr) {
    const FreeList::Lot lot = arenas_[buffer.tier].take(room_of(buffer), former);
    buffer.offset = arenas_[buffer.tier].offset(lot);
    return lot;
  }

  /// Places a buffer, if this is its first use.
  const Stay& begin_stay(BufferId root) {
    Stay& stay = stays_[root];
    if (stay.former >= 0) return stay;
    stay.former = former_.next();
    stay.lot = place(role_.buffers[root], &former_);
    stay.end_of_former = former_.next();
    return stay;
  }

  /// The bytes that a buffer takes. Beside a drive, those in host memory are whole blocks, too, so
  /// that every one begins where direct I/O can.
  std::int64_t room_of(const Buffer& buffer) const {
    const bool in_blocks = uses_drive_ && buffer.tier != Tier::Device;
    return round_up(buffer.bytes.v, in_blocks ? kDriveBlock : FreeList::kAlignment);
  }

  Role& role_;
  const P2pPosting posting_;
  const bool keeps_sent_;
  const bool writes_behind_;  // what is written to the drive is not waited for
  bool uses_drive_ = false;
  StreamUses uses_;
  IndexArray<Tier, FreeList, kNumTiers> arenas_;
  IndexVector<BufferId, Stay> stays_;                   // by root
  IndexVector<std::int32_t, FreeList::Tenant> former_;  // of all stays, as root buffers
};

}  // namespace

void memory(IndexVector<int, DraftRole>& roles, const StrategySpec& strategy) {
  each_role(roles, 2, [&](Role& role) { ArenaPlanner(role, strategy).run(); });
}

}  // namespace lockstep
