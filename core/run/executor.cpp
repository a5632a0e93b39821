#include "core/run/executor.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/run/crew.hpp"
#include "core/run/first_error.hpp"
#include "core/run/rank_runner.hpp"
#include "core/run/state_transfer.hpp"
#include "core/run/trace_builder.hpp"

namespace lockstep {
namespace {

Result<void> check_supported(const Program& program, std::span<const RankPort> ports,
                             const std::string& backend) {
  for (const RankPort& port : ports) {
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
  Execution(const Program& program, const Scenario& scenario, const RunOptions& options,
            const std::string& backend, std::span<const RankPort> ports, const BatchSource& batches,
            const ExecutorOptions& executor_options)
      : program_(program),
        scenario_(scenario),
        options_(options),
        executor_options_(executor_options),
        ports_(ports),
        crew_(ports.size()) {
    for (const RankPort& port : ports) runners_.emplace_back(program, scenario, port, batches);
    result_.trace = make_trace_skeleton(program, backend);
    result_.trace.peak_memory.clear();
    for (const RankPort& port : ports) {
      result_.trace.peak_memory.push_back(port.device->arena_bytes());
    }
  }

  Result<RunResult> run() {
    if (auto ready = prepare(); !ready) return ready.error();
    int step = options_.initial_state != nullptr ? options_.initial_state->step : 0;
    for (int i = 0; i < options_.steps && !cancelled(); ++i, ++step) {
      const bool traced =
          i >= options_.trace_from && i < options_.trace_from + options_.trace_steps;
      if (auto done = run_step(step, traced); !done) return done.error();
      if (options_.on_step) options_.on_step(result_.trace.steps.back());
      if (auto saved = checkpoint(step + 1); !saved) return saved.error();
    }
    finish_spans();
    if (options_.return_state) {
      auto state = gather_state(program_, ports_, step);
      if (!state) return state.error();
      result_.state = std::move(*state);
    }
    return std::move(result_);
  }

 private:
  bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }

  /// body(i) on every rank's thread; the first error ends the others' transfers and is returned.
  template <class Body>
  Result<void> on_all_ranks(const Body& body) {
    FirstError failure;
    crew_.run([&](std::size_t i) {
      const Result<void> done = body(i);
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
    const StepContext context{step, learning_rate(scenario_.optimizer, scenario_.lr_scheduler, step,
                                                  scenario_.training.steps)};
    std::vector<RankStep> ranks(ports_.size());
    const auto begin = std::chrono::steady_clock::now();
    const auto done = on_all_ranks([&](std::size_t i) -> Result<void> {
      auto rank = runners_[i].run_step(context, executor_options_);
      if (!rank) return rank.error();
      ranks[i] = std::move(*rank);
      return {};
    });
    if (!done) return done.error();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    result_.trace.steps.push_back({step, first_of(ranks, &RankStep::loss),
                                   first_of(ranks, &RankStep::grad_norm), context.lr,
                                   Seconds{time.count()}});
    if (traced) add_spans(step, ranks);
    return {};
  }

  static double first_of(const std::vector<RankStep>& ranks,
                         std::optional<double> RankStep::*metric) {
    for (const RankStep& rank : ranks) {
      if (rank.*metric) return *(rank.*metric);
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
    const auto state = gather_state(program_, ports_, steps_done);
    if (!state) return state.error();
    return options_.on_checkpoint(*state);
  }

  const Program& program_;
  const Scenario& scenario_;
  const RunOptions& options_;
  const ExecutorOptions& executor_options_;
  std::span<const RankPort> ports_;
  std::deque<RankRunner> runners_;
  RunResult result_;
  Crew crew_;
};

}  // namespace

Result<RunResult> execute(const Program& program, const Scenario& scenario,
                          const RunOptions& options, const std::string& backend,
                          std::span<const RankPort> ports, const BatchSource& batches,
                          const ExecutorOptions& executor_options) {
  if (auto supported = check_supported(program, ports, backend); !supported) {
    return supported.error();
  }
  return Execution(program, scenario, options, backend, ports, batches, executor_options).run();
}

}  // namespace lockstep
