// Tests lockstep-gui as a process: its exit code, its messages and its picture for some arguments.
#include <QImage>
#include <QProcess>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

const QString kTiny = LOCKSTEP_SOURCE_DIR "/scenarios/tiny/gpt2-fsdp2-1f1b2.toml";
const QString kProfile = LOCKSTEP_SOURCE_DIR "/tests/data/kineto";

struct Ended {
  int exit_code = -1;
  std::string err;
};

Ended lockstep_gui(const QStringList& arguments) {
  QProcess process;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert("QT_LOGGING_RULES", "*=false");  // Qt's own words about the platform
  process.setProcessEnvironment(environment);
  process.start(LOCKSTEP_GUI_BINARY, arguments);
  REQUIRE(process.waitForFinished(120'000));
  return {process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1,
          process.readAllStandardError().toStdString()};
}

const QString kScenario = LOCKSTEP_SOURCE_DIR "/scenarios/schedules/1f1b-p4-m8.toml";

TEST_CASE("--set changes the scenario that the picture is of", "[gui]") {
  const TemporaryFolder folder;
  const auto picture = [&](const QStringList& set) {
    const QString file = QString::fromStdString(folder / "shot.png");
    QStringList arguments = {kScenario, "--screenshot", file, "--view", "summary", "--alone"};
    for (const QString& value : set) arguments << "--set" << value;
    const Ended ended = lockstep_gui(arguments);
    INFO(ended.err);
    REQUIRE(ended.exit_code == 0);
    return QImage(file);
  };
  const QImage plain = picture({});
  REQUIRE(plain.width() > 200);
  CHECK(picture({"parallelism.pipeline_parallel_microbatches=8"}) == plain);  // what it has anyway
  CHECK(picture({"parallelism.pipeline_parallel_microbatches=16"}) != plain);
}

TEST_CASE("--search fills the table of layouts", "[gui]") {
  const TemporaryFolder folder;
  const auto picture = [&](const QStringList& more) {
    const QString file = QString::fromStdString(folder / "shot.png");
    const Ended ended = lockstep_gui(
        QStringList{kTiny, "--screenshot", file, "--view", "search", "--alone"} + more);
    INFO(ended.err);
    REQUIRE(ended.exit_code == 0);
    return QImage(file);
  };
  CHECK(picture({"--search"}) != picture({}));
}

TEST_CASE("several views come to the front, one on each side", "[gui]") {
  const TemporaryFolder folder;
  const auto picture = [&](const QStringList& views) {
    const QString file = QString::fromStdString(folder / "shot.png");
    QStringList arguments = {kScenario, "--screenshot", file};
    for (const QString& view : views) arguments << "--view" << view;
    const Ended ended = lockstep_gui(arguments);
    INFO(ended.err);
    REQUIRE(ended.exit_code == 0);
    return QImage(file);
  };
  const QImage both = picture({"summary", "table"});
  CHECK(both != picture({"summary"}));
  CHECK(both != picture({"table"}));
  CHECK(both == picture({"table", "summary"}));
}

TEST_CASE("--animate writes a moving SVG and an animated PNG", "[gui]") {
  const TemporaryFolder folder;
  for (const char* name : {"step.svg", "step.png"}) {
    const std::string file = folder / name;
    const Ended ended = lockstep_gui({kScenario, "--animate", QString::fromStdString(file)});
    INFO(ended.err);
    REQUIRE(ended.exit_code == 0);
    const std::string written = read_bytes(file);
    const bool svg = written.find("<animate ") != std::string::npos;
    const bool png = written.find("acTL") != std::string::npos;
    CHECK(svg == (std::string(name) == "step.svg"));
    CHECK(png != svg);
  }
}

TEST_CASE("an argument that cannot be used exits 2 and says why", "[gui]") {
  const TemporaryFolder folder;
  const QString shot = QString::fromStdString(folder / "shot.png");
  const QStringList picture = {kScenario, "--screenshot", shot};
  const std::string microbatches = "parallelism.pipeline_parallel_microbatches";
  const struct {
    QStringList arguments;
    std::string message;
  } cases[] = {
      {picture + QStringList{"--set", "parallelism.pipeline_parallel_microbatchs=12"},
       "did you mean 'pipeline_parallel_microbatches'?"},
      {picture + QStringList{"--set", "paralelism.zero_stage=1"}, "did you mean 'parallelism'?"},
      {picture + QStringList{"--set", "parallelism.zero_stage=high"}, "an integer"},
      {picture + QStringList{"--set", "nonsense"}, "expected section.key=value (--set nonsense)"},
      {{kProfile, "--screenshot", shot, "--set", "a.b=1"}, "--set a.b=1: no scenario is opened"},
      {{kProfile, "--screenshot", shot, "--search"}, "--search: no scenario is opened"},
      {picture + QStringList{"--size", "huge"}, "WIDTHxHEIGHT"},
      {picture + QStringList{"--animate", "step.gif"}, "end it with .svg or .png"},
      {picture + QStringList{"--theme", "blue"}, "light or dark"},
      {picture + QStringList{"--view", "nowhere"}, "one of timeline"},
      {picture + QStringList{"--at", "later"}, "'later'"},
      {picture + QStringList{"--find", "no such span"}, "no span is 'no such span'"},
      {{QString::fromStdString(folder / "absent.toml"), "--screenshot", shot}, "absent.toml"},
  };
  for (const auto& c : cases) {
    const Ended ended = lockstep_gui(c.arguments);
    INFO(c.arguments.join(' ').toStdString() << "\n" << ended.err);
    CHECK(ended.exit_code == 2);
    CHECK_THAT(ended.err, ContainsSubstring(c.message));
    CHECK_FALSE(QImage(shot).width() > 0);
  }
}

}  // namespace
}  // namespace lockstep::gui
