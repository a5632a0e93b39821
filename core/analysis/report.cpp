#include "core/analysis/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/analysis/staleness.hpp"
#include "core/analysis/step_shares.hpp"
#include "core/analysis/trace_report.hpp"
#include "core/base/index_vector.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/ir/lifetimes.hpp"
#include "core/ir/ring.hpp"

namespace lockstep {
namespace {

/// The figures that follow from a role alone, and so are the same for all its ranks.
struct RoleFacts {
  Bytes sent;
  int peak_in_flight = 0;
  int weight_staleness = 0;
  std::map<std::string, std::int64_t> peak_by_kind;
  Bytes host_memory;
  Bytes drive;
};

Bytes bytes_sent(const Program& program, const Role& role) {
  IndexVector<GroupId, int> size_of_group;
  for (const Group& group : program.groups) {
    size_of_group.push_back(group_size(program.mesh, group));
  }
  Bytes total, synchronization;
  for (const Op& op : role.ops) {
    Bytes& sum = op.phase == Phase::S ? synchronization : total;
    if (op.kind == OpKind::Send) {
      sum += payload_bytes(program, role, op);
    } else if (is_collective(op.kind)) {
      sum += ring_bytes(op.kind, payload_bytes(program, role, op), size_of_group[op.group()]);
    }
  }
  return total + Bytes{synchronization.v / std::max(program.sync_every, 1)};
}

/// The stages that all pipeline ranks share, because they divide the vocabulary.
std::vector<bool> shared_stages(const Program& program) {
  const int pp = program.mesh.index_of("pp");
  constexpr int kNone = -1, kSeveral = -2;
  IndexVector<Stage, int> place_of;  // its coordinate along "pp"
  std::vector<bool> shared;
  for (const Role& role : program.roles) {
    const int place = pp < 0 ? 0 : program.mesh.coordinate(role.ranks.front(), pp);
    for (const Op& op : role.ops) {
      if (op.kind != OpKind::Call || op.stage < 0) continue;
      if (op.stage >= place_of.next()) place_of.resize(to_size(op.stage) + 1, kNone);
      int& known = place_of[op.stage];
      if (known != place) known = known == kNone ? place : kSeveral;
    }
  }
  for (const int place : place_of) shared.push_back(place == kSeveral);
  return shared;
}

/// The most (stage, microbatch) pairs that are alive at once, except of stages that all ranks
/// share. A pair lives from its first compute op to its last. The compute stream runs in list
/// order, so this does not depend on times.
int peak_in_flight(const Role& role, const std::vector<bool>& shared) {
  struct Life {
    OpId first, last;
  };
  IndexVector<Stage, IndexVector<Microbatch, Life>> lives(shared.size());
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    const bool counts = op.kind == OpKind::Call && op.stage >= 0 && op.microbatch >= 0 &&
                        (op.phase == Phase::F || op.phase == Phase::B || op.phase == Phase::I ||
                         op.phase == Phase::W);
    if (!counts || shared[to_size(op.stage)]) continue;
    auto& of_stage = lives[op.stage];
    if (op.microbatch >= of_stage.next()) of_stage.resize(to_size(op.microbatch) + 1);
    Life& life = of_stage[op.microbatch];
    if (!life.first.valid()) life.first = id;
    life.last = id;
  }
  std::vector<int> change(role.ops.size() + 1, 0);
  for (const auto& of_stage : lives) {
    for (const Life& life : of_stage) {
      if (!life.first.valid()) continue;
      ++change[to_size(life.first)];
      --change[to_size(life.last) + 1];
    }
  }
  int live = 0, peak = 0;
  for (const int c : change) peak = std::max(peak, live += c);
  return peak;
}

std::map<std::string, std::int64_t> peak_by_kind(const Role& role) {
  IndexArray<BufferKind, std::int64_t, kNumBufferKinds> live{};
  std::int64_t total = 0;
  const auto add = [&](const Buffer& b, int sign) {
    if (b.tier != Tier::Device) return;
    live[b.kind] += sign * b.bytes.v;
    total += sign * b.bytes.v;
  };
  for (const Buffer& b : role.buffers) {
    if (b.persistent()) add(b, 1);
  }
  IndexArray<BufferKind, std::int64_t, kNumBufferKinds> best = live;
  std::int64_t best_total = total;
  const std::vector<BufferId> begins = temporaries_by_first(role);
  const std::vector<BufferId> ends = temporaries_by_last(role);
  auto end = ends.begin();
  for (auto begin = begins.begin(); begin != begins.end();) {
    const OpId op = role.buffer(*begin).first();  // before it, those are free that ended earlier
    for (; end != ends.end() && role.buffer(*end).last() < op; ++end) add(role.buffer(*end), -1);
    for (; begin != begins.end() && role.buffer(*begin).first() == op; ++begin) {
      add(role.buffer(*begin), 1);
    }
    if (total <= best_total) continue;
    best_total = total;
    best = live;
  }
  std::map<std::string, std::int64_t> result;
  for (const BufferKind kind : best.ids()) {
    if (best[kind] > 0) result[std::string(to_string(kind))] = best[kind];
  }
  return result;
}

/// Flops of the program's recompute (phase R), summed over all ranks.
Flops recomputed_flops(const Program& program) {
  IndexVector<FunctionId, double> of_function;
  for (const Function& f : program.functions) of_function.push_back(work(f).flops.v);
  Flops total;
  for (const Role& role : program.roles) {
    for (const Op& op : role.ops) {
      if (op.kind != OpKind::Call || op.phase != Phase::R) continue;
      total += static_cast<double>(role.ranks.size()) * Flops{of_function[op.function()]};
    }
  }
  return total;
}

class Analyzer {
 public:
  Analyzer(const Trace& trace, const Program& program, const ClusterSpec& cluster)
      : trace_(trace), program_(program), cluster_(cluster), shares_(trace, &program) {
    const std::vector<bool> shared = shared_stages(program_);
    for (const Role& role : program_.roles) {
      facts_.push_back({bytes_sent(program_, role), peak_in_flight(role, shared),
                        weight_staleness(program_, role), peak_by_kind(role), role.host_arena,
                        role.drive_arena});
    }
  }

  /// Needs neither buffers nor arguments of the program any more.
  Report analyze(std::vector<StepAnalysis>* kept = nullptr) {
    report_.model = program_.training.model;
    report_.cluster = cluster_.name;
    if (trace_.backend == "sim") {
      report_.software = software_of(cluster_);
      report_.certainty = certainty_of(cluster_);
    }
    report_.model_flops_per_step = program_.model_flops_per_step;
    report_.hardware_flops_per_step = program_.model_flops_per_step + recomputed_flops(program_);
    const AnalyzedSteps found = report_spans(report_, trace_, &program_, shares_, kept);
    measure_steps(found.steps);
    for (RankReport& rank : report_.ranks) add_facts(rank);
    SimTime slowed{};
    for (const std::int64_t of_rank : trace_.slowed) slowed += SimTime{of_rank};
    report_.slowed_compute = (1.0 / report_.world_size) * found.mean(slowed);
    return std::move(report_);
  }

 private:
  using Step = AnalyzedSteps::Step;

  void measure_steps(const std::vector<Step>& steps) {
    Seconds total;
    for (const Step& step : steps) total += step.share * to_seconds(step.makespan);
    measure_kinds_of_steps(steps);
    std::size_t count = steps.size();
    if (steps.empty()) {
      for (const StepResult& step : trace_.steps) total += step.time;
      count = trace_.steps.size();
    }
    if (count == 0) return;
    report_.step_time = (1.0 / static_cast<double>(count)) * total;
    if (!(report_.step_time.v > 0)) return;
    const double rate = static_cast<double>(program_.tokens_per_step) / report_.step_time.v;
    const bool images = program_.input.samples.kind == SampleKind::Images;
    (images ? report_.images_per_s : report_.tokens_per_s) = rate;
    if (rate > 0) report_.time_to_train = Seconds{program_.training.tokens / rate};
    const double peak = peak_of_ranks().v * report_.step_time.v;
    if (peak > 0) report_.mfu = program_.model_flops_per_step.v / peak;
    if (peak > 0) report_.hfu = report_.hardware_flops_per_step.v / peak;
    if (report_.tokens_per_s > 0) {
      report_.dollars_per_billion_tokens = dollars_per_second() / report_.tokens_per_s * 1e9;
    }
  }

  void measure_kinds_of_steps(const std::vector<Step>& steps) {
    if (program_.sync_every == 0) return;
    std::array<int, 2> counts{};
    const std::array<Seconds*, 2> times = {&report_.apart_step_time, &report_.sync_step_time};
    for (const Step& step : steps) {
      const std::size_t which = shares_.synchronizes(step.number) ? 1 : 0;
      ++counts[which];
      *times[which] += to_seconds(step.makespan);
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) *times[i] = (1.0 / counts[i]) * *times[i];
    }
  }

  /// What follows from the rank's role.
  void add_facts(RankReport& rank) const {
    const RoleFacts& f = facts_[program_.role_of_rank[rank.rank]];
    rank.peak_microbatches_in_flight = f.peak_in_flight;
    rank.weight_staleness = f.weight_staleness;
    rank.comm_bytes_sent = f.sent;
    if (to_size(rank.rank) >= trace_.peak_memory.size()) {
      rank.peak_memory = program_.role_of(rank.rank).arena;
    }
    rank.peak_memory_by_kind = f.peak_by_kind;
    rank.host_memory = f.host_memory;
    rank.drive = f.drive;
  }

  double dollars_per_second() const {
    const std::int64_t devices =
        ceil_div(report_.world_size, std::max(cluster_.ranks_per_device, 1));
    return static_cast<double>(devices) * cluster_.device.dollars_per_hour / 3600;
  }

  FlopsPerSecond peak_of_ranks() const {
    const int per_device = std::max(cluster_.ranks_per_device, 1);
    int units = 0;
    for (int left = report_.world_size; left > 0; left -= per_device) {
      units += std::min({left, per_device, std::max(cluster_.device.concurrent_ranks, 1)});
    }
    FlopsPerSecond peak = peak_rate(cluster_.device, program_.dtype);
    for (const Function& function : program_.functions) {
      for (const Kernel& kernel : function.kernels) {
        if (kernel.tf32) peak = std::max(peak, product_rate(cluster_.device, kernel));
      }
    }
    return {peak.v * units};
  }

  const Trace& trace_;
  const Program& program_;
  const ClusterSpec& cluster_;
  IndexVector<RoleId, RoleFacts> facts_;
  Report report_;
  StepShares shares_;
};

}  // namespace

Rank number_in_job(const Report& report, std::size_t rank) {
  return rank < report.ranks.size() ? report.ranks[rank].number : static_cast<Rank>(rank);
}

std::string losses_remark(const std::vector<double>& losses) {
  const auto is_finite = [](double loss) { return std::isfinite(loss); };
  const auto first = std::find_if_not(losses.begin(), losses.end(), is_finite);
  if (first == losses.end()) return "";
  const auto after = std::find_if(first, losses.end(), is_finite);
  const auto step = [&](auto it) { return std::to_string(it - losses.begin() + 1); };
  if (after == losses.end()) return "not finite since step " + step(first);
  return "not finite from step " + step(first) + " to " + step(after - 1);
}

Report analyze(const Trace& trace, const Program& program, const ClusterSpec& cluster,
               std::vector<StepAnalysis>* kept) {
  return Analyzer(trace, program, cluster).analyze(kept);
}

Report analyze(const Trace& trace, Program&& program, const ClusterSpec& cluster) {
  Analyzer analyzer(trace, program, cluster);
  for (Role& role : program.roles) {
    role.buffers = {};
    role.args = std::vector<BufferId>();  // {} would keep the memory
  }
  return analyzer.analyze();
}

}  // namespace lockstep
