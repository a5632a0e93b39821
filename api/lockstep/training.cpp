#include "lockstep/training.hpp"

#include <atomic>

#include "core/session/session.hpp"
#include "lockstep/data.hpp"

namespace lockstep::api {
inline namespace v1 {
namespace {

/// Keeps what a session tells, and ends it if the caller wants that.
class Follower final : public SessionObserver {
 public:
  Follower(const std::function<bool(const TrainingStep&)>& on_step, Training& training)
      : on_step_(on_step), training_(training) {}

  void on_begin(const SessionPlan& plan) override { last_ = plan.first_step + plan.steps; }
  void on_step(const StepResult& step, std::optional<double> validation) override {
    const TrainingStep now{step.step + 1, last_,       step.loss, step.grad_norm,
                           step.lr,       step.time.v, validation};
    std::erase_if(training_.steps, [&](const auto& s) { return s.step >= now.step; });  // gone back
    training_.steps.push_back(now);
    if (on_step_ && !on_step_(now)) stop_ = true;
  }
  void on_note(const std::string& text) override { training_.notes.push_back(text); }

  const std::atomic<bool>& stop() const { return stop_; }

 private:
  const std::function<bool(const TrainingStep&)>& on_step_;
  Training& training_;
  int last_ = 0;
  std::atomic<bool> stop_ = false;
};

}  // namespace

Result<Training> train(const Scenario& scenario, const TrainingOptions& options) {
  if (options.backend == "sim") {
    return faults_of(
        invalid("train: the backend 'sim' computes nothing: take cpu or cuda, or call "
                "simulate()"));
  }
  if (options.steps < 0 || options.threads < 1) {
    return faults_of(
        invalid("train: steps=" + std::to_string(options.steps) +
                ", threads=" + std::to_string(options.threads) +
                ": give 0 steps (those of the scenario) or more, and 1 thread or more"));
  }
  Training training;
  Follower follower(options.on_step, training);
  SessionOptions session;
  session.backend = options.backend;
  session.out = options.folder;
  session.resume = options.resume;
  if (options.steps > 0) session.steps = options.steps;
  session.threads = options.threads;
  session.accept = options.accept;
  session.cancel = &follower.stop();
  SoleProcess process;
  const Subject subject = subject_of(scenario.data().scenario);
  lockstep::Result<SessionOutcome> ran = run_session(subject, session, process, follower);
  if (!ran) return faults_of(ran.error());
  training.end = static_cast<TrainingEnd>(ran->ending);
  training.diverged = ran->diverged;
  if (ran->report) {
    lockstep::Run run;
    run.report = std::move(*ran->report);
    run.trace = std::move(ran->trace);
    training.run = run_of(std::move(run));
  } else if (lockstep::Result<lockstep::Run> before = open_run(options.folder); before) {
    training.run = run_of(std::move(*before));
  }
  return training;
}

}  // namespace v1
}  // namespace lockstep::api
