#include "gui/model/run/live_run.hpp"

#include <sys/types.h>

#include <QCoreApplication>
#include <QDateTime>
#include <QFileInfo>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "backends/backends.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/run_folder/run_lock.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep::gui {
namespace {

namespace fs = std::filesystem;

constexpr int kPollMs = 150;
constexpr int kPatienceMs = 3000;            // how long a process may take to end by itself
constexpr int kGoneMs = 10'000;              // how long it may take to start one that ended again
constexpr std::chrono::seconds kCopying(2);  // by which files of one moment may lie apart

/// Whether a folder has the report of the run that took its lock last; `ended`: that is over.
bool has_report(const std::string& folder, bool ended) {
  std::error_code no_report, no_lock;
  const auto report = fs::last_write_time(fs::path(folder) / "report.json", no_report);
  const auto lock = fs::last_write_time(fs::path(folder) / ".lock", no_lock);
  if (no_report) return false;
  return no_lock || ended || report + kCopying > lock;
}

std::string last_line(const QByteArray& text) {
  const QList<QByteArray> lines = text.trimmed().split('\n');
  return lines.back().toStdString();
}

}  // namespace

LiveRun::LiveRun(std::function<void()> changed) : changed_(std::move(changed)) {
  timer_.setInterval(kPollMs);
  QObject::connect(&timer_, &QTimer::timeout, &timer_, [this] { poll(); });
}

LiveRun::~LiveRun() {
  if (!process_) return;
  process_->disconnect();
  process_->terminate();
  if (!process_->waitForFinished(kPatienceMs)) process_->kill();
}

QString LiveRun::runner() {
  const QString beside = QCoreApplication::applicationDirPath() + "/lockstep";
  return QFileInfo(beside).isExecutable() ? beside : QStringLiteral("lockstep");
}

std::vector<LiveRun::Way> LiveRun::ways() {
  std::vector<Way> ways;
  for (const std::string& name : backend_names()) {
    if (name == "sim") continue;
    ways.push_back({name, name});
    if (name == "cuda") ways.push_back({"cuda, all ranks on one GPU", name, "local"});
  }
  return ways;
}

void LiveRun::start(const Scenario& scenario, const Way& way, int steps,
                    const std::string& parent) {
  const std::string name =
      scenario.name + "-" + way.backend + "-" +
      QDateTime::currentDateTime().toString("yyyyMMdd-hhmmss-zzz").toStdString();
  const std::string folder = (fs::path(parent) / name).string();
  std::error_code failed;
  fs::create_directories(parent, failed);
  const std::string file = folder + ".toml";
  const Result<void> written = write_file(file, print_scenario(scenario));
  watch(folder);
  total_steps_ = steps;
  if (!written) return end(State::Failed, to_string(written.error()));
  state_ = State::Running;
  process_ = std::make_unique<QProcess>();
  QObject::connect(process_.get(), &QProcess::errorOccurred, &timer_,
                   [this](QProcess::ProcessError error) {
                     if (error == QProcess::FailedToStart) {
                       end(State::Failed, runner().toStdString() + " cannot be started");
                     }
                   });
  QObject::connect(process_.get(), &QProcess::finished, &timer_, [this](int code) {
    poll();
    const std::string said = last_line(process_->readAllStandardError());
    if (cancelled_) return end(State::Cancelled, "stopped");
    if (code == 0) return end(State::Finished, "finished");
    // A failed [expect] is an answer; the run is complete.
    if (code == exit_code(ErrorKind::Expectation)) return end(State::Finished, said);
    end(State::Failed, said.empty() ? "it ended with exit code " + std::to_string(code) : said);
  });
  QStringList arguments{
      "run",     QString::fromStdString(file), "--backend", QString::fromStdString(way.backend),
      "--steps", QString::number(steps),       "--out",     QString::fromStdString(folder),
      "--quiet"};
  if (!way.communicator.empty()) {
    arguments << "--communicator" << QString::fromStdString(way.communicator);
  }
  process_->start(runner(), arguments);
  changed_();
}

void LiveRun::follow(const std::string& folder) {
  watch(folder);
  state_ = State::Following;
  poll();
  changed_();
}

void LiveRun::watch(const std::string& folder) {
  folder_ = folder;
  message_.clear();
  steps_.clear();
  total_steps_ = 0;
  cancelled_ = false;
  gone_.invalidate();
  tail_ = std::make_unique<MetricsTail>((fs::path(folder) / "metrics.jsonl").string());
  timer_.start();
}

void LiveRun::poll() {
  bool restarted = false;
  const std::vector<StepMetrics> fresh = tail_->poll(restarted);
  if (restarted) steps_.clear();
  steps_.insert(steps_.end(), fresh.begin(), fresh.end());
  if (!fresh.empty() || restarted) changed_();
  if (state_ == State::Following) look_for_end();
}

void LiveRun::look_for_end() {
  const bool gone = holder_has_ended(folder_);
  if (has_report(folder_, gone)) return end(State::Finished, "finished");
  if (!gone) return gone_.invalidate();
  if (!gone_.isValid()) gone_.start();  // a run with --restarts may begin again
  if (gone_.elapsed() > kGoneMs) {
    end(State::Failed, "its process has ended without a report");
  }
}

void LiveRun::cancel() {
  if (state_ == State::Following) return end(State::Cancelled, "no longer followed");
  if (state_ != State::Running) return;
  cancelled_ = true;
  // After SIGINT, the run ends after its step and keeps what it has. QProcess::terminate() would
  // send SIGTERM.
  ::kill(static_cast<pid_t>(process_->processId()), SIGINT);
}

void LiveRun::end(State state, std::string message) {
  timer_.stop();
  state_ = state;
  message_ = std::move(message);
  if (process_) process_.release()->deleteLater();  // later, as it may be what called this
  changed_();
}

}  // namespace lockstep::gui
