#include "core/session/session.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "backends/backends.hpp"
#include "backends/version.hpp"
#include "core/base/give_back_memory.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/data/dataset.hpp"
#include "core/data/digest.hpp"
#include "core/lower/capacity.hpp"
#include "core/run/agreement.hpp"
#include "core/run/host_memory.hpp"
#include "core/session/session_folder.hpp"
#include "core/session/training_settings.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The first steps of a backend that computes take longer, because of cold caches and memory that
/// is touched for the first time; so later steps are traced.
constexpr int kWarmupSteps = 2;
constexpr int kTracedSteps = 5;

std::string random_name() {
  std::random_device device;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", device(), device());
  return text;
}

std::string version() {
  return std::string(kBuildFacts.version) + ", commit " + kBuildFacts.commit;
}

class SessionRun {
 public:
  SessionRun(const Subject& subject, const SessionOptions& options, Process& process,
             SessionObserver& observer)
      : subject_(subject),
        options_(options),
        process_(process),
        observer_(observer),
        folder_(options.out, subject.checkpoint.folder),
        run_(random_name()) {}
  Result<SessionOutcome> run();

 private:
  bool leads() const { return process_.index() == 0; }
  bool saves_checkpoints() const;
  BackendOptions backend_options() const;
  /// Error OutOfMemory if the ranks that compute on this machine need more than it has free. The
  /// system would otherwise end some process once their memory is touched.
  Result<void> check_host_memory(const Program& program) const;
  /// Compares the scenario, the data and the version with those of the other processes.
  Result<void> agree_on_subject(const Program& program);
  /// Takes the run folder for this run, and removes what a crash has left there.
  Result<void> claim_folder();
  Result<void> load_state();
  bool goes_on_here() const;
  Result<std::string> resumed_folder() const;
  /// Decides which steps to run and to trace. `training_steps` are those of the whole training; 0
  /// if they are not known.
  Result<void> plan_steps(int training_steps);
  Result<void> open_validation(const Program& program);
  void advise(const Program& program);
  Result<RunResult> train(const Program& program, Backend& backend);
  void log_step(const StepResult& step, std::int64_t tokens_per_step);
  void say_ending(const RunResult& ran, SessionOutcome& outcome) const;
  void note(const std::string& text) const;

  const Subject& subject_;
  const SessionOptions& options_;
  Process& process_;
  SessionObserver& observer_;
  SessionFolder folder_;
  RunOptions run_options_;
  Settings settings_;
  std::string run_;  // identifies the training in its checkpoints
  std::optional<FoundCheckpoint> found_;
  std::unique_ptr<StateReader> state_;
  bool simulated_ = false;
  bool complete_ = false;      // --resume auto found a training that has run all its steps
  bool metrics_lost_ = false;  // the last line could not be written
  int first_step_ = 0;
  Seconds saving_;                   // of the step that is logged next
  Waits waits_;                      // likewise
  std::map<Rank, int> late_;         // steps in which a rank was the straggler
  std::optional<double> validated_;  // likewise
  std::vector<ValidationLoss> validation_;
  Seconds saved_;  // by all saves so far
  int saves_ = 0;
};

bool SessionRun::saves_checkpoints() const {
  return !simulated_ && folder_.given() && subject_.checkpoint.interval > 0;
}

void SessionRun::note(const std::string& text) const {
  if (leads()) observer_.on_note(text);
}

Result<SessionOutcome> SessionRun::run() {
  Result<std::unique_ptr<Backend>> backend = make_backend(options_.backend, backend_options());
  if (!backend) return backend.error();
  Result<Program> program = subject_.program();
  if (!program) return program.error();
  give_back_memory();  // lowering needs more than the program that it leaves, in pieces
  if (const auto fits = check_capacity(*program, subject_.cluster); !fits) return fits.error();
  simulated_ = (*backend)->name() == "sim";
  if (const std::string& lacking = subject_.model_lacks; !simulated_ && !lacking.empty()) {
    return Error{ErrorKind::Unsupported,
                 "--backend " + options_.backend +
                     ": the model can be simulated, and not trained: " + lacking,
                 std::nullopt};
  }
  if (const auto room = check_host_memory(*program); !room) return room.error();
  if (const auto same = agree_on_subject(*program); !same) return same.error();
  if (const auto claimed = claim_folder(); !claimed) return claimed.error();
  if (const auto resumed = load_state(); !resumed) return resumed.error();
  if (const auto planned = plan_steps(program->training.steps); !planned) return planned.error();
  if (complete_) {
    note("all " + std::to_string(options_.steps.value_or(program->training.steps)) + " steps of " +
         folder_.path() + " are done");
    return SessionOutcome{};
  }
  if (const auto opened = open_validation(*program); !opened) return opened.error();
  if (leads()) {
    advise(*program);
    const auto written =
        folder_.describe(subject_.scenario, *program, first_step_, options_.tensorboard);
    if (!written) return written.error();
  }
  Result<RunResult> ran = train(*program, **backend);
  if (!ran) return ran.error();
  folder_.keep();
  SessionOutcome outcome;
  say_ending(*ran, outcome);
  if (!leads()) return outcome;
  outcome.trace = std::move(ran->trace);
  outcome.report = analyze(outcome.trace, std::move(*program), subject_.cluster);
  outcome.report->saves = saves_;
  if (saves_ > 0) outcome.report->save_time = {saved_.v / saves_};
  outcome.report->validation = validation_;
  if (const auto closed = folder_.close(outcome.trace, *outcome.report); !closed) {
    return closed.error();
  }
  return outcome;
}

BackendOptions SessionRun::backend_options() const {
  BackendOptions options;
  options.process = &process_;
  options.threads_per_rank = options_.threads;
  options.timeout = options_.timeout;
  options.what_if = subject_.what_if;
  options.cuda.communicator = options_.communicator;
  options.cuda.graphs = options_.cuda_graphs;
  options.cuda.cudnn = options_.cudnn;
  return options;
}

Result<void> SessionRun::check_host_memory(const Program& program) const {
  if (simulated_ || options_.backend == "cuda") return {};
  // One process runs all ranks, those of --nproc are all here, and any other may be alone.
  const HostRanks all{0, program.mesh.world_size()};
  const HostRanks own =
      process_.size() == 1 ? all : HostRanks{process_.index(), process_.index() + 1};
  const auto room = lockstep::check_host_memory(program, options_.processes > 0 ? all : own, own,
                                                options_.threads);
  if (room) return {};
  return Error{ErrorKind::OutOfMemory,
               "--backend " + options_.backend + ": " + room.error().message, std::nullopt};
}

Result<void> SessionRun::agree_on_subject(const Program& program) {
  if (simulated_) return {};
  const Result<std::string> digest = dataset_digest(program.input.samples, subject_.dataset);
  if (!digest) return digest.error();
  settings_ = training_settings(program, subject_.scenario, *digest);
  Result<std::string> validation = std::string();
  if (subject_.validation.freq > 0) {
    validation = dataset_digest(program.input.samples, subject_.validation.dataset);
  }
  if (!validation) return validation.error();
  const auto number = [](const std::optional<int>& n) { return n ? std::to_string(*n) : "all"; };
  std::vector<Fact> facts{{"the version of lockstep", version()},
                          {"--backend", options_.backend},
                          {"--out", folder_.given() ? "a folder" : "no folder"},
                          {"--resume", options_.resume.empty()          ? "no"
                                       : options_.resume == kResumeAuto ? kResumeAuto
                                                                        : "a folder"},
                          {"the steps to run", number(options_.steps)},
                          {"--trace-from", number(options_.trace_from)},
                          {"--trace-steps", number(options_.trace_steps)},
                          {"training.dataset", *digest},
                          {"validation.dataset", *validation}};
  for (const auto& [key, value] : keys_of(subject_.scenario)) {
    if (!key.ends_with(".dataset")) facts.push_back({key, value});  // its path may be another
  }
  return agree(process_, facts);
}

Result<void> SessionRun::claim_folder() {
  if (!folder_.given()) {
    if (options_.resume == kResumeAuto)
      return invalid("--resume auto needs --out DIR, where it looks");
    if (!simulated_ && subject_.checkpoint.interval > 0) {
      note("without --out no checkpoints are written");
    }
    return {};
  }
  if (leads()) {
    if (auto taken = folder_.take(run_, goes_on_here(), !simulated_); !taken) return taken;
  }
  // From here on the folder is as the others may see it. Those that save must see the same one.
  const bool looks = leads() || saves_checkpoints();
  std::vector<char> ready{1};
  if (auto all = all_gather_values(process_, ready); !all) return all.error();
  const std::string seen = looks ? read_lock(folder_.path()) : "";
  auto folders = all_gather(process_, std::as_bytes(std::span(seen)));
  if (!folders) return folders.error();
  for (std::size_t i = 1; i < folders->size() && saves_checkpoints(); ++i) {
    if ((*folders)[i] == (*folders)[0]) continue;
    return invalid("process " + std::to_string(i) + " does not see the run folder of process 0, " +
                   folder_.path() +
                   ": each process writes its part of a checkpoint there, so it must lie " +
                   "on a file system that all of them share");
  }
  return {};
}

/// Whether the run goes on with a checkpoint of its own run folder.
bool SessionRun::goes_on_here() const {
  if (options_.resume.empty() || options_.resume == kResumeAuto) return !options_.resume.empty();
  return folder_.holds(options_.resume);
}

Result<std::string> SessionRun::resumed_folder() const {
  if (options_.resume == kResumeAuto) {
    const std::string folder = folder_.checkpoints();
    return any_checkpoint(folder) ? folder : std::string();
  }
  return find_checkpoints(options_.resume, subject_.checkpoint.folder);
}

Result<void> SessionRun::load_state() {
  if (options_.resume.empty()) return {};
  if (simulated_) {
    return invalid("--resume continues training: choose a backend that computes, not 'sim'");
  }
  const Result<std::string> folder = resumed_folder();
  if (!folder) return folder.error();
  std::vector<Fact> facts{{"the checkpoint", "none"}};
  if (!folder->empty()) {
    const bool unverified = std::find(options_.accept.begin(), options_.accept.end(),
                                      "checksums") != options_.accept.end();
    auto found = find_checkpoint(*folder, unverified);
    if (!found) return found.error();
    auto state = open_checkpoint(*found);
    if (!state) return state.error();
    for (const std::string& damaged : found->damaged) {
      note(damaged + "; going on with " + found->folder);
    }
    if (auto same = check_settings(found->manifest.settings, settings_, options_.accept); !same) {
      return same;
    }
    facts = {{"the checkpoint", "step " + std::to_string(found->manifest.step)},
             {"the checkpoint's manifest", print_manifest(found->manifest)}};
    const bool here = folder_.given() && goes_on_here();
    if (here && !found->manifest.run.empty()) run_ = found->manifest.run;
    found_ = std::move(*found);
    state_ = std::move(*state);
  } else if (std::error_code code; fs::exists(folder_.path("metrics.jsonl"), code)) {
    note(folder_.path() + " has metrics but no checkpoint: training begins again");
  }
  return agree(process_, facts);
}

Result<void> SessionRun::plan_steps(int training_steps) {
  first_step_ = state_ ? state_->head().step : 0;
  const int rest = training_steps > 0 ? training_steps - first_step_ : 1;
  run_options_.steps = options_.steps.value_or(simulated_ ? 1 : rest);
  // A command that is started until its training is done says how many steps that is; one that
  // goes on with another run says how many it adds.
  if (options_.resume == kResumeAuto && options_.steps) run_options_.steps -= first_step_;
  if (run_options_.steps < 1) {
    complete_ = options_.resume == kResumeAuto;
    if (complete_) return {};
    return invalid("the checkpoint is at step " + std::to_string(first_step_) +
                   " and training.steps is " + std::to_string(training_steps) +
                   ": nothing is left to do (--steps N does N more)");
  }
  if (run_options_.steps > std::numeric_limits<int>::max() - first_step_) {
    return invalid("--steps " + std::to_string(run_options_.steps) +
                   ": the checkpoint is at step " + std::to_string(first_step_) +
                   ", and a training has at most " +
                   std::to_string(std::numeric_limits<int>::max()) + " steps");
  }
  run_options_.trace_from =
      options_.trace_from.value_or(simulated_ ? 0 : std::min(kWarmupSteps, run_options_.steps - 1));
  if (run_options_.trace_from >= run_options_.steps) {
    return invalid("--trace-from " + std::to_string(run_options_.trace_from) + ": the run has " +
                   std::to_string(run_options_.steps) + " steps");
  }
  run_options_.trace_steps = std::min(options_.trace_steps.value_or(simulated_ ? 1 : kTracedSteps),
                                      run_options_.steps - run_options_.trace_from);
  run_options_.memory_samples = folder_.given();  // for the trace that the folder gets
  run_options_.dataset = subject_.dataset;
  run_options_.drive_folder = subject_.drive_folder;
  if (options_.cuda_graphs && options_.backend != "cuda") {
    return invalid("--cuda-graphs: only the backend 'cuda' has graphs");
  }
  if (options_.cudnn && options_.backend != "cuda") {
    return invalid("--cudnn: only the backend 'cuda' has kernels by cuDNN");
  }
  run_options_.resume = state_.get();
  run_options_.cancel = options_.cancel;
  run_options_.on_nonfinite = subject_.on_nonfinite;
  run_options_.spikes = subject_.spikes;
  return {};
}

/// Opens the data for validation. Which samples are looked at depends on no seed.
Result<void> SessionRun::open_validation(const Program& program) {
  const ValidationSpec& validation = subject_.validation;
  if (simulated_ || validation.freq == 0) return {};
  Samples samples = program.input.samples;
  samples.shuffled = false;
  auto batches = open_dataset(samples, 0, validation.dataset);
  if (!batches) return batches.error();
  run_options_.validation = {validation.freq, validation.steps, std::move(*batches)};
  run_options_.on_validation = [&](double loss) { validated_ = loss; };
  return {};
}

/// Prints a hint if the vocabulary is not a multiple of what tensor cores read at a time: rows of
/// logits then begin at unaligned addresses, and are read in smaller parts.
void SessionRun::advise(const Program& program) {
  // 8 values of 16 bits are 16 bytes; nanoGPT and llm.c pad the vocabulary to a multiple of 64.
  constexpr std::int64_t kRow = 8, kPadded = 64;
  const Samples& samples = program.input.samples;
  const std::int64_t vocab = samples.kind == SampleKind::Tokens ? samples.classes : 0;
  const bool narrow = size_of(program.dtype) == 2;
  if (options_.backend != "cuda" || !narrow || vocab % kRow == 0) return;
  note("model.vocab " + std::to_string(vocab) + " is no multiple of " + std::to_string(kRow) +
       ": products of logits are slow on a GPU; " +
       std::to_string((vocab + kPadded - 1) / kPadded * kPadded) + " is faster");
}

void SessionRun::log_step(const StepResult& step, std::int64_t tokens_per_step) {
  const auto written = folder_.log(
      step, tokens_per_step, {saving_, waits_.mean, waits_.straggler, waits_.loading, validated_});
  saving_ = {};
  if (!written && !metrics_lost_) {
    note(written.error().message + ": steps from " + std::to_string(step.step + 1) +
         " on are missing there until it can be written again");
  }
  metrics_lost_ = !written;
}

Result<RunResult> SessionRun::train(const Program& program, Backend& backend) {
  run_options_.on_step = [&](const StepResult& step) {
    log_step(step, program.tokens_per_step);
    folder_.keep();
    observer_.on_step(step, validated_);
    if (validated_) {
      std::erase_if(validation_, [&](const auto& v) { return v.step > step.step; });  // gone back
      validation_.push_back({step.step + 1, *validated_});
    }
    validated_.reset();
  };
  run_options_.on_save = [&](Seconds time) {
    folder_.keep();
    saving_ = time;
    saved_ += time;
    ++saves_;
  };
  run_options_.on_waits = [&](const Waits& waits) {
    waits_ = waits;
    if (waits.straggler) ++late_[*waits.straggler];
  };
  run_options_.on_note = [&](const std::string& text) { note(text); };
  // Ranks that share the cores of a machine take turns: who is late there is told once, at the end.
  if (options_.backend == "cuda") {
    run_options_.on_straggler = [&](const std::string& text) { note(text); };
  }
  if (saves_checkpoints()) {
    run_options_.store =
        &folder_.open_store({run_, version(), settings_, subject_.checkpoint.keep_latest_k,
                             subject_.checkpoint.keep_every});
    run_options_.checkpoint_every = subject_.checkpoint.interval;
  }
  // If an op hangs for ever, the watch ends this process, and nobody else says why.
  process_.activity->set_last_words([&](const Error& error) {
    folder_.write_flight(program, process_);
    observer_.on_hang(error, waiting_text(process_.activity->flight, program, process_.now()));
  });
  observer_.on_begin(
      {first_step_, run_options_.steps, program.tokens_per_step, program.input.samples.kind});
  auto ran = backend.run(program, subject_.cluster, run_options_);
  observer_.on_end();
  process_.activity->set_last_words({});
  const bool hung =
      !ran && ran.error().kind == ErrorKind::Device && folder_.write_flight(program, process_);
  if (hung) folder_.keep();  // the record is of this run
  return ran;
}

void SessionRun::say_ending(const RunResult& ran, SessionOutcome& outcome) const {
  outcome.ending = ran.ending;
  if (options_.backend != "cuda" && !late_.empty()) {
    const auto most = std::max_element(late_.begin(), late_.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    note("others waited for rank " + std::to_string(most->first) + " in " +
         std::to_string(most->second) + " of " + std::to_string(run_options_.steps) +
         " steps (straggler in metrics.jsonl), which is usual where ranks share cores");
  }
  const std::string done = std::to_string(ran.steps_done);
  const std::string saved =
      ran.saved_step ? "step-" + std::to_string(*ran.saved_step) + " is the newest checkpoint"
                     : "no checkpoint was written";
  if (ran.ending == Ending::Stopped && leads()) {
    observer_.on_stopped("after step " + done + "; " + saved +
                         (ran.saved_step ? ": --resume auto goes on from there" : ""));
  }
  if (ran.ending == Ending::Diverged) {
    outcome.diverged =
        "the loss or the gradient norm of step " + done + " is not finite, so the run ends here; " +
        saved + " (training.on_nonfinite = \"rollback\" goes back to a checkpoint and leaves " +
        "the samples out)";
  }
}

}  // namespace

Result<SessionOutcome> run_session(const Subject& subject, const SessionOptions& options,
                                   Process& process, SessionObserver& observer) {
  return SessionRun(subject, options, process, observer).run();
}

}  // namespace lockstep
