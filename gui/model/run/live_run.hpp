// LiveRun: follows training as it happens. A run is a process of its own that writes a run folder,
// so that runs of this application and of others are followed in the same way, and none of them can
// crash the application.
#pragma once

#include <QElapsedTimer>
#include <QProcess>
#include <QTimer>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/run_folder/metrics_tail.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep::gui {

class LiveRun {
 public:
  enum class State { Idle, Running, Following, Finished, Cancelled, Failed };

  /// `changed` is called on the GUI thread after every new step and change of state.
  explicit LiveRun(std::function<void()> changed);
  ~LiveRun();  // ends the process that it started

  /// A way to train, as arguments of `lockstep run`.
  struct Way {
    std::string label;
    std::string backend;
    std::string communicator = {};  // empty if the backend is to choose
  };
  /// The ways of this build: the backends that compute, and all ranks on one GPU.
  static std::vector<Way> ways();

  /// Trains `scenario` in that way for `steps` steps, into a new folder under `parent`. Requires
  /// !active(). If it cannot be started, the state becomes Failed.
  void start(const Scenario& scenario, const Way& way, int steps, const std::string& parent);
  /// Follows the folder that another process writes until its report is there, or until the process
  /// has been gone for a while without one. A report of before the process began, as in a folder
  /// that a resumed run goes on with, does not count. Requires !active().
  void follow(const std::string& folder);
  /// Ends the process after its step, or stops following.
  void cancel();

  State state() const { return state_; }
  bool active() const { return state_ == State::Running || state_ == State::Following; }
  const std::string& folder() const { return folder_; }  // the run folder
  const std::string& message() const { return message_; }
  int total_steps() const { return total_steps_; }  // 0 if not known
  const std::vector<StepMetrics>& steps() const { return steps_; }
  /// The program that runs scenarios: the one beside this program, or else the one on the PATH.
  static QString runner();

 private:
  void watch(const std::string& folder);
  void poll();
  void look_for_end();  // of what is followed
  void end(State state, std::string message);

  std::function<void()> changed_;
  State state_ = State::Idle;
  std::string folder_, message_;
  int total_steps_ = 0;
  std::vector<StepMetrics> steps_;
  std::unique_ptr<MetricsTail> tail_;
  std::unique_ptr<QProcess> process_;
  bool cancelled_ = false;
  QTimer timer_;
  QElapsedTimer gone_;  // since when the process that is followed has been gone
};

}  // namespace lockstep::gui
