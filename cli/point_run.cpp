#include "cli/point_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <random>
#include <utility>

#include "backends/version.hpp"
#include "cli/progress.hpp"
#include "cli/resume.hpp"
#include "core/analysis/timeline.hpp"
#include "core/analysis/timeline_svg.hpp"
#include "core/base/give_back_memory.hpp"
#include "core/data/dataset.hpp"
#include "core/data/digest.hpp"
#include "core/format/format.hpp"
#include "core/ir/text/text.hpp"
#include "core/lower/capacity.hpp"
#include "core/lower/lower.hpp"
#include "core/run/agreement.hpp"
#include "core/run/host_memory.hpp"
#include "core/run/watch.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/trace/chrome_trace.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The first steps of a backend that computes take longer, because of cold caches and memory that
/// is touched for the first time; so later steps are traced.
constexpr int kWarmupSteps = 2;
constexpr int kTracedSteps = 5;

constexpr const char* kAuto = "auto";

std::string random_name() {
  std::random_device device;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", device(), device());
  return text;
}

/// Has the allocator take large blocks, such as the lists of a role, from the system and give them
/// back, instead of keeping the holes that they leave, beside which it would put what comes next.
/// For programs of 100,000 ops and more it saves a sixth of the memory for a twentieth of the time.
/// A process may have some 65,000 mappings, of which these take half at most.
void keep_large_blocks_apart() {
#ifdef __GLIBC__
  constexpr int kLarge = 64 << 10, kMost = 1 << 15;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_MMAP_MAX, kMost);
#endif
}

std::string version() {
  return std::string(kBuildFacts.version) + ", commit " + kBuildFacts.commit;
}

}  // namespace

Subject subject_of(const Scenario& scenario) {
  ValidationSpec validation = scenario.validation;
  validation.dataset = scenario.validation_path();
  return {[&scenario] { return lower(scenario); },
          scenario.cluster,
          scenario.what_if,
          scenario.dataset_path(),
          scenario.nvme_path(),
          scenario.checkpoint,
          validation,
          scenario.training.on_nonfinite,
          {scenario.training.skip_loss_zscore, scenario.training.skip_grad_zscore},
          print_scenario(scenario),
          scenario.model.why_only_simulated()};
}

PointRun::PointRun(const RunArguments& arguments, const Console& console, const Subject& subject,
                   Process& process, std::string out)
    : arguments_(arguments),
      console_(console),
      subject_(subject),
      process_(process),
      out_(std::move(out)),
      run_(random_name()) {}

std::string PointRun::path(const std::string& name) const {
  return (fs::path(out_) / name).string();
}

bool PointRun::saves_checkpoints() const {
  return !simulated_ && !out_.empty() && subject_.checkpoint.interval > 0;
}

void PointRun::note(const std::string& text) const {
  if (leads()) report_note(console_, text);
}

Result<PointOutcome> PointRun::run() {
  if (arguments_.backend == "sim") keep_large_blocks_apart();
  Result<std::unique_ptr<Backend>> backend = make_backend(arguments_.backend, backend_options());
  if (!backend) return backend.error();
  Result<Program> program = subject_.program();
  if (!program) return program.error();
  give_back_memory();  // lowering needs more than the program that it leaves, in pieces
  if (const auto fits = check_capacity(*program, subject_.cluster); !fits) return fits.error();
  simulated_ = (*backend)->name() == "sim";
  if (const std::string& lacking = subject_.model_lacks; !simulated_ && !lacking.empty()) {
    return Error{ErrorKind::Unsupported,
                 "--backend " + arguments_.backend +
                     ": the model can be simulated, and not trained: " + lacking,
                 std::nullopt};
  }
  if (const auto room = check_host_memory(*program); !room) return room.error();
  if (const auto same = agree_on_subject(*program); !same) return same.error();
  if (const auto claimed = claim_folder(); !claimed) return claimed.error();
  if (const auto resumed = load_state(); !resumed) return resumed.error();
  if (const auto planned = plan_steps(program->training.steps); !planned) return planned.error();
  if (complete_) {
    note("all " + std::to_string(arguments_.steps.value_or(program->training.steps)) +
         " steps of " + out_ + " are done");
    return PointOutcome{};
  }
  if (const auto opened = open_validation(*program); !opened) return opened.error();
  if (leads()) {
    advise(*program);
    if (const auto written = write_subject(*program); !written) return written.error();
  }
  Result<RunResult> ran = train(*program, **backend);
  if (!ran) return ran.error();
  if (claim_) claim_->keep();
  PointOutcome outcome;
  say_ending(*ran, outcome);
  if (!leads()) return outcome;
  outcome.report = analyze(ran->trace, std::move(*program), subject_.cluster);
  outcome.report->saves = saves_;
  if (saves_ > 0) outcome.report->save_time = {saved_.v / saves_};
  outcome.report->validation = validation_;
  if (const auto closed = close_folder(*ran, *outcome.report); !closed) return closed.error();
  if (arguments_.timeline) {
    (arguments_.json ? console_.err : console_.out)
        << draw_timeline(ran->trace, {console_.width, 64}) << "\n";
  }
  if (!arguments_.picture.empty()) {
    const auto written = write_file(arguments_.picture, timeline_svg(ran->trace));
    if (!written) return written.error();
  }
  return outcome;
}

BackendOptions PointRun::backend_options() const {
  BackendOptions options;
  options.process = &process_;
  options.threads_per_rank = arguments_.threads;
  if (const auto timeout = watch_timeout(); timeout) options.timeout = *timeout;
  options.what_if = subject_.what_if;
  options.cuda.communicator = arguments_.communicator;
  options.cuda.graphs = arguments_.cuda_graphs;
  options.cuda.cudnn = arguments_.cudnn;
  return options;
}

Result<void> PointRun::check_host_memory(const Program& program) const {
  if (simulated_ || arguments_.backend == "cuda") return {};
  // One process runs all ranks, those of --nproc are all here, and any other may be alone.
  const HostRanks all{0, program.mesh.world_size()};
  const HostRanks own =
      process_.size() == 1 ? all : HostRanks{process_.index(), process_.index() + 1};
  const auto room = lockstep::check_host_memory(program, arguments_.processes > 0 ? all : own, own,
                                                arguments_.threads);
  if (room) return {};
  return Error{ErrorKind::OutOfMemory,
               "--backend " + arguments_.backend + ": " + room.error().message, std::nullopt};
}

Result<void> PointRun::agree_on_subject(const Program& program) {
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
                          {"--backend", arguments_.backend},
                          {"--out", out_.empty() ? "no folder" : "a folder"},
                          {"--resume", arguments_.resume.empty()    ? "no"
                                       : arguments_.resume == kAuto ? kAuto
                                                                    : "a folder"},
                          {"the steps to run", number(arguments_.steps)},
                          {"--trace-from", number(arguments_.trace_from)},
                          {"--trace-steps", number(arguments_.trace_steps)},
                          {"training.dataset", *digest},
                          {"validation.dataset", *validation}};
  for (const auto& [key, value] : keys_of(subject_.scenario)) {
    if (!key.ends_with(".dataset")) facts.push_back({key, value});  // its path may be another
  }
  return agree(process_, facts);
}

Result<void> PointRun::claim_folder() {
  if (out_.empty()) {
    if (arguments_.resume == kAuto) return invalid("--resume auto needs --out DIR, where it looks");
    if (!simulated_ && subject_.checkpoint.interval > 0) {
      note("without --out no checkpoints are written");
    }
    return {};
  }
  if (leads()) {
    claim_.emplace(out_, subject_.checkpoint.folder);
    if (auto done = prepare_run_folder(out_, subject_.checkpoint.folder, goes_on_here()); !done) {
      return done;
    }
    auto lock = RunLock::take(out_, run_);
    if (!lock) return lock.error();
    lock_ = std::move(*lock);
    claim_->arm();
    if (!simulated_) mend_checkpoints(path(subject_.checkpoint.folder));
  }
  // From here on the folder is as the others may see it. Those that save must see the same one.
  const bool looks = leads() || saves_checkpoints();
  std::vector<char> ready{1};
  if (auto all = all_gather_values(process_, ready); !all) return all.error();
  const std::string seen = looks ? read_lock(out_) : "";
  auto folders = all_gather(process_, std::as_bytes(std::span(seen)));
  if (!folders) return folders.error();
  for (std::size_t i = 1; i < folders->size() && saves_checkpoints(); ++i) {
    if ((*folders)[i] == (*folders)[0]) continue;
    return invalid("process " + std::to_string(i) + " does not see the run folder of process 0, " +
                   out_ + ": each process writes its part of a checkpoint there, so it must lie " +
                   "on a file system that all of them share");
  }
  return {};
}

/// Whether the run goes on with a checkpoint of its own run folder.
bool PointRun::goes_on_here() const {
  if (arguments_.resume.empty() || arguments_.resume == kAuto) return !arguments_.resume.empty();
  std::error_code code;
  const fs::path own = fs::weakly_canonical(out_, code);
  const fs::path other = fs::weakly_canonical(arguments_.resume, code);
  return std::mismatch(own.begin(), own.end(), other.begin(), other.end()).first == own.end();
}

Result<std::string> PointRun::resumed_folder() const {
  if (arguments_.resume == kAuto) {
    const std::string folder = path(subject_.checkpoint.folder);
    return any_checkpoint(folder) ? folder : std::string();
  }
  return find_checkpoints(arguments_.resume, subject_.checkpoint.folder);
}

Result<void> PointRun::load_state() {
  if (arguments_.resume.empty()) return {};
  if (simulated_) {
    return invalid("--resume continues training: choose a backend that computes, not 'sim'");
  }
  const Result<std::string> folder = resumed_folder();
  if (!folder) return folder.error();
  std::vector<Fact> facts{{"the checkpoint", "none"}};
  if (!folder->empty()) {
    const bool unverified = std::find(arguments_.accept.begin(), arguments_.accept.end(),
                                      "checksums") != arguments_.accept.end();
    auto found = find_checkpoint(*folder, unverified);
    if (!found) return found.error();
    auto state = open_checkpoint(*found);
    if (!state) return state.error();
    for (const std::string& damaged : found->damaged) {
      note(damaged + "; going on with " + found->folder);
    }
    if (auto same = check_settings(found->manifest.settings, settings_, arguments_.accept); !same) {
      return same;
    }
    facts = {{"the checkpoint", "step " + std::to_string(found->manifest.step)},
             {"the checkpoint's manifest", print_manifest(found->manifest)}};
    const bool here = !out_.empty() && goes_on_here();
    if (here && !found->manifest.run.empty()) run_ = found->manifest.run;
    found_ = std::move(*found);
    state_ = std::move(*state);
  } else if (std::error_code code; fs::exists(path("metrics.jsonl"), code)) {
    note(out_ + " has metrics but no checkpoint: training begins again");
  }
  return agree(process_, facts);
}

Result<void> PointRun::plan_steps(int training_steps) {
  first_step_ = state_ ? state_->head().step : 0;
  const int rest = training_steps > 0 ? training_steps - first_step_ : 1;
  options_.steps = arguments_.steps.value_or(simulated_ ? 1 : rest);
  // A command that is started until its training is done says how many steps that is; one that
  // goes on with another run says how many it adds.
  if (arguments_.resume == kAuto && arguments_.steps) options_.steps -= first_step_;
  if (options_.steps < 1) {
    complete_ = arguments_.resume == kAuto;
    if (complete_) return {};
    return invalid("the checkpoint is at step " + std::to_string(first_step_) +
                   " and training.steps is " + std::to_string(training_steps) +
                   ": nothing is left to do (--steps N does N more)");
  }
  if (options_.steps > std::numeric_limits<int>::max() - first_step_) {
    return invalid("--steps " + std::to_string(options_.steps) + ": the checkpoint is at step " +
                   std::to_string(first_step_) + ", and a training has at most " +
                   std::to_string(std::numeric_limits<int>::max()) + " steps");
  }
  options_.trace_from =
      arguments_.trace_from.value_or(simulated_ ? 0 : std::min(kWarmupSteps, options_.steps - 1));
  if (options_.trace_from >= options_.steps) {
    return invalid("--trace-from " + std::to_string(options_.trace_from) + ": the run has " +
                   std::to_string(options_.steps) + " steps");
  }
  options_.trace_steps = std::min(arguments_.trace_steps.value_or(simulated_ ? 1 : kTracedSteps),
                                  options_.steps - options_.trace_from);
  options_.memory_samples = !out_.empty();  // for the trace that the folder gets
  options_.dataset = subject_.dataset;
  options_.drive_folder = subject_.drive_folder;
  if (arguments_.cuda_graphs && arguments_.backend != "cuda") {
    return invalid("--cuda-graphs: only the backend 'cuda' has graphs");
  }
  if (arguments_.cudnn && arguments_.backend != "cuda") {
    return invalid("--cudnn: only the backend 'cuda' has kernels by cuDNN");
  }
  options_.resume = state_.get();
  options_.cancel = console_.cancel;
  options_.on_nonfinite = subject_.on_nonfinite;
  options_.spikes = subject_.spikes;
  return {};
}

/// Opens the data for validation. Which samples are looked at depends on no seed.
Result<void> PointRun::open_validation(const Program& program) {
  const ValidationSpec& validation = subject_.validation;
  if (simulated_ || validation.freq == 0) return {};
  Samples samples = program.input.samples;
  samples.shuffled = false;
  auto batches = open_dataset(samples, 0, validation.dataset);
  if (!batches) return batches.error();
  options_.validation = {validation.freq, validation.steps, std::move(*batches)};
  options_.on_validation = [&](double loss) { validated_ = loss; };
  return {};
}

/// Prints a hint if the vocabulary is not a multiple of what tensor cores read at a time: rows of
/// logits then begin at unaligned addresses, and are read in smaller parts.
void PointRun::advise(const Program& program) {
  // 8 values of 16 bits are 16 bytes; nanoGPT and llm.c pad the vocabulary to a multiple of 64.
  constexpr std::int64_t kRow = 8, kPadded = 64;
  const Samples& samples = program.input.samples;
  const std::int64_t vocab = samples.kind == SampleKind::Tokens ? samples.classes : 0;
  const bool narrow = size_of(program.dtype) == 2;
  if (arguments_.backend != "cuda" || !narrow || vocab % kRow == 0) return;
  note("model.vocab " + std::to_string(vocab) + " is no multiple of " + std::to_string(kRow) +
       ": products of logits are slow on a GPU; " +
       std::to_string((vocab + kPadded - 1) / kPadded * kPadded) + " is faster");
}

Result<void> PointRun::write_subject(const Program& program) {
  if (out_.empty()) return {};
  if (!subject_.scenario.empty()) {
    if (auto done = write_own(path("scenario.toml"), subject_.scenario); !done) return done;
  }
  if (auto done = write_own(path("program.txt"), print(program)); !done) return done;
  Result<MetricsLog> metrics = MetricsLog::open(path("metrics.jsonl"), first_step_,
                                                arguments_.tensorboard ? path("tb") : "");
  if (!metrics) return metrics.error();
  metrics_ = std::make_unique<MetricsLog>(std::move(*metrics));
  return {};
}

void PointRun::log_step(const StepResult& step, std::int64_t tokens_per_step) {
  if (!metrics_) return;
  const auto written = metrics_->append(
      step, tokens_per_step, {saving_, waits_.mean, waits_.straggler, waits_.loading, validated_});
  saving_ = {};
  if (!written && !metrics_lost_) {
    note(written.error().message + ": steps from " + std::to_string(step.step + 1) +
         " on are missing there until it can be written again");
  }
  metrics_lost_ = !written;
}

Result<RunResult> PointRun::train(const Program& program, Backend& backend) {
  Progress progress(console_, first_step_, options_.steps, program.tokens_per_step,
                    program.input.samples.kind == SampleKind::Images ? "img" : "tok");
  options_.on_step = [&](const StepResult& step) {
    log_step(step, program.tokens_per_step);
    if (claim_) claim_->keep();
    if (!arguments_.quiet && !simulated_) progress.step(step, validated_);
    if (validated_) {
      std::erase_if(validation_, [&](const auto& v) { return v.step > step.step; });  // gone back
      validation_.push_back({step.step + 1, *validated_});
    }
    validated_.reset();
  };
  options_.on_save = [&](Seconds time) {
    if (claim_) claim_->keep();
    saving_ = time;
    saved_ += time;
    ++saves_;
  };
  options_.on_waits = [&](const Waits& waits) {
    waits_ = waits;
    if (waits.straggler) ++late_[*waits.straggler];
  };
  options_.on_note = [&](const std::string& text) { note(text); };
  // Ranks that share the cores of a machine take turns: who is late there is told once, at the end.
  if (arguments_.backend == "cuda") {
    options_.on_straggler = [&](const std::string& text) { note(text); };
  }
  if (saves_checkpoints()) {
    store_ = std::make_unique<CheckpointStore>(
        path(subject_.checkpoint.folder),
        CheckpointRules{run_, version(), settings_, subject_.checkpoint.keep_latest_k,
                        subject_.checkpoint.keep_every,
                        [this] { return lock_ ? lock_->check() : Result<void>(); }});
    options_.store = store_.get();
    options_.checkpoint_every = subject_.checkpoint.interval;
  }
  // If an op hangs for ever, the watch ends this process, and nobody else says why.
  process_.activity->set_last_words([&](const Error& error) {
    write_flight(program);
    const std::string waits = waiting_text(process_.activity->flight, program, process_.now());
    std::cerr << "process " + std::to_string(process_.index()) +
                     ": error: " + printable(to_string(error) + "\n" + waits) +
                     "\nwhat hangs does not end by itself, so this process is ended\n"
              << std::flush;
  });
  auto ran = backend.run(program, subject_.cluster, options_);
  process_.activity->set_last_words({});
  const bool hung = !ran && ran.error().kind == ErrorKind::Device && write_flight(program);
  if (hung && claim_) claim_->keep();  // the record is of this run
  return ran;
}

bool PointRun::write_flight(const Program& program) const {
  const FlightRecord& flight = process_.activity->flight;
  if (out_.empty() || flight.entries().empty()) return false;
  const std::string name = "flight-" + std::to_string(process_.index()) + ".txt";
  return write_own(path(name), flight_text(flight, program, process_.now())).ok();
}

void PointRun::say_ending(const RunResult& ran, PointOutcome& outcome) const {
  if (arguments_.backend != "cuda" && !late_.empty()) {
    const auto most = std::max_element(late_.begin(), late_.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    note("others waited for rank " + std::to_string(most->first) + " in " +
         std::to_string(most->second) + " of " + std::to_string(options_.steps) +
         " steps (straggler in metrics.jsonl), which is usual where ranks share cores");
  }
  const std::string done = std::to_string(ran.steps_done);
  const std::string saved =
      ran.saved_step ? "step-" + std::to_string(*ran.saved_step) + " is the newest checkpoint"
                     : "no checkpoint was written";
  if (ran.ending == Ending::Stopped) {
    outcome.stopped = true;
    note("stopped by a signal after step " + done + "; " + saved +
         (ran.saved_step ? ": --resume auto goes on from there" : ""));
  }
  if (ran.ending == Ending::Diverged) {
    outcome.diverged =
        "the loss or the gradient norm of step " + done + " is not finite, so the run ends here; " +
        saved + " (training.on_nonfinite = \"rollback\" goes back to a checkpoint and leaves " +
        "the samples out)";
  }
}

Result<void> PointRun::close_folder(const RunResult& ran, const Report& report) {
  if (out_.empty()) return {};
  if (auto there = lock_->check(); !there) return there;
  if (auto done = write_chrome_trace(ran.trace, path("trace.json.gz"), Links::Replaced); !done)
    return done;
  return write_own(path("report.json"), report_json(report));
}

}  // namespace lockstep
