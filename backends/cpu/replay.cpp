#include "backends/cpu/replay.hpp"

#include <time.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "backends/cpu/kernels/kernels.hpp"
#include "core/base/huge_pages.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/run/device.hpp"

namespace lockstep::cpu {
namespace {

constexpr int kWarmup = 2;  // steps

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// One rank's compute stream on memory of its own.
class Replayed {
 public:
  Replayed(const Program& program, Rank rank)
      : program_(program), rank_(rank), role_(program.role_of(rank)) {}

  bool allocate() {
    const auto bytes = static_cast<std::size_t>(role_.arena.v);
    arena_.reset(static_cast<std::byte*>(::operator new[](bytes, kAlignment, std::nothrow)));
    if (arena_ == nullptr) return false;
    advise_huge_pages(arena_.get(), bytes);
    std::fill_n(arena_.get(), bytes, std::byte{});
    for (const Op& op : role_.ops) {
      if (op.kind != OpKind::Call || op.stream != Stream::Compute) continue;
      Call call{&op, {}};
      bool on_device = true;
      for (const BufferId id : role_.args_of(op)) {
        on_device = on_device && role_.buffer(id).tier == Tier::Device;
        call.arguments.push_back(arena_.get() + arena_offset(program_, rank_, id));
      }
      if (!on_device) continue;
      kernels_ += program_.function(op.function()).kernels.size();
      calls_.push_back(std::move(call));
    }
    return true;
  }

  void run_step(int step, bool timed) {
    ThreadTeam alone(1);
    const StepContext first{.step = step, .lr = 1e-4};
    double before = processor_seconds();
    for (const Call& call : calls_) {
      const StepContext context = context_of(program_, *call.op, first);
      for (const Kernel& kernel : program_.function(call.op->function()).kernels) {
        run_kernel(kernel, call.arguments, context, alone);
        const double now = processor_seconds();
        if (timed) times_.push_back(now - before);
        before = now;
      }
    }
  }

  std::size_t steps() const { return kernels_ == 0 ? 0 : times_.size() / kernels_; }
  double seconds() const {
    double sum = 0;
    for (const double time : times_) sum += time;
    return sum;
  }

  /// Adds the median of each kernel of the list.
  void add_to(std::vector<KernelTime>& sums) const {
    std::vector<double> of_steps(steps());
    std::size_t place = 0;
    for (const Call& call : calls_) {
      for (const Kernel& kernel : program_.function(call.op->function()).kernels) {
        for (std::size_t s = 0; s < of_steps.size(); ++s)
          of_steps[s] = times_[s * kernels_ + place];
        const auto middle = of_steps.begin() + static_cast<std::ptrdiff_t>(of_steps.size() / 2);
        std::nth_element(of_steps.begin(), middle, of_steps.end());
        ++place;
        if (kernel.kind == KernelKind::Delay) continue;  // takes the time that it says
        auto same = std::find_if(sums.begin(), sums.end(), [&](const KernelTime& known) {
          return same_work(known.kernel, kernel);
        });
        if (same == sums.end()) same = sums.insert(same, {kernel, 0, 0});
        same->seconds += *middle;
        ++same->count;
      }
    }
  }

 private:
  static constexpr std::align_val_t kAlignment{kHugePage};
  struct FreeArena {
    void operator()(std::byte* arena) const { ::operator delete[](arena, kAlignment); }
  };
  struct Call {
    const Op* op;
    std::vector<std::byte*> arguments;
  };
  const Program& program_;
  Rank rank_;
  const Role& role_;
  std::unique_ptr<std::byte[], FreeArena> arena_;
  std::vector<Call> calls_;
  std::size_t kernels_ = 0;    // of a step
  std::vector<double> times_;  // of all kernels of a step after those of the step before
};

}  // namespace

Result<std::vector<KernelTime>> replay(const Program& program, const ReplayOptions& options) {
  const int ranks = program.mesh.world_size();
  std::vector<Replayed> replayed;
  for (Rank rank = 0; rank < ranks; ++rank) replayed.emplace_back(program, rank);
  for (int rank = 0; rank < ranks; ++rank) {
    if (replayed[to_size(rank)].allocate()) continue;
    return Error{ErrorKind::OutOfMemory,
                 "this machine cannot give an arena of " +
                     std::to_string(program.role_of(rank).arena.v) + " B for each of " +
                     std::to_string(ranks) + " ranks",
                 std::nullopt};
  }
  ThreadTeam team(ranks);
  team.run([&](int member) {
    Replayed& own = replayed[to_size(member)];
    for (int step = 0; step < kWarmup; ++step) own.run_step(step, false);
    const auto least = to_size(options.least_steps);
    while (own.steps() < least || own.seconds() < options.seconds) {
      const std::size_t before = own.steps();
      own.run_step(kWarmup + static_cast<int>(before), true);
      if (own.steps() == before) break;  // there is nothing to compute
      if (member == 0 && options.on_progress) {
        const double share = std::min(own.seconds() / options.seconds, 1.0);
        const auto done = static_cast<int>(own.steps());
        options.on_progress(done, std::max(done, static_cast<int>(done / std::max(share, 1e-3))));
      }
    }
  });
  std::vector<KernelTime> times;
  for (const Replayed& own : replayed) own.add_to(times);
  for (KernelTime& time : times) time.seconds /= time.count;
  return times;
}

}  // namespace lockstep::cpu
