// drive: keeps offloaded states, and shards of parameters, on the node's drives (Rajbhandari et al.
// 2021, ZeRO-Infinity). The host computes in its memory only, so that what it needs of a unit is
// read to a staging buffer there before its update, and written back after it. Reads go ahead of
// the update by some units: while the host updates one unit, the states of the next are read and
// those of the last are written. A shard of parameters is read so before each copy to the device,
// and what replicas that train apart bring together is read before its copy to the device and
// written after the copy back: a step without a synchronization has none of these.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// What the host memory holds of a drive from one op of the list to another.
struct Visit {
  struct Staged {
    BufferId on_drive, in_memory;
    bool read = false, written = false;
  };
  std::size_t first = 0, last = 0;  // the ops that use it
  int unit = -1;
  std::vector<Staged> staged;
};

class DriveRewriter {
 public:
  DriveRewriter(const Program& program, const StrategySpec& strategy, Role& role)
      : program_(program), strategy_(strategy), role_(role) {}

  void run() {
    place();
    for (std::size_t i = 0; i < role_.ops.size(); ++i) stage(i);
    insert_copies(fetches_, std::max(1, strategy_.offload_read_ahead()));
    insert_copies(updates_, strategy_.offload_read_ahead());
    insert_copies(synchronizations_, std::max(1, strategy_.offload_read_ahead()));
    insert_ops(role_, std::move(insertions_));
    if (!strategy_.offload_pipeline_read) wait_for(Stream::Host, Stream::DriveRead);
    if (!strategy_.offload_pipeline_write) {
      wait_for(Stream::DriveWrite, Stream::Host);
      wait_for(Stream::DriveWrite, Stream::DriveRead);
    }
  }

 private:
  /// Moves buffers of units from the host's memory to the drive.
  void place() {
    unit_of_.assign(role_.buffers.size(), -1);
    const auto move = [&](BufferId id, int unit, OffloadDevice device) {
      if (!id.valid() || role_.buffer(id).tier != Tier::Host || device != OffloadDevice::Nvme)
        return;
      role_.buffers[id].tier = Tier::Drive;
      unit_of_[id] = unit;
    };
    for (const int u : role_.units.ids()) {
      const Unit& unit = role_.units[u];
      unit.each_state([&](const StateRow& row, BufferId state) {
        if (row.keeper == Keeper::Optimizer) move(state, u, strategy_.offload_optimizer_device);
      });
      move(unit.param(), u, strategy_.offload_param_device);
    }
  }

  /// Lets op `i` use staging buffers for what lies on the drive.
  void stage(std::size_t i) {
    const Op& op = role_.ops[i];
    for (std::size_t a = 0; a < op.args_count; ++a) {
      BufferId& arg = role_.args[op.args_begin + a];
      if (to_size(arg) >= unit_of_.size() || unit_of_[arg] < 0) continue;
      const Access how = access(program_, op, a);
      Visit& visit = visit_of(op, i, unit_of_[arg]);
      const auto known =
          std::find_if(visit.staged.begin(), visit.staged.end(),
                       [&](const Visit::Staged& staged) { return staged.on_drive == arg; });
      Visit::Staged* staged = known == visit.staged.end() ? nullptr : &*known;
      if (staged == nullptr) {
        Buffer copy = role_.buffer(arg);
        copy.tier = Tier::Host;
        visit.staged.push_back({arg, add_buffer(role_, copy), how != Access::Write, false});
        staged = &visit.staged.back();
      }
      staged->written |= how != Access::Read;
      arg = staged->in_memory;
    }
  }
  Visit& visit_of(const Op& op, std::size_t i, int unit) {
    // A unit is updated by ops in a row, of which the last may copy what was updated to the device.
    // Each copy to the device before a gather reads anew, and so does a synchronization.
    const bool updates = op.phase == Phase::O;
    std::vector<Visit>& visits = updates                ? updates_
                                 : op.phase == Phase::S ? synchronizations_
                                                        : fetches_;
    const bool goes_on = updates && !visits.empty() && visits.back().unit == unit;
    if (!goes_on) visits.push_back({i, i, unit, {}});
    visits.back().last = i;
    return visits.back();
  }

  /// Adds the copies of visits; those that read come `ahead` visits before the one that needs them.
  /// The writes of a visit come before the reads of a later one that may take its memory.
  void insert_copies(const std::vector<Visit>& visits, int ahead) {
    const auto reads_ahead = to_size(ahead);
    const auto read = [&](std::size_t visit, std::size_t place) {
      if (visit >= visits.size()) return;
      for (const Visit::Staged& staged : visits[visit].staged) {
        if (!staged.read) continue;
        insert(OpKind::DriveToHost, place, visits[visit], staged.on_drive, staged.in_memory);
      }
    };
    for (std::size_t v = 0; v < visits.size(); ++v) {
      for (std::size_t first = 0; v == 0 && first < reads_ahead; ++first) {
        read(first, visits[0].first);
      }
      read(v + reads_ahead, visits[v].first);
      for (const Visit::Staged& staged : visits[v].staged) {
        if (!staged.written) continue;
        insert(OpKind::HostToDrive, visits[v].last + 1, visits[v], staged.in_memory,
               staged.on_drive);
      }
    }
  }
  void insert(OpKind kind, std::size_t place, const Visit& visit, BufferId from, BufferId to) {
    Op copy = memory_copy(kind, role_.buffer(from).layer);
    copy.phase = role_.ops[visit.first].phase;
    insertions_.push_back({place, copy, {from, to}});
  }

  /// Lets every op of the update on stream `waits` wait for the op before it on stream `earlier`.
  void wait_for(Stream earlier, Stream waits) {
    OpId newest;
    for (const OpId id : role_.ops.ids()) {
      Op& op = role_.ops[id];
      if (op.phase != Phase::O) continue;
      if (op.stream == earlier) newest = id;
      if (op.stream != waits || !newest.valid()) continue;
      const auto had = role_.after_of(op);
      std::vector<OpId> after(had.begin(), had.end());
      after.push_back(newest);
      op.after_begin = static_cast<std::uint32_t>(role_.after.size());
      op.after_count = static_cast<std::uint8_t>(after.size());
      role_.after.insert(role_.after.end(), after.begin(), after.end());
    }
  }

  const Program& program_;
  const StrategySpec& strategy_;
  Role& role_;
  IndexVector<BufferId, int> unit_of_;  // of what lies on the drive; -1: it does not
  std::vector<Visit> updates_, fetches_, synchronizations_;
  std::vector<Insertion> insertions_;
};

}  // namespace

void drive(const Program& program, IndexVector<int, DraftRole>& roles,
           const StrategySpec& strategy) {
  if (!strategy.offloads_to_drive()) return;
  for (DraftRole& out : roles) DriveRewriter(program, strategy, out.role).run();
}

}  // namespace lockstep
