#include <algorithm>
#include <map>

#include "core/base/interval_map.hpp"
#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/repeats.hpp"

namespace lockstep::verification {
namespace {

bool updates_weights(const Kernel& kernel) { return info(kernel.kind).moves_weights; }

/// Follows gradients through the step in list order. A byte counts as computed when a kernel other
/// than a fill wrote it, or a collective whose source holds computed bytes. An all-reduce works in
/// place, so that it changes nothing here. What lies on a drive is updated in a buffer in host
/// memory, and counts when that is written back.
class Gradients {
 public:
  Gradients(const Program& program, RoleId id, const Ranges& ranges, const Repeats& repeats,
            Faults& faults)
      : program_(program),
        role_(program.roles[id]),
        role_id_(id),
        repeats_(repeats),
        faults_(faults),
        ranges_(ranges),
        updates_(role_.units.size()),
        updater_(role_.units.size()),
        writer_(role_.units.size()),
        gatherer_(role_.units.size()) {}

  void check() {
    for (const int u : role_.units.ids()) {
      const Unit& unit = role_.units[u];
      if (unit.trained() && unit.shard_elements > 0) {
        by_root_[whole(unit.updated()).root].push_back(u);
        params_[whole(unit.param()).root].push_back(u);
      }
    }
    if (by_root_.empty()) return;
    find_wanted();
    for (const OpId id : role_.ops.ids()) {
      const Op& op = role_.op(id);
      if (repeats_.original(role_id_, id).valid() || !matters(op)) continue;
      if (op.kind == OpKind::Call) {
        compute(op);
        update(op, id);
      } else {
        transfer(op);
        if (op.kind == OpKind::AllGather) gather(op, id);
        if (op.kind == OpKind::HostToDrive) bring_home(op);
      }
      if (!is_collective(op.kind)) overwrite(op, id);
    }
    for (const auto& [root, units] : by_root_) {
      for (const int unit : units) check_updated(unit);
    }
  }

 private:
  /// Which ops on a buffer are followed: all if it holds a gradient, those that change it if it
  /// holds parameters.
  enum class Follow : char { Nothing, Changes, All };

  Touch whole(BufferId buffer) const {
    return ranges_.part(buffer, 0, role_.buffer(buffer).bytes.v, Access::Read);
  }
  Touch operand(const Op& op, const Operand& operand, std::int64_t elements) const {
    return ranges_.part(role_.args_of(op)[to_size(operand.formal)], operand.offset,
                        elements * size_of(operand.dtype), Access::Write);
  }
  void mark(const Touch& touch) { computed_[touch.root].assign(touch.begin, touch.end, 1); }
  /// Whether a part of the range was computed. A part is enough, because elements that no token
  /// reaches (positions past the sequence, padding) are only filled with zeros. That all of them
  /// are written is checked by check_memory(), as of every buffer.
  bool computed(BufferId root, std::int64_t begin, std::int64_t end) {
    bool any = false;
    computed_[root].visit(begin, end, [&](std::int64_t, std::int64_t, char) { any = true; });
    return any;
  }

  static bool moves(const Op& op) {
    return op.kind == OpKind::AllGather || op.kind == OpKind::ReduceScatter ||
           is_exchange(op.kind) || is_counted(op.kind) || op.kind == OpKind::Rotate ||
           op.moves_memory();
  }

  /// Whether an op touches a gradient that is followed, or changes parameters. Few ops do.
  bool matters(const Op& op) const {
    if (op.kind == OpKind::HostToDrive) return true;
    const auto args = role_.args_of(op);
    for (std::size_t a = 0; a < args.size(); ++a) {
      const Follow follow = follow_[args[a]];
      if (follow == Follow::All) return true;
      if (follow == Follow::Changes && access(program_, op, a) != Access::Read) return true;
    }
    return false;
  }

  /// Finds the buffers that are followed: those that an optimizer reads as gradients, and those
  /// that are reduced into these. It would cost time to follow every activation, and find nothing.
  void find_wanted() {
    for (const Function& function : program_.functions) {
      const auto& kernels = function.kernels;
      updater_functions_.push_back(std::any_of(kernels.begin(), kernels.end(), updates_weights));
    }
    wanted_.assign(role_.buffers.size(), false);
    const auto want = [this](BufferId buffer) { wanted_[ranges_.root(buffer)] = true; };
    for (std::size_t i = role_.ops.size(); i-- > 0;) {
      const Op& op = role_.ops[i];
      const auto args = role_.args_of(op);
      if (op.kind == OpKind::Call) {
        if (!updater_functions_[op.function()]) continue;
        for (const Kernel& kernel : program_.function(op.function()).kernels) {
          if (!updates_weights(kernel)) continue;
          want(args[to_size(kernel.in[0].formal)]);
        }
      } else if (moves(op) && wanted(args[1])) {
        want(args[0]);
      }
      if (op.kind == OpKind::HostToDrive) homes_[ranges_.root(args[0])] = args[1];
    }
    follow_.assign(role_.buffers.size(), Follow::Nothing);
    for (const auto& [root, units] : params_) follow_[root] = Follow::Changes;
    for (const BufferId id : follow_.ids()) {
      const BufferId root = ranges_.root(id);
      follow_[id] = wanted_[root] ? Follow::All : follow_[root];
    }
  }
  bool wanted(BufferId buffer) const { return wanted_[ranges_.root(buffer)]; }

  void compute(const Op& op) {
    const auto args = role_.args_of(op);
    if (std::none_of(args.begin(), args.end(), [this](BufferId b) { return wanted(b); })) return;
    for (const Kernel& kernel : program_.function(op.function()).kernels) {
      if (kernel.kind == KernelKind::Fill) continue;
      for (std::size_t k = 0; k < kernel.out.size(); ++k) {
        const Operand& out = kernel.out[k];
        if (out.present() && wanted(role_.args_of(op)[to_size(out.formal)])) {
          mark(operand(op, out, output_elements(kernel, k)));
        }
      }
    }
  }

  void transfer(const Op& op) {
    const auto args = role_.args_of(op);
    if (op.kind == OpKind::Recv && wanted(args[0])) return mark(whole(args[0]));
    if (!moves(op) || !wanted(args[1])) return;
    const Touch source = whole(args[0]);
    if (computed(source.root, source.begin, source.end)) mark(whole(args[1]));
  }

  void gather(const Op& op, OpId id) {
    const Touch full = whole(role_.args_of(op)[1]);
    const auto units = params_.find(full.root);
    if (units == params_.end()) return;
    for (const int u : units->second) {
      const Touch param = whole(role_.units[u].param());
      if (full.begin <= param.begin && param.end <= full.end) gatherer_[u] = id;
    }
  }

  /// Notes which op last wrote the parameters of a unit.
  void overwrite(const Op& op, OpId id) {
    const auto args = role_.args_of(op);
    for (std::size_t a = 0; a < args.size(); ++a) {
      if (access(program_, op, a) == Access::Read) continue;
      const auto units = params_.find(ranges_.root(args[a]));
      if (units == params_.end()) continue;
      for (const int u : units->second) writer_[u] = id;
    }
  }

  void update(const Op& op, OpId id) {
    if (!updater_functions_[op.function()]) return;
    for (const Kernel& kernel : program_.function(op.function()).kernels) {
      if (!updates_weights(kernel)) continue;
      const Touch weights = operand(op, kernel.out[0], kernel.dims[0]);
      const Touch gradient = operand(op, kernel.in[0], kernel.dims[0]);
      const auto home = homes_.find(weights.root);
      const auto units = by_root_.find(home == homes_.end() ? weights.root : home->second);
      if (units == by_root_.end()) continue;
      for (const int u : units->second) {
        const BufferId updated = role_.units[u].updated();
        const Buffer& param = role_.buffer(updated);
        if (kernel.out[0].dtype != param.dtype) {
          faults_.add(op_at(program_, role_, id) + " updates " +
                      std::string(to_string(kernel.out[0].dtype)) + " in " +
                      buffer_name(program_, role_, updated) + ", which holds " +
                      std::string(to_string(param.dtype)));
          continue;
        }
        if (home == homes_.end()) updates_[u].assign(weights.begin, weights.end, 1);
        if (home != homes_.end()) away_[weights.root].push_back({u, weights.begin, weights.end});
        updater_[u] = id;
        check_gradient(u, id, weights, gradient, size_of(param.dtype), size_of(kernel.in[0].dtype));
      }
    }
  }

  /// What was updated in a buffer in host memory is now so on the drive. Such a buffer is no view,
  /// and neither is what it is a copy of.
  void bring_home(const Op& op) {
    const auto away = away_.find(whole(role_.args_of(op)[0]).root);
    if (away == away_.end()) return;
    for (const Away& update : away->second)
      updates_[update.unit].assign(update.begin, update.end, 1);
    away_.erase(away);
  }

  /// Calls visit(name, first element, end) for the stretches of a unit's buffer that hold values
  /// and no padding. They are its parameters; of a sharded unit it is the whole shard, because
  /// every rank of the role has a shard of other parameters.
  template <class Visit>
  void for_each_part(const Unit& unit, Visit&& visit) const {
    if (unit.shard_group.valid()) {
      return visit("shard of " + unit.name, 0, std::min(unit.elements, unit.shard_elements));
    }
    for (const UnitParameter& part : unit.parameters) {
      const Parameter& parameter = program_.parameters[part.parameter];
      visit(parameter.name, part.offset, part.offset + held_elements(program_, unit, part));
    }
  }

  void check_gradient(int u, OpId id, const Touch& weights, const Touch& gradient,
                      std::int64_t weight_size, std::int64_t gradient_size) {
    const Unit& unit = role_.units[u];
    const std::int64_t unit_begin = whole(unit.updated()).begin;
    for_each_part(unit, [&](const std::string& name, std::int64_t begin, std::int64_t end) {
      const std::int64_t from = std::max(weights.begin, unit_begin + begin * weight_size);
      const std::int64_t to = std::min(weights.end, unit_begin + end * weight_size);
      if (from >= to) return;
      const std::int64_t g_begin =
          gradient.begin + (from - weights.begin) / weight_size * gradient_size;
      const std::int64_t g_end =
          gradient.begin + (to - weights.begin) / weight_size * gradient_size;
      if (!computed(gradient.root, g_begin, g_end)) {
        faults_.add(op_at(program_, role_, id) + " updates parameter " + name +
                    ", but its gradient " + buffer_name(program_, role_, gradient.root) +
                    " was never computed");
      }
    });
  }

  void check_updated(int u) {
    const Unit& unit = role_.units[u];
    if (unit.gathered_late && !gatherer_[u].valid()) {
      faults_.add("rank " + std::to_string(role_.ranks.front()) + ": " +
                  buffer_name(program_, role_, unit.param()) +
                  " begins a step with one shard up to date, and no all_gather brings the others");
    } else if (unit.whole_param && !unit.gathered_late && updater_[u].valid() &&
               gatherer_[u] < updater_[u]) {
      faults_.add(op_at(program_, role_, updater_[u]) + " updates one shard of " +
                  buffer_name(program_, role_, unit.param()) +
                  ", which holds all of them, and no all_gather after it brings the others");
    }
    if (unit.has(StateKind::Master) && updater_[u].valid() && writer_[u] < updater_[u]) {
      faults_.add(op_at(program_, role_, updater_[u]) + " updates " +
                  buffer_name(program_, role_, unit.states[StateKind::Master]) +
                  ", and nothing after it brings " + buffer_name(program_, role_, unit.param()) +
                  " up to date");
    }
    const std::int64_t size = size_of(role_.buffer(unit.updated()).dtype);
    const std::int64_t unit_begin = whole(unit.updated()).begin;
    for_each_part(unit, [&](const std::string& name, std::int64_t begin, std::int64_t end) {
      if (updates_[u].covers(unit_begin + begin * size, unit_begin + end * size)) return;
      faults_.add("rank " + std::to_string(role_.ranks.front()) + ": parameter " + name +
                  " has optimizer state but never gets its gradient: no adamw writes " +
                  buffer_name(program_, role_, unit.updated()) +
                  (updater_[u].valid()
                       ? " entirely; the last is " + op_at(program_, role_, updater_[u])
                       : std::string{}));
    });
  }

  const Program& program_;
  const Role& role_;
  const RoleId role_id_;
  const Repeats& repeats_;  // whose ops compute what others have computed
  Faults& faults_;
  const Ranges& ranges_;
  std::map<BufferId, std::vector<int>> by_root_;  // units by root of what is updated
  std::map<BufferId, std::vector<int>> params_;   // units by root of their parameters
  struct Away {
    int unit = -1;
    std::int64_t begin = 0, end = 0;
  };
  std::map<BufferId, BufferId> homes_;          // by buffer in host memory: where it is written to
  std::map<BufferId, std::vector<Away>> away_;  // likewise: its updates that are not written yet
  std::map<BufferId, IntervalMap<char>> computed_;  // by root
  IndexVector<BufferId, char> wanted_;              // by root
  IndexVector<BufferId, Follow> follow_;
  IndexVector<FunctionId, char> updater_functions_;  // whether a kernel of it updates weights
  IndexVector<int, IntervalMap<char>> updates_;      // by unit: bytes of its root
  IndexVector<int, OpId> updater_;                   // by unit: the last op that updated it
  IndexVector<int, OpId> writer_;                    // by unit: last writer of parameters
  IndexVector<int, OpId> gatherer_;                  // by unit: their last all-gather
};

}  // namespace

void check_gradients(const Program& program, RoleId role, const Ranges& ranges,
                     const Repeats& repeats, Faults& faults) {
  Gradients(program, role, ranges, repeats, faults).check();
}

}  // namespace lockstep::verification
