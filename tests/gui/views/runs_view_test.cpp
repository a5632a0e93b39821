#include "gui/views/runs_view.hpp"

#include <QComboBox>
#include <QElapsedTimer>
#include <QLabel>
#include <QListWidget>
#include <QProcess>
#include <QPushButton>
#include <QSpinBox>
#include <QSysInfo>
#include <QTest>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "core/run_folder/run_folder.hpp"
#include "core/run_folder/run_lock.hpp"
#include "tests/gui/application.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

using test::scenario_path;
using test::wait_until_idle;

QPushButton* button(const QWidget& view, const char* text) {
  for (auto* b : view.findChildren<QPushButton*>()) {
    if (b->text() == text) return b;
  }
  return nullptr;
}

void wait_for_end(const RunsView& view) {
  QElapsedTimer time;
  time.start();
  while (view.live().active() && time.elapsed() < 60'000) {
    QCoreApplication::processEvents(QEventLoop::AllEvents, 50);
  }
  REQUIRE_FALSE(view.live().active());
}

struct Opened {
  TemporaryFolder folder;
  Session session;
  RunsView view{session};
  explicit Opened(const std::string& scenario) {
    test::application();
    view.set_folder(folder / "runs");
    session.open(scenario_path(scenario));
    wait_until_idle(session);
  }
};

TEST_CASE("a scenario is trained from the application, and the run opens beside its simulation",
          "[gui][views]") {
  test::application();
  Opened o("tiny/gpt2-ddp2.toml");
  o.view.findChild<QSpinBox*>()->setValue(4);
  QTest::mouseClick(button(o.view, "Train"), Qt::LeftButton);
  CHECK(o.view.live().active());
  CHECK_FALSE(button(o.view, "Train")->isEnabled());
  wait_for_end(o.view);
  CHECK(o.view.live().state() == LiveRun::State::Finished);
  REQUIRE(o.view.live().steps().size() == 4);
  CHECK(o.view.live().steps().back().loss < o.view.live().steps().front().loss);
  wait_until_idle(o.session);
  REQUIRE(o.session.runs().size() == 2);
  CHECK(o.session.runs()[0]->simulated());
  CHECK(o.session.run()->trace.backend == "cpu");
  CHECK(o.session.run()->trace.program_hash == o.session.runs()[0]->trace.program_hash);
  CHECK(o.view.findChild<QListWidget*>()->count() == 2);
}

TEST_CASE("a run folder that is opened shows the curves of its training", "[gui][views]") {
  test::application();
  Opened o("tiny/gpt2-ddp2.toml");
  CHECK(o.view.charted().empty());
  o.view.findChild<QSpinBox*>()->setValue(3);
  QTest::mouseClick(button(o.view, "Train"), Qt::LeftButton);
  wait_for_end(o.view);
  wait_until_idle(o.session);
  const std::string folder = o.view.live().folder();

  Opened later("tiny/gpt2-ddp2.toml");
  later.session.open(folder);
  wait_until_idle(later.session);
  REQUIRE(later.view.charted().size() == 3);
  CHECK(later.view.charted()[2].step == 3);
  CHECK(later.view.charted()[2].loss == o.view.live().steps()[2].loss);
  later.session.show(later.session.runs()[0]);  // the simulation has trained nothing
  CHECK(later.view.charted().empty());
}

TEST_CASE("a run is stopped after its step, and keeps what it has", "[gui][views]") {
  test::application();
  Opened o("tiny/gpt2-ddp2.toml");
  o.view.findChild<QSpinBox*>()->setValue(100'000);
  QTest::mouseClick(button(o.view, "Train"), Qt::LeftButton);
  QElapsedTimer time;
  time.start();
  while (o.view.live().steps().size() < 8 && time.elapsed() < 60'000) {
    QCoreApplication::processEvents(QEventLoop::AllEvents, 50);
  }
  QTest::mouseClick(button(o.view, "Stop"), Qt::LeftButton);
  wait_for_end(o.view);
  CHECK(o.view.live().state() == LiveRun::State::Cancelled);
  CHECK(o.view.live().steps().size() >= 8);
  CHECK(o.view.live().steps().size() < 100'000);
  wait_until_idle(o.session);
  CHECK(o.session.runs().size() == 2);
}

TEST_CASE("a folder that another process writes is followed until its report is there",
          "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  int changes = 0;
  LiveRun live([&] { ++changes; });
  live.follow(folder / "");
  CHECK(live.state() == LiveRun::State::Following);
  std::ofstream(folder / "metrics.jsonl") << "{\"step\":1,\"loss\":3.5}\n";
  QElapsedTimer time;
  time.start();
  while (live.steps().empty() && time.elapsed() < 10'000) {
    QCoreApplication::processEvents(QEventLoop::AllEvents, 50);
  }
  REQUIRE(live.steps().size() == 1);
  CHECK(live.steps()[0].loss == 3.5);
  REQUIRE(write_file(folder / "report.json", "{}").ok());
  while (live.active() && time.elapsed() < 10'000) {
    QCoreApplication::processEvents(QEventLoop::AllEvents, 50);
  }
  CHECK(live.state() == LiveRun::State::Finished);
  CHECK(changes >= 3);
}

TEST_CASE("a resumed run is followed, although its folder has the report of before",
          "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  const auto minutes_ago = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(5);
  REQUIRE(write_file(folder / "report.json", "{}").ok());
  std::filesystem::last_write_time(folder / "report.json", minutes_ago);
  LiveRun live([] {});
  {
    const Result<RunLock> lock =
        RunLock::take(folder.path.string(), "");  // as the run that goes on
    REQUIRE(lock.ok());
    live.follow(folder.path.string());
    QTest::qWait(400);
    CHECK(live.state() == LiveRun::State::Following);  // it was "finished" at once
  }
  REQUIRE(write_file(folder / "report.json", "{}").ok());
  CHECK(QTest::qWaitFor([&] { return !live.active(); }, 10'000));
  CHECK(live.state() == LiveRun::State::Finished);
}

TEST_CASE("a run whose process has ended without a report is not followed for ever",
          "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  QProcess process;  // whose number is nobody's when it has ended
  process.start("true");
  REQUIRE(process.waitForStarted());
  const QString number = QString::number(process.processId());
  REQUIRE(process.waitForFinished());
  write_bytes(folder / ".lock",
              ("process " + number + " on " + QSysInfo::machineHostName() + "\n").toStdString());
  CHECK(holder_has_ended(folder.path.string()));
  LiveRun live([] {});
  live.follow(folder.path.string());
  CHECK(QTest::qWaitFor([&] { return !live.active(); }, 30'000));
  CHECK(live.state() == LiveRun::State::Failed);
  CHECK_THAT(live.message(), ContainsSubstring("without a report"));
  const TemporaryFolder elsewhere;
  write_bytes(elsewhere / ".lock", "process " + number.toStdString() + " on another.machine\n");
  CHECK_FALSE(holder_has_ended(elsewhere.path.string()));
}

TEST_CASE("a scenario of given times cannot be trained, and says so", "[gui][views]") {
  test::application();
  Opened o("schedules/1f1b-p4-m8.toml");
  REQUIRE(o.session.run()->scenario->model.architecture == Architecture::Synthetic);
  CHECK_FALSE(button(o.view, "Train")->isEnabled());
  CHECK(button(o.view, "Train")->toolTip().contains("cannot be trained"));
}

TEST_CASE("where the CUDA backend is built, a run on one GPU is offered and reaches it",
          "[gui][views]") {
  test::application();
  Opened o("tiny/gpt2-ddp2.toml");
  auto* backend = o.view.findChild<QComboBox*>();
  CHECK(backend->itemText(0) == "cpu");
  const int one_gpu = backend->findText("cuda, all ranks on one GPU");
  if (one_gpu < 0) {
    CHECK(backend->findText("cuda") < 0);
    return;
  }
  backend->setCurrentIndex(one_gpu);
  o.view.findChild<QSpinBox*>()->setValue(2);
  QTest::mouseClick(button(o.view, "Train"), Qt::LeftButton);
  wait_for_end(o.view);
  const LiveRun& live = o.view.live();
  INFO(live.message());
  // Two ranks: NCCL would want two GPUs. Without any the reason is what the command says.
  CHECK((live.state() == LiveRun::State::Finished ||
         live.message().find("no GPU to run on") != std::string::npos));
}

TEST_CASE("a run that cannot start says why", "[gui][views]") {
  test::application();
  Opened o("tiny/gpt2-ddp2.toml");
  std::ofstream(o.folder / "runs") << "a file is in the way";
  QTest::mouseClick(button(o.view, "Train"), Qt::LeftButton);
  wait_for_end(o.view);
  CHECK(o.view.live().state() == LiveRun::State::Failed);
  CHECK_FALSE(o.view.live().message().empty());
}

}  // namespace
}  // namespace lockstep::gui
