#include "core/run/executor.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/run/agreement.hpp"
#include "core/run/first_error.hpp"
#include "core/run/process.hpp"
#include "core/run/rank_runner.hpp"
#include "core/run/saver.hpp"
#include "core/run/spikes.hpp"
#include "core/run/state_transfer.hpp"
#include "core/run/straggler_watch.hpp"
#include "core/run/trace_builder.hpp"
#include "core/run/watch.hpp"

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

constexpr int kMostSkipped = 20;  // steps in a row, before a run counts as diverged
class Execution {
 public:
  Execution(const Program& program, const RunOptions& options, const std::string& backend,
            std::span<const RankPort> ports, const BatchSource& batches,
            const ExecutorOptions& executor_options)
      : program_(program),
        options_(options),
        batches_(batches),
        executor_options_(executor_options),
        process_(executor_options.process != nullptr ? *executor_options.process : sole_),
        ports_(ports.begin(), ports.end()),
        spikes_(options.spikes),
        crew_(static_cast<int>(ports.size())) {
    if (process_.size() == 1 && executor_options.context != nullptr) {
      watch_.emplace(*executor_options.context, executor_options.timeout, Watch::Ways{});
      watch_->start();
    }
    result_.trace = make_trace_skeleton(program, backend);
    result_.trace.clock_uncertainty = process_.clock_uncertainty();
  }

  Result<RunResult> run() {
    auto done = run_steps();
    if (done) done = finish();
    if (done) return std::move(result_);
    if (saver_) process_.fail(done.error());  // so that a save that is under way ends, too
    Error error = done.error();
    if (const RunContext* const context = executor_options_.context) {
      const std::string waits = waiting_text(context->activity->flight, program_, context->now());
      if (!waits.empty()) error.message += "\n" + waits;
    }
    return error;
  }

 private:
  bool leads() const { return process_.index() == 0; }

  /// Opens the files of the ranks that keep something on a drive.
  Result<void> open_drives() {
    bool direct = true;
    for (RankPort& port : ports_) {
      const std::int64_t bytes = program_.role_of(port.rank).drive_arena.v;
      if (bytes == 0) continue;
      if (options_.drive_folder.empty()) {
        return invalid(
            "states lie on a drive, and no folder of one is named for this run: set "
            "parallelism.offload_nvme_path in the scenario, or --nvme-path for a program");
      }
      auto opened = Drive::open(options_.drive_folder, port.rank, bytes);
      if (!opened) return opened.error();
      drives_.push_back(std::move(*opened));
      port.drive = drives_.back().get();
      direct = direct && port.drive->direct();
    }
    if (!direct) {
      note("the file system of '" + options_.drive_folder +
           "' has no direct I/O: what is read and written there goes through the page cache, so "
           "that its times are not those of a drive");
    }
    return {};
  }

  Result<void> run_steps() {
    if (auto opened = open_drives(); !opened) return opened;
    for (const RankPort& port : ports_) runners_.emplace_back(program_, port, batches_);
    if (options_.resume != nullptr) {
      state_ = options_.resume;
    } else if (options_.initial_state != nullptr) {
      held_.emplace(*options_.initial_state);
      state_ = &*held_;
    }
    step_ = state_ != nullptr ? state_->head().step : 0;
    const std::int64_t per_step = program_.input.samples.per_step;
    sample_ = step_ * per_step;
    if (state_ != nullptr) sample_ = state_->head().samples.value_or(sample_);
    if (auto same = check_agreement(); !same) return same;
    if (auto ready = prepare(); !ready) return ready;
    if (options_.store != nullptr) saver_.emplace(program_, ports_, process_, *options_.store);
    const int end = step_ + options_.steps;
    const int trace_from = step_ + options_.trace_from;
    while (step_ < end) {
      const auto stop = cancelled();
      if (!stop) return stop.error();
      if (*stop) result_.ending = Ending::Stopped;
      if (*stop) break;
      const bool traced =
          step_ >= trace_from && step_ < trace_from + options_.trace_steps && !gone_back_;
      if (undoes()) {
        auto kept = on_all_ranks([&](std::size_t i) { return runners_[i].keep(); });
        if (!kept) return kept;
      }
      if (auto done = run_step(step_, traced); !done) return done;
      ++step_;
      sample_ += per_step;
      StepResult& step = result_.trace.steps.back();
      // A loss scale expects gradients that are not finite, and skips their update.
      bool finite = std::isfinite(step.loss) && (scale_ || std::isfinite(step.grad_norm));
      const auto skipped = skip_if_wrong(finite, step);
      if (!skipped) return skipped.error();
      finite |= *skipped;
      if (auto validated = validate_if_due(); !validated) return validated;
      auto saved = finite ? save_if_due() : Result<void>{};
      if (leads() && options_.on_step) options_.on_step(step);
      if (!saved) return saved;
      if (const auto goes_on = judge(finite, step); !goes_on || !*goes_on) {
        return goes_on ? Result<void>{} : goes_on.error();
      }
    }
    return {};
  }

  /// Runs the program on other samples, with a learning rate of 0, and undoes what else the steps
  /// change. All of a step runs, so that every layout can be validated as it is trained.
  Result<void> validate_if_due() {
    const Validation& validation = options_.validation;
    if (validation.freq <= 0 || step_ % validation.freq != 0) return {};
    auto kept = on_all_ranks([&](std::size_t i) { return runners_[i].keep(); });
    if (!kept) return kept;
    StepContext context = context_of(step_);
    context.lr = 0;
    context.synchronizes = false;
    double sum = 0;
    for (int k = 0; k < validation.steps; ++k) {
      const std::int64_t first = k * program_.input.samples.per_step;
      const auto ranks = run_ranks(context, first, &validation.batches);
      if (!ranks) return ranks.error();
      const auto metrics = gather_metrics(*ranks);
      if (!metrics) return metrics.error();
      sum += mean_of(*metrics, 0) / program_.updates_per_step;
      auto back = on_all_ranks([&](std::size_t i) { return runners_[i].restore(); });
      if (!back) return back;
    }
    if (leads() && options_.on_validation) options_.on_validation(sum / validation.steps);
    return {};
  }

  /// Whether the state before a step is kept, because the step may be undone.
  bool undoes() const { return options_.on_nonfinite == NonFinite::Skip || options_.spikes.any(); }

  /// Undoes the step if its numbers are wrong and the options say so: every process comes to the
  /// same answer, because all have the same numbers.
  Result<bool> skip_if_wrong(bool finite, const StepResult& step) {
    std::string why;
    if (!finite && options_.on_nonfinite == NonFinite::Skip) {
      why = "its " + not_finite(step) + " is not finite";
    }
    const std::string spike = spikes_.look(step);
    if (why.empty()) why = spike;
    if (why.empty()) {
      skipped_ = 0;
      return false;
    }
    if (++skipped_ > kMostSkipped) return false;
    const auto back = on_all_ranks([&](std::size_t i) { return runners_[i].restore(); });
    if (!back) return back.error();
    note("step " + std::to_string(step_) + " is skipped: " + why);
    return true;
  }

  static std::string not_finite(const StepResult& step) {
    return std::isfinite(step.loss) ? "gradient norm" : "loss";
  }

  /// Takes up the loss scale where the state left it.
  Result<void> take_loss_scale() {
    const auto& scaling = program_.training.loss_scaling;
    if (!scaling) return {};
    scale_ = LossScale::first(*scaling);
    if (state_ == nullptr) return {};
    const auto left = loss_scale_of(state_->head());
    if (!left) return left.error();
    if (*left) scale_ = **left;
    return {};
  }

  Result<void> finish() {
    result_.steps_done = step_;
    if (saver_) {
      if (result_.ending != Ending::Diverged && !diverging_ && last_asked_ != step_) {
        if (auto saved = save(); !saved) return saved;
      }
      if (auto saved = saver_->wait(); !saved) return saved;
      if (const auto refused = saver_->refused()) {
        note(*refused);
        if (options_.on_nonfinite != NonFinite::GoOn) result_.ending = Ending::Diverged;
      }
      if (diverging_ && result_.ending != Ending::Diverged) {
        note("step " + std::to_string(step_) +
             " is not saved: its loss or gradient norm is not finite");
      }
      result_.saved_step = saver_->saved();
    }
    std::vector<std::int64_t> arenas;
    for (const RankPort& port : ports_) arenas.push_back(port.device->arena_bytes());
    auto peak_memory = gather_values(process_, arenas);
    if (!peak_memory) return peak_memory.error();
    auto spans = gather_values(process_, spans_);
    if (!spans) return spans.error();
    if (leads()) {
      if (auto good = check_spans(program_, *spans, *peak_memory); !good) return good;
      result_.trace.peak_memory = std::move(*peak_memory);
      result_.trace.spans = ordered(std::move(*spans), program_);
      result_.trace.memory = memory_samples(result_.trace, program_);
    }
    if (!options_.return_state) return {};
    auto state = gather_state(program_, ports_, process_, step_, sample_);
    if (!state) return state.error();
    state->loss_scale = scale_;
    state->steps_apart = steps_apart();
    result_.state = std::move(*state);
    return {};
  }

  /// Each process was given its program and its options by its own command line.
  Result<void> check_agreement() {
    process_.most_unasked = most_sent(program_, options_.steps);
    const auto number = [](std::int64_t n) { return std::to_string(n); };
    return agree(process_,
                 {{"program", result_.trace.program_hash},
                  {"the step of the checkpoint", number(step_)},
                  {"the position in the data", number(sample_)},
                  {"the steps to run", number(options_.steps)},
                  {"--trace-from", number(options_.trace_from)},
                  {"--trace-steps", number(options_.trace_steps)},
                  {"checkpoint.interval", number(options_.checkpoint_every)},
                  {"saving", options_.store != nullptr ? "yes" : "no"},
                  {"returning the state", options_.return_state ? "yes" : "no"},
                  {"training.on_nonfinite", number(static_cast<int>(options_.on_nonfinite))},
                  {"training.skip_loss_zscore", std::to_string(options_.spikes.loss)},
                  {"validation.freq", number(options_.validation.freq)},
                  {"validation.steps", number(options_.validation.steps)},
                  {"training.skip_grad_zscore", std::to_string(options_.spikes.grad_norm)}});
  }

  Result<void> save_if_due() {
    diverging_ = false;
    if (!saver_) return {};
    if (auto well = saver_->check(); !well) return well;
    if (options_.checkpoint_every <= 0 || step_ % options_.checkpoint_every != 0) return {};
    const auto begin = std::chrono::steady_clock::now();
    auto saved = save();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (leads() && options_.on_save) options_.on_save(Seconds{time.count()});
    return saved;
  }

  /// How many steps the replicas have trained apart since they were last brought together.
  int steps_apart() const { return program_.replicas() > 1 ? step_ % program_.sync_every : 0; }

  Result<void> save() {
    last_asked_ = step_;
    auto notes = notes_of(scale_, steps_apart());
    spikes_.add_notes(notes);
    return saver_->save(step_, sample_, notes);
  }

  /// What follows a step: false if the run ends here.
  Result<bool> judge(bool finite, const StepResult& step) {
    if (finite) return true;
    diverging_ = true;
    const std::string what =
        "the " + not_finite(step) + " of step " + std::to_string(step_) + " is not finite";
    if (options_.on_nonfinite == NonFinite::GoOn) return true;
    if (options_.on_nonfinite == NonFinite::Rollback) {
      auto back = go_back(what);
      if (!back || *back) return back;
    }
    result_.ending = Ending::Diverged;
    return false;
  }

  /// Goes back to the newest checkpoint, without its samples; false if there is none, or if it has
  /// been tried often enough.
  Result<bool> go_back(const std::string& what) {
    constexpr int kMostReturns = 3;  // to one checkpoint
    if (!saver_) return false;
    if (auto well = saver_->wait(); !well) return well.error();
    reread_ = nullptr;
    if (auto newest = options_.store->newest(); newest) reread_ = std::move(*newest);
    const int back = reread_ != nullptr ? reread_->head().step : -1;
    returns_ = back == returned_to_ ? returns_ + 1 : 1;
    returned_to_ = back;
    if (back < 0 || back >= step_ || returns_ > kMostReturns) return false;
    state_ = reread_.get();
    if (auto ready = prepare(); !ready) return ready.error();
    note(what + ": going back to step " + std::to_string(back) + " and on with sample " +
         std::to_string(sample_));
    std::erase_if(result_.trace.steps, [&](const StepResult& s) { return s.step >= back; });
    step_ = back;
    diverging_ = false;
    gone_back_ = true;  // spans of steps that are run twice are not told apart
    return true;
  }

  void note(const std::string& text) const {
    if (leads() && options_.on_note) options_.on_note(text);
  }

  /// Whether any process was cancelled. All get the same answer, so that none of them waits in a
  /// step that another does not take.
  Result<bool> cancelled() {
    const bool own = options_.cancel != nullptr && options_.cancel->load();
    const auto any = all_gather_values(process_, std::vector<char>{static_cast<char>(own)});
    if (!any) return any.error();
    return std::count(any->begin(), any->end(), 0) < std::ssize(*any);
  }

  /// What body(i) returns; what it throws, such as that there is no memory left, as an Error.
  template <class Body>
  Result<void> caught(const Body& body, int i) const {
    const std::string rank = "rank " + std::to_string(ports_[to_size(i)].rank) + ": ";
    try {
      return body(to_size(i));
    } catch (const std::bad_alloc&) {
      return Error{ErrorKind::OutOfMemory, rank + "this machine has no memory left", std::nullopt};
    } catch (const std::exception& exception) {
      return Error{ErrorKind::Device, rank + exception.what(), std::nullopt};
    }
  }

  /// Calls body(i) on the thread of every rank i of this process. The first error ends the
  /// transfers of the others and is returned.
  template <class Body>
  Result<void> on_all_ranks(const Body& body) {
    FirstError failure;
    if (ports_.empty()) return {};
    crew_.run([&](int i) {
      const Result<void> done = caught(body, i);
      if (done) return;
      failure.set(done.error());
      for (const RankPort& port : ports_) port.communicator->abort(done.error());
    });
    return failure.result();
  }

  /// Brings ranks and loss scale to where the state left them.
  Result<void> prepare() {
    auto prepared =
        on_all_ranks([&](std::size_t i) { return runners_[i].prepare(state_, executor_options_); });
    if (!prepared) return prepared;
    if (auto taken = spikes_.take(state_); !taken) return taken;
    return take_loss_scale();
  }

  StepContext context_of(int step) const {
    const Training& training = program_.training;
    StepContext context{step, training.learning_rate.at(step), false, training.seed};
    context.synchronizes = program_.synchronizes(step);
    if (scale_) {
      context.skipped = scale_->skipped_steps;
      context.step -= context.skipped;
      context.loss_scale = scale_->scale;
    }
    return context;
  }

  /// Runs a step of every rank of this process on the samples from `sample` on, of the training's
  /// data or of `others`.
  Result<std::vector<RankStep>> run_ranks(const StepContext& context, std::int64_t sample,
                                          const BatchSource* others = nullptr) {
    std::vector<RankStep> ranks(ports_.size());
    const auto before_update = [this] { return saver_ ? saver_->finish_copy() : Result<void>{}; };
    const auto done = on_all_ranks([&](std::size_t i) -> Result<void> {
      auto rank = runners_[i].run_step(context, sample, executor_options_, before_update, others);
      if (!rank) return rank.error();
      ranks[i] = std::move(*rank);
      return {};
    });
    if (!done) return done.error();
    return ranks;
  }

  Result<void> run_step(int step, bool traced) {
    StepContext context = context_of(step);
    context.timed = traced;
    const auto begin = std::chrono::steady_clock::now();
    const auto ranks = run_ranks(context, sample_);
    if (!ranks) return ranks.error();
    const auto metrics = gather_metrics(*ranks);
    if (!metrics) return metrics.error();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    StepResult result{step, mean_of(*metrics, 0) / program_.updates_per_step, mean_of(*metrics, 1),
                      context.lr, Seconds{time.count()}};
    if (scale_) adapt_scale(result);
    result_.trace.steps.push_back(result);
    count_waits(result.time, *metrics);
    if (traced) add_spans(step, *ranks);
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
  using Metrics = std::array<Metric, 4>;  // loss, gradient norm, time waiting, time loading

  void count_waits(Seconds time, const std::vector<Metrics>& ranks) {
    std::vector<Seconds> waiting;
    for (const Metrics& rank : ranks) waiting.push_back({rank[2].value});
    const std::string said = stragglers_.add(time, waiting);
    if (!leads()) return;
    if (!said.empty() && options_.on_straggler) options_.on_straggler(said);
    if (!options_.on_waits) return;
    Waits waits = stragglers_.waits();
    for (const Metrics& rank : ranks) waits.loading = std::max(waits.loading, {rank[3].value});
    options_.on_waits(waits);
  }

  /// Loss, gradient norm, and time waiting and loading of every rank of all processes, by rank.
  Result<std::vector<Metrics>> gather_metrics(const std::vector<RankStep>& ranks) {
    std::vector<Metrics> own;
    for (const RankStep& rank : ranks) {
      own.push_back({metric(rank.loss), metric(rank.grad_norm), metric(rank.waiting.v),
                     metric(rank.loading.v)});
    }
    return all_gather_values(process_, own);
  }
  /// The mean over the replicas that train apart of what the first rank of each has; most programs
  /// have one replica in this sense.
  double mean_of(const std::vector<Metrics>& ranks, std::size_t which) const {
    const int dim = program_.replica_dim();
    std::vector<std::optional<double>> firsts(to_size(program_.replicas()));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto rank = static_cast<Rank>(i);
      auto& first = firsts[dim < 0 ? 0 : to_size(program_.mesh.coordinate(rank, dim))];
      if (ranks[i][which].present && !first) first = ranks[i][which].value;
    }
    if (firsts.size() == 1) return firsts.front().value_or(0);
    double sum = 0;
    for (const auto& first : firsts) sum += first.value_or(0);
    return sum / static_cast<double>(firsts.size());
  }

  void add_spans(int step, const std::vector<RankStep>& ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      for (const OpTime& time : ranks[i].times) {
        spans_.push_back({ports_[i].rank, time.op, step, time.begin, time.active, time.end});
      }
    }
  }

  const Program& program_;
  const RunOptions& options_;
  const BatchSource& batches_;
  const ExecutorOptions& executor_options_;
  SoleProcess sole_;
  Process& process_;
  std::vector<std::unique_ptr<Drive>> drives_;
  std::vector<RankPort> ports_;
  std::deque<RankRunner> runners_;
  RunResult result_;
  std::vector<Span> spans_;  // of the ranks of this process
  std::optional<HeldState> held_;
  std::unique_ptr<StateReader> reread_;
  const StateReader* state_ = nullptr;  // with which training begins; null: that of the seed
  int step_ = 0;                        // the next one
  std::optional<LossScale> scale_;      // of that step, if the loss is scaled
  std::int64_t sample_ = 0;             // the next one
  int last_asked_ = -1;                 // the step of the last save
  int returned_to_ = -1, returns_ = 0;
  bool diverging_ = false, gone_back_ = false;
  Spikes spikes_;
  int skipped_ = 0;  // steps in a row
  StragglerWatch stragglers_;
  ThreadTeam crew_;             // a member for each rank of this process
  std::optional<Watch> watch_;  // of the ranks of this process, if there is no other
  std::optional<Saver> saver_;
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
