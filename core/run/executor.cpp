#include "core/run/executor.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/run/first_error.hpp"
#include "core/run/process.hpp"
#include "core/run/rank_runner.hpp"
#include "core/run/state_transfer.hpp"
#include "core/run/trace_builder.hpp"

namespace lockstep {
namespace {

Result<void> check_supported(const Program& program, std::span<const RankPort> ports,
                             const std::string& backend) {
  for (const RankPort& port : ports) {
    if (program.role_of(port.rank).host_arena.v > 0 && port.device->host_arena() == nullptr) {
      return Error{ErrorKind::Unsupported,
                   "backend '" + backend + "' keeps nothing in host memory: offload needs it",
                   std::nullopt};
    }
    for (const Op& op : program.role_of(port.rank).ops) {
      if (op.kind != OpKind::Call) continue;
      const Function& function = program.function(op.function());
      for (const Kernel& kernel : function.kernels) {
        if (port.device->supports(kernel)) continue;
        return Error{ErrorKind::Unsupported,
                     "backend '" + backend + "' has no " + std::string(to_string(kernel.dtype)) +
                         " " + std::string(info(kernel.kind).name) + ", which " + function.name +
                         " needs",
                     std::nullopt};
      }
    }
  }
  return {};
}

class Execution {
 public:
  Execution(const Program& program, const RunOptions& options, const std::string& backend,
            std::span<const RankPort> ports, const BatchSource& batches,
            const ExecutorOptions& executor_options)
      : program_(program),
        options_(options),
        executor_options_(executor_options),
        process_(executor_options.process != nullptr ? *executor_options.process : sole_),
        ports_(ports),
        crew_(static_cast<int>(ports.size())) {
    for (const RankPort& port : ports) runners_.emplace_back(program, port, batches);
    result_.trace = make_trace_skeleton(program, backend);
    result_.trace.clock_uncertainty = process_.clock_uncertainty();
  }

  Result<RunResult> run() {
    if (auto done = run_steps(); !done) return done.error();
    if (auto done = finish(); !done) return done.error();
    return std::move(result_);
  }

 private:
  bool leads() const { return process_.index() == 0; }

  Result<void> run_steps() {
    if (auto same = check_same_program(); !same) return same;
    if (auto ready = prepare(); !ready) return ready;
    begin();
    for (int i = 0; i < options_.steps; ++i, ++step_) {
      const auto stop = cancelled();
      if (!stop) return stop.error();
      if (*stop) break;
      const bool traced =
          i >= options_.trace_from && i < options_.trace_from + options_.trace_steps;
      if (auto done = run_step(step_, traced); !done) return done;
      if (leads() && options_.on_step) options_.on_step(result_.trace.steps.back());
      if (auto saved = checkpoint(step_ + 1); !saved) return saved;
    }
    return {};
  }

  /// Takes up the count of steps and the loss scale where the initial state left them.
  void begin() {
    const TrainingState* const state = options_.initial_state;
    step_ = state != nullptr ? state->step : 0;
    const auto& scaling = program_.training.loss_scaling;
    if (!scaling) return;
    scale_ = LossScale::first(*scaling);
    if (state != nullptr && state->loss_scale) scale_ = state->loss_scale;
  }

  Result<void> finish() {
    std::vector<std::int64_t> arenas;
    for (const RankPort& port : ports_) arenas.push_back(port.device->arena_bytes());
    auto peak_memory = gather_values(process_, arenas);
    if (!peak_memory) return peak_memory.error();
    auto spans = gather_values(process_, result_.trace.spans);
    if (!spans) return spans.error();
    if (leads()) {
      result_.trace.peak_memory = std::move(*peak_memory);
      result_.trace.spans = std::move(*spans);
      finish_spans();
    }
    if (!options_.return_state) return {};
    auto state = current_state(step_);
    if (!state) return state.error();
    result_.state = std::move(*state);
    return {};
  }

  /// Each process was given its program by its own command line, so the programs may differ.
  Result<void> check_same_program() {
    const std::string& own = result_.trace.program_hash;
    const auto hashes = all_gather(process_, std::as_bytes(std::span(own)));
    if (!hashes) return hashes.error();
    for (std::size_t i = 0; i < hashes->size(); ++i) {
      const std::span<const std::byte> first((*hashes)[0]), other((*hashes)[i]);
      if (std::equal(first.begin(), first.end(), other.begin(), other.end())) continue;
      return Error{ErrorKind::InvalidSpec,
                   "process " + std::to_string(i) + " was given another program than process 0",
                   std::nullopt};
    }
    return {};
  }

  /// Whether any process was cancelled. All get the same answer, so that none of them waits in a
  /// step that another does not take.
  Result<bool> cancelled() {
    const bool own = options_.cancel != nullptr && options_.cancel->load();
    const auto any = all_gather_values(process_, std::vector<char>{static_cast<char>(own)});
    if (!any) return any.error();
    return std::count(any->begin(), any->end(), 0) < std::ssize(*any);
  }

  /// Calls body(i) on the thread of every rank i of this process. The first error ends the
  /// transfers of the others and is returned.
  template <class Body>
  Result<void> on_all_ranks(const Body& body) {
    FirstError failure;
    if (ports_.empty()) return {};
    crew_.run([&](int i) {
      const Result<void> done = body(to_size(i));
      if (done) return;
      failure.set(done.error());
      for (const RankPort& port : ports_) port.communicator->abort(done.error());
    });
    return failure.result();
  }

  Result<void> prepare() {
    return on_all_ranks([&](std::size_t i) {
      return runners_[i].prepare(options_.initial_state, executor_options_);
    });
  }

  Result<void> run_step(int step, bool traced) {
    const Training& training = program_.training;
    StepContext context{step, training.learning_rate.at(step), traced, training.seed};
    if (scale_) {
      context.skipped = scale_->skipped_steps;
      context.step -= context.skipped;
      context.loss_scale = scale_->scale;
    }
    std::vector<RankStep> ranks(ports_.size());
    const auto begin = std::chrono::steady_clock::now();
    const auto done = on_all_ranks([&](std::size_t i) -> Result<void> {
      auto rank = runners_[i].run_step(context, executor_options_);
      if (!rank) return rank.error();
      ranks[i] = std::move(*rank);
      return {};
    });
    if (!done) return done.error();
    const auto metrics = gather_metrics(ranks);
    if (!metrics) return metrics.error();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    StepResult result{step, first_of(*metrics, 0) / program_.updates_per_step,
                      first_of(*metrics, 1), context.lr, Seconds{time.count()}};
    if (scale_) adapt_scale(result);
    result_.trace.steps.push_back(result);
    if (traced) add_spans(step, ranks);
    return {};
  }

  /// The norm is that of all gradients on all ranks, so every process comes to the same scale.
  void adapt_scale(StepResult& result) {
    result.loss_scale = scale_->scale;
    scale_ = scale_->after_step(std::isfinite(result.grad_norm), *program_.training.loss_scaling);
    result.good_steps = scale_->good_steps;
    result.skipped_steps = scale_->skipped_steps;
  }

  struct Metric {
    double value = 0;
    bool present = false;
  };
  static Metric metric(const std::optional<double>& value) {
    return {value.value_or(0), value.has_value()};
  }

  /// Loss and gradient norm of every rank of all processes, by rank.
  Result<std::vector<std::array<Metric, 2>>> gather_metrics(const std::vector<RankStep>& ranks) {
    std::vector<std::array<Metric, 2>> own;
    for (const RankStep& rank : ranks) own.push_back({metric(rank.loss), metric(rank.grad_norm)});
    return all_gather_values(process_, own);
  }
  static double first_of(const std::vector<std::array<Metric, 2>>& ranks, std::size_t which) {
    for (const auto& rank : ranks) {
      if (rank[which].present) return rank[which].value;
    }
    return 0;
  }

  void add_spans(int step, const std::vector<RankStep>& ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      for (const OpTime& time : ranks[i].times) {
        result_.trace.spans.push_back(
            {ports_[i].rank, time.op, step, time.begin, time.active, time.end});
      }
    }
  }

  void finish_spans() {
    std::vector<Span>& spans = result_.trace.spans;
    const auto stream = [&](const Span& span) {
      return program_.role_of(span.rank).op(span.op).stream;
    };
    std::sort(spans.begin(), spans.end(), [&](const Span& a, const Span& b) {
      return std::tuple(a.step, a.rank, stream(a), a.begin, a.op) <
             std::tuple(b.step, b.rank, stream(b), b.begin, b.op);
    });
    SimTime zero = SimTime::max();
    for (const Span& span : spans) zero = std::min(zero, span.begin);
    for (Span& span : spans) {
      span.begin -= zero;
      span.active -= zero;
      span.end -= zero;
    }
    add_memory_samples(result_.trace, program_);
  }

  Result<void> checkpoint(int steps_done) {
    if (options_.checkpoint_every <= 0 || steps_done % options_.checkpoint_every != 0 ||
        !options_.on_checkpoint) {
      return {};
    }
    const auto state = current_state(steps_done);
    if (!state) return state.error();
    return leads() ? options_.on_checkpoint(*state) : Result<void>{};
  }

  Result<TrainingState> current_state(int steps_done) {
    auto state = gather_state(program_, ports_, process_, steps_done);
    if (state) state->loss_scale = scale_;
    return state;
  }

  const Program& program_;
  const RunOptions& options_;
  const ExecutorOptions& executor_options_;
  SoleProcess sole_;
  Process& process_;
  std::span<const RankPort> ports_;
  std::deque<RankRunner> runners_;
  RunResult result_;
  int step_ = 0;                    // the next one
  std::optional<LossScale> scale_;  // of that step, if the loss is scaled
  ThreadTeam crew_;                 // a member for each rank of this process
};

}  // namespace

Result<RunResult> execute(const Program& program, const RunOptions& options,
                          const std::string& backend, std::span<const RankPort> ports,
                          const BatchSource& batches, const ExecutorOptions& executor_options) {
  if (auto supported = check_supported(program, ports, backend); !supported) {
    return supported.error();
  }
  return Execution(program, options, backend, ports, batches, executor_options).run();
}

}  // namespace lockstep
