#include "cli/point_run.hpp"

#include <iostream>

#include "cli/progress.hpp"
#include "core/analysis/timeline.hpp"
#include "core/analysis/timeline_svg.hpp"
#include "core/base/new_file.hpp"
#include "core/run/watch.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace lockstep {
namespace {

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

class ConsoleObserver final : public SessionObserver {
 public:
  ConsoleObserver(const Console& console, int process, bool quiet)
      : console_(console), process_(process), quiet_(quiet) {}

  void on_begin(const SessionPlan& plan) override {
    progress_.emplace(console_, plan.first_step, plan.steps, plan.samples_per_step,
                      plan.kind == SampleKind::Images ? "img" : "tok");
  }
  void on_step(const StepResult& step, std::optional<double> validation) override {
    if (!quiet_) progress_->step(step, validation);
  }
  void on_end() override { progress_.reset(); }
  void on_note(const std::string& text) override { report_note(console_, text); }
  void on_stopped(const std::string& where) override { on_note("stopped by a signal " + where); }
  void on_hang(const Error& error, const std::string& waits) override {
    std::cerr << "process " + std::to_string(process_) +
                     ": error: " + printable(to_string(error) + "\n" + waits) +
                     "\nwhat hangs does not end by itself, so this process is ended\n"
              << std::flush;
  }

 private:
  const Console& console_;
  int process_;
  bool quiet_;
  std::optional<Progress> progress_;
};

}  // namespace

Result<SessionOutcome> run_point(const RunArguments& arguments, const Console& console,
                                 const Subject& subject, Process& process, const std::string& out) {
  if (arguments.backend == "sim") keep_large_blocks_apart();
  SessionOptions options = arguments;
  options.out = out;
  options.cancel = console.cancel;
  if (const auto timeout = watch_timeout(); timeout) options.timeout = *timeout;
  ConsoleObserver observer(console, process.index(), arguments.quiet);
  Result<SessionOutcome> ran = run_session(subject, options, process, observer);
  if (!ran || !ran->report) return ran;
  if (arguments.timeline) {
    (arguments.json ? console.err : console.out)
        << draw_timeline(ran->trace, {console.width, 64}) << "\n";
  }
  if (!arguments.picture.empty()) {
    const auto written = write_file(arguments.picture, timeline_svg(ran->trace));
    if (!written) return written.error();
  }
  return ran;
}

}  // namespace lockstep
