// offload: puts states into host memory (Rajbhandari et al. 2021, ZeRO-Offload) by one rewrite of
// the whole list. Gradients go to the host as soon as they are reduced, the host computes
// everything whose operands it then has, and the results that the device needs are copied back.
// Parameters that lie on the host are copied to the device ahead of each gather. Those that every
// rank holds whole stay on the device.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

class HostRewriter {
 public:
  HostRewriter(const Program& program, DraftRole& out) : program_(program), out_(out) {}

  Result<void> run(Offload what) {
    place_states(what);
    bring_gradients();
    if (what == Offload::Parameters) fetch_parameters();
    find_last_host_calls();
    for (std::size_t i = 0; i < role_.ops.size(); ++i) {
      if (!update_on_host(i)) return fault(i);
    }
    insert_ops(role_, std::move(insertions_));
    number_twins();
    return {};
  }

 private:
  Buffer& buffer(BufferId id) { return role_.buffers[id]; }
  /// Whether an op belongs to the update, which ends the step.
  static bool updates(const Op& op) { return op.phase == Phase::O; }

  void place_states(Offload what) {
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      Unit& unit = role_.units[u];
      if (out_.units[u].on_host.valid()) {
        unit.states[StateKind::Master] = out_.units[u].on_host;
        copies_[unit.param()] = unit.states[StateKind::Master];
      }
      unit.each_state([&](const StateRow& row, BufferId state) {
        if (row.keeper == Keeper::Optimizer) buffer(state).tier = Tier::Host;
      });
      if (what == Offload::Parameters && !unit.whole_param) buffer(unit.param()).tier = Tier::Host;
    }
  }

  /// Makes a buffer like `id` in the other memory, the host's or the device's. number_twins() will
  /// put it behind buffer `behind`.
  BufferId twin(BufferId id, BufferId behind) {
    Buffer other = role_.buffer(id);
    other.tier = other.tier == Tier::Host ? Tier::Device : Tier::Host;
    other.offset = 0;
    other.set_view({});
    behind_.push_back(behind);
    return add_buffer(role_, other);
  }
  void see(const Op& op) {
    for (const BufferId arg : role_.args_of(op)) {
      newest_ = std::max({newest_, arg, role_.root(arg)});
    }
  }

  /// Copies every gradient to the host as soon as it is reduced, while the backward pass goes on.
  void bring_gradients() {
    std::map<std::int32_t, std::vector<std::size_t>> units_of;  // by root of the gradient
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      if (!out_.units[u].trained()) continue;
      units_of[role_.root(out_.units[u].reduced).v].push_back(u);
    }
    const auto range = [&](BufferId id) {
      const std::int64_t begin = role_.arena_offset(id);
      return std::pair(begin, begin + span_of(program_, role_.buffer(id)).v);
    };
    std::vector<std::size_t> written(out_.units.size(), 0);  // by unit: place after the last write
    for (std::size_t i = 0; i < role_.ops.size(); ++i) {
      if (updates(role_.ops[i])) continue;
      see(role_.ops[i]);
      const auto args = role_.args_of(role_.ops[i]);
      for (std::size_t a = 0; a < args.size(); ++a) {
        const auto units = units_of.find(role_.root(args[a]).v);
        if (units == units_of.end()) continue;
        if (access(program_, role_.ops[i], a) == Access::Read) continue;
        const auto [begin, end] = range(args[a]);
        for (const std::size_t u : units->second) {
          const auto [from, to] = range(out_.units[u].reduced);
          if (begin < to && from < end) written[u] = i + 1;
        }
      }
    }
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      if (!out_.units[u].trained()) continue;
      const BufferId reduced = out_.units[u].reduced;
      const BufferId on_host = brought_[reduced] = twin(reduced, newest_);
      const int layer = role_.buffer(role_.units[u].param()).layer;
      insertions_.push_back(
          {written[u], memory_copy(OpKind::DeviceToHost, layer), {reduced, on_host}});
    }
  }

  /// Copies shards of parameters that lie on the host to the device before they are gathered, or
  /// their codes are made.
  void fetch_parameters() {
    for (std::size_t i = 0; i < role_.ops.size(); ++i) {
      const Op& op = role_.ops[i];
      if (op.kind != OpKind::AllGather && op.stream != Stream::Gather) continue;
      BufferId& shard = role_.args[op.args_begin];
      if (role_.buffer(shard).tier != Tier::Host) continue;
      const BufferId gathered = role_.args_of(op)[1];
      const BufferId fetched = twin(shard, gathered);
      Op copy = memory_copy(OpKind::HostToDevice, op.layer);
      copy.after_begin = op.after_begin;  // it waits for what the gather waited for
      copy.after_count = op.after_count;
      insertions_.push_back({i, copy, {shard, fetched}});
      shard = fetched;
    }
  }

  /// Whether the host computes an op: it does if an operand is in its memory, which may be a state,
  /// or a gradient that was copied there.
  bool on_host(const Op& op) const {
    if (op.kind != OpKind::Call || !updates(op)) return false;
    const auto args = role_.args_of(op);
    return std::any_of(args.begin(), args.end(), [&](BufferId arg) {
      return role_.buffer(arg).tier == Tier::Host || brought_.contains(arg);
    });
  }
  void find_last_host_calls() {
    for (std::size_t i = 0; i < role_.ops.size(); ++i) {
      if (!on_host(role_.ops[i])) continue;
      for (const BufferId arg : role_.args_of(role_.ops[i])) last_host_call_[arg] = i;
    }
  }

  /// Moves op `i` to the host if it belongs there. Returns false if it reads what the device
  /// updates.
  bool update_on_host(std::size_t i) {
    Op& op = role_.ops[i];
    if (!updates(op)) return true;
    const BufferId before = newest_;  // twins of what the op reads are numbered before the op's own
    see(op);
    if (!on_host(op)) return true;
    op.stream = Stream::Host;
    for (std::size_t a = 0; a < op.args_count; ++a) {
      BufferId& arg = role_.args[op.args_begin + a];
      if (role_.buffer(arg).tier == Tier::Host) continue;
      const BufferId device = arg;
      const Access how = access(program_, op, a);
      const auto known = known_twin(device);
      if (!known && how == Access::ReadWrite) return false;
      const BufferId behind = how == Access::Read ? before : newest_;
      const BufferId here = arg = known ? *known : twins_[device] = twin(device, behind);
      if (!known && how == Access::Read) move(OpKind::DeviceToHost, i, device, here);
      if (how != Access::Read && last_host_call_[device] == i) {
        move(OpKind::HostToDevice, i + 1, here, device);
      }
    }
    return true;
  }
  std::optional<BufferId> known_twin(BufferId device) const {
    for (const auto* twins : {&brought_, &twins_}) {
      if (const auto found = twins->find(device); found != twins->end()) return found->second;
    }
    const auto copy = copies_.find(role_.root(device));  // also for a piece of the parameters
    return copy == copies_.end() ? std::nullopt : std::optional(copy->second);
  }
  void move(OpKind kind, std::size_t place, BufferId from, BufferId to) {
    Op copy = memory_copy(kind, role_.buffer(from).layer);
    copy.phase = Phase::O;
    insertions_.push_back({place, copy, {from, to}});
  }
  Error fault(std::size_t i) const {
    return Error{ErrorKind::Internal,
                 "offload: the host reads what the device updates in " +
                     describe(program_, role_, {static_cast<std::int32_t>(i)}),
                 std::nullopt};
  }

  /// Renumbers the buffers so that every twin follows the buffer that was the newest when it was
  /// made. Buffers are then numbered in the order of their use.
  void number_twins() {
    const std::size_t old = role_.buffers.size() - behind_.size();
    std::vector<BufferId> order;  // by new id: the old id
    for (std::size_t b = 0; b < old; ++b) {
      const BufferId id{static_cast<std::int32_t>(b)};
      order.push_back(id);
      for (std::size_t t = 0; t < behind_.size(); ++t) {
        if (behind_[t] == id) order.push_back({static_cast<std::int32_t>(old + t)});
      }
    }
    IndexVector<BufferId, BufferId> moved_to(order.size());
    std::vector<Buffer> buffers;
    for (const BufferId id : order) {
      moved_to[id] = {static_cast<std::int32_t>(buffers.size())};
      buffers.push_back(role_.buffer(id));
    }
    const auto renumber = [&](BufferId& id) {
      if (id.valid()) id = moved_to[id];
    };
    role_.buffers = std::move(buffers);
    for (Buffer& b : role_.buffers) {
      if (b.is_view()) b.set_view(moved_to[b.parent()], b.piece_of());
    }
    for (BufferId& arg : role_.args) renumber(arg);
    for (Unit& unit : role_.units) {
      for (BufferId& id : unit.states) renumber(id);
    }
    for (DraftUnit& unit : out_.units) {
      for (BufferId* id : {&unit.grad, &unit.reduced, &unit.on_host}) renumber(*id);
    }
    renumber(out_.losses);
  }

  const Program& program_;
  DraftRole& out_;
  Role& role_ = out_.role;
  BufferId newest_{0};            // the newest buffer that was used so far
  std::vector<BufferId> behind_;  // by twin, in the order in which they are made
  // The next three map buffers on the device to their twins on the host.
  std::map<BufferId, BufferId> brought_;  // of gradients
  std::map<BufferId, BufferId> copies_;   // of parameters
  std::map<BufferId, BufferId> twins_;    // of other buffers
  std::map<BufferId, std::size_t> last_host_call_;
  std::vector<Insertion> insertions_;
};

}  // namespace

Result<void> offload(const Program& program, IndexVector<int, DraftRole>& roles, Offload what) {
  if (what == Offload::None) return {};
  for (DraftRole& out : roles) {
    if (Result<void> done = HostRewriter(program, out).run(what); !done) return done;
  }
  return {};
}

}  // namespace lockstep
