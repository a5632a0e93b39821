#include "backends/cpu/replay.hpp"

#include <time.h>

#include <algorithm>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "backends/cpu/kernels/kernels.hpp"
#include "backends/cpu/one_core.hpp"
#include "core/base/huge_pages.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/run/device.hpp"

namespace lockstep::cpu {
namespace {

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The one of `times` that does the same work.
template <class Times>
auto find(Times& times, const Kernel& kernel) {
  return std::find_if(times.begin(), times.end(),
                      [&](const KernelTime& known) { return same_work(known.kernel, kernel); });
}

}  // namespace

/// One rank's compute stream on memory of its own.
class Replay::Replayed {
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

  void run_step(int step) {
    ThreadTeam alone(1);
    const StepContext first{.step = step, .lr = 1e-4};
    double before = processor_seconds();
    for (const Call& call : calls_) {
      const StepContext context = context_of(program_, *call.op, first);
      for (const Kernel& kernel : program_.function(call.op->function()).kernels) {
        run_kernel(kernel, call.arguments, context, alone);
        const double now = processor_seconds();
        times_.push_back(now - before);
        before = now;
      }
    }
  }

  std::size_t steps() const { return kernels_ == 0 ? 0 : times_.size() / kernels_; }

  /// Of every step, by op: how long its call took, over what its kernels take by `known`.
  std::vector<std::vector<double>> factors(const std::vector<KernelTime>& known) const {
    std::vector<std::vector<double>> of_steps(steps(), std::vector<double>(role_.ops.size(), 1.0));
    std::size_t place = 0;
    for (const Call& call : calls_) {
      const std::vector<Kernel>& kernels = program_.function(call.op->function()).kernels;
      double usual = 0;
      for (const Kernel& kernel : kernels) {  // `known` has no Delay
        if (const auto same = find(known, kernel); same != known.end()) usual += same->seconds;
      }
      const auto op = static_cast<std::size_t>(call.op - role_.ops.data());
      for (std::size_t s = 0; usual > 0 && s < of_steps.size(); ++s) {
        const auto begin = times_.begin() + static_cast<std::ptrdiff_t>(s * kernels_ + place);
        const auto end = begin + static_cast<std::ptrdiff_t>(kernels.size());
        of_steps[s][op] = std::accumulate(begin, end, 0.0) / usual;
      }
      place += kernels.size();
    }
    return of_steps;
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
        auto same = find(sums, kernel);
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

struct Replay::Ranks {
  std::vector<Replayed> all;
  int step = 0;
};

Result<Replay> Replay::prepare(const Program& program) {
  const int count = program.mesh.world_size();
  auto ranks = std::make_unique<Ranks>();
  for (Rank rank = 0; rank < count; ++rank) {
    ranks->all.emplace_back(program, rank);
    if (ranks->all.back().allocate()) continue;
    return Error{ErrorKind::OutOfMemory,
                 "this machine cannot give an arena of " +
                     std::to_string(program.role_of(rank).arena.v) + " B for each of " +
                     std::to_string(count) + " ranks",
                 std::nullopt};
  }
  return Replay(std::move(ranks));
}

Replay::Replay(std::unique_ptr<Ranks> ranks) : ranks_(std::move(ranks)) {}
Replay::Replay(Replay&&) noexcept = default;
Replay& Replay::operator=(Replay&&) noexcept = default;
Replay::~Replay() = default;

void Replay::run(int steps) {
  std::vector<Replayed>& all = ranks_->all;
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    threads.emplace_back([&, rank] {
      for (int i = 0; i < steps; ++i) all[rank].run_step(ranks_->step + i);
    });
    keep_on_one_core(threads.back().native_handle(), static_cast<Rank>(rank),
                     static_cast<int>(all.size()));
  }
  threads.clear();  // waits for them
  ranks_->step += steps;
}

std::vector<KernelTime> Replay::times() const {
  std::vector<KernelTime> times;
  for (const Replayed& rank : ranks_->all) rank.add_to(times);
  for (KernelTime& time : times) time.seconds /= time.count;
  return times;
}

std::vector<CallFactors> Replay::factors() const {
  const std::vector<KernelTime> known = times();
  std::vector<CallFactors> of_steps;
  for (const Replayed& rank : ranks_->all) {
    std::vector<std::vector<double>> own = rank.factors(known);
    of_steps.resize(std::max(of_steps.size(), own.size()));
    for (std::size_t s = 0; s < own.size(); ++s) of_steps[s].push_back(std::move(own[s]));
  }
  return of_steps;
}

}  // namespace lockstep::cpu
