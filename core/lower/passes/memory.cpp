// memory: gives buffers their lifetimes and their offsets in the arenas. A buffer lives from the
// first op of the list that names it to the last. If it takes over bytes of another buffer, its
// first op on each stream waits for the last users of that buffer.
//
// A buffer that a transfer uses last lives on until the next transfer of that stream. Otherwise its
// bytes would be used by the computation beside the transfer, which would have to wait for it; FSDP
// keeps one input of a reduce-scatter for the same reason. What an exchange sends lives on until
// the last receive of the exchange is posted: all its messages are posted together, so that none of
// its receives may wait for one of its sends.
#include <algorithm>
#include <array>
#include <map>

#include "core/base/free_list.hpp"
#include "core/base/index_vector.hpp"
#include "core/lower/draft/dependencies.hpp"
#include "core/lower/draft/exchange.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

using ByStream = IndexArray<Stream, std::int32_t, kNumStreams>;  // the newest op; -1: none

/// Bytes of a freed buffer that no buffer has taken over yet, with the last op of each stream that
/// used them.
struct Freed {
  std::int64_t end = 0;
  ByStream last{};
};

class ArenaPlanner {
 public:
  ArenaPlanner(Role& role, P2pPosting posting) : role_(role), posting_(posting) {}

  void run() {
    lifetimes();
    for (Buffer& buffer : role_.buffers) {
      if (buffer.persistent()) buffer.offset = arena(buffer).allocate(buffer.bytes.v);
    }
    Dependencies dependencies(role_);
    for (std::size_t i = 0; i < role_.ops.size(); ++i) {
      const OpId id{static_cast<std::int32_t>(i)};
      dependencies.begin(id);
      each_root(role_.ops[i], [&](BufferId root) {
        Buffer& buffer = role_.buffers[root];
        if (placed_[root]) return wait_for_old_tenants(id, root, dependencies);
        if (buffer.first != id) return;
        placed_[root] = true;
        buffer.offset = arena(buffer).allocate(buffer.bytes.v);
        take_over(root);
        wait_for_old_tenants(id, root, dependencies);
      });
      for (; next_expiry_ < expiries_.size() && role_.buffer(expiries_[next_expiry_]).last == id;
           ++next_expiry_) {
        give_back(expiries_[next_expiry_]);
      }
      dependencies.end();
    }
    dependencies.store();
    role_.arena = Bytes{arenas_[0].high_water()};
    role_.host_arena = Bytes{arenas_[1].high_water()};
  }

 private:
  FreeList& arena(const Buffer& buffer) { return arenas_[buffer.on_host]; }
  template <class Visit>
  void each_root(const Op& op, Visit&& visit) {
    for (BufferId arg : role_.args_of(op)) visit(role_.root(arg));
  }

  void lifetimes() {
    ByStream none;
    none.fill(-1);
    last_users_.assign(role_.buffers.size(), none);
    old_tenants_.assign(role_.buffers.size(), none);
    waited_.assign(role_.buffers.size(), 0);
    placed_.assign(role_.buffers.size(), false);
    IndexVector<BufferId, bool> persistent(role_.buffers.size(), false);
    for (const Unit& unit : role_.units) {
      for (BufferId id : {unit.param, unit.master, unit.adam_m, unit.adam_v}) {
        if (id.valid()) persistent[id] = true;
      }
    }
    for (std::size_t i = 0; i < role_.ops.size(); ++i) {
      const OpId id{static_cast<std::int32_t>(i)};
      each_root(role_.ops[i], [&](BufferId root) {
        Buffer& buffer = role_.buffers[root];
        last_users_[root][role_.ops[i].stream] = id.v;
        if (persistent[root]) return;
        if (!buffer.first.valid()) buffer.first = id;
        buffer.last = id;
      });
    }
    ByStream next;  // by stream, the next op after the present one
    next.fill(-1);
    IndexVector<OpId, OpId> next_on_stream(role_.ops.size());
    for (std::size_t i = role_.ops.size(); i-- > 0;) {
      std::int32_t& following = next[role_.ops[i].stream];
      next_on_stream[i] = {following};
      following = static_cast<std::int32_t>(i);
    }
    const IndexVector<OpId, OpId> receives = last_receives(role_, posting_);
    for (std::size_t b = 0; b < role_.buffers.size(); ++b) {
      Buffer& buffer = role_.buffers[b];
      if (!buffer.last.valid()) continue;
      const Stream last = role_.op(buffer.last).stream;
      const OpId receive = receives[buffer.last];
      if (last != Stream::Compute && last != Stream::Host) {
        const OpId later = next_on_stream[buffer.last];
        if (later.valid()) buffer.last = later;
      }
      buffer.last = std::max(buffer.last, receive);
      expiries_.push_back({static_cast<std::int32_t>(b)});
    }
    std::sort(expiries_.begin(), expiries_.end(), [&](BufferId a, BufferId b) {
      const OpId x = role_.buffer(a).last;
      const OpId y = role_.buffer(b).last;
      return x != y ? x < y : a < b;
    });
  }

  /// Notes who used the bytes that a buffer has been given.
  void take_over(BufferId root) {
    const Buffer& buffer = role_.buffer(root);
    auto& tenants = old_tenants_[root];
    const std::int64_t begin = buffer.offset;
    const std::int64_t end = begin + round_up(buffer.bytes.v, FreeList::kAlignment);
    if (begin == end) return;
    auto& freed_bytes = freed_bytes_[buffer.on_host];
    auto it = freed_bytes.lower_bound(begin);
    if (it != freed_bytes.begin() && std::prev(it)->second.end > begin) --it;
    while (it != freed_bytes.end() && it->first < end) {
      for (std::size_t s = 0; s < tenants.size(); ++s) {
        tenants[s] = std::max(tenants[s], it->second.last[s]);
      }
      const std::int64_t old_begin = it->first;
      const Freed old = it->second;
      it = freed_bytes.erase(it);
      if (old_begin < begin) freed_bytes.emplace(old_begin, Freed{begin, old.last});
      if (old.end > end) it = freed_bytes.emplace(end, old).first;
    }
  }

  /// Makes the first op of each stream wait; later ops of the stream come after it.
  void wait_for_old_tenants(OpId id, BufferId root, Dependencies& dependencies) {
    const auto stream = 1u << static_cast<unsigned>(role_.op(id).stream);
    if ((waited_[root] & stream) != 0) return;
    waited_[root] |= stream;
    for (const std::int32_t op : old_tenants_[root]) {
      if (op >= 0) dependencies.add({op});
    }
  }

  void give_back(BufferId id) {
    const Buffer& buffer = role_.buffer(id);
    if (buffer.bytes.v == 0) return;
    const auto& users = last_users_[id];
    arena(buffer).release(buffer.offset, buffer.bytes.v);
    const std::int64_t end = buffer.offset + round_up(buffer.bytes.v, FreeList::kAlignment);
    freed_bytes_[buffer.on_host].emplace(buffer.offset, Freed{end, users});
  }

  Role& role_;
  const P2pPosting posting_;
  std::array<FreeList, 2> arenas_;              // the device's, and the host's
  IndexVector<BufferId, ByStream> last_users_;  // by root buffer
  /// By root buffer and stream: the op that last used its bytes before it.
  IndexVector<BufferId, ByStream> old_tenants_;
  IndexVector<BufferId, std::uint32_t>
      waited_;  // by root buffer: the streams that wait for those, as bits
  IndexVector<BufferId, bool> placed_;
  std::vector<BufferId> expiries_;  // buffers with a lifetime, sorted by its end
  std::size_t next_expiry_ = 0;
  std::array<std::map<std::int64_t, Freed>, 2> freed_bytes_;  // by begin; disjoint
};

}  // namespace

void memory(IndexVector<int, DraftRole>& roles, P2pPosting posting) {
  for (DraftRole& out : roles) ArenaPlanner(out.role, posting).run();
}

}  // namespace lockstep
