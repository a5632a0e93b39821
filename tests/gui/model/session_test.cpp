#include "gui/model/session.hpp"

#include <QDir>
#include <QSysInfo>
#include <QTest>
#include <algorithm>
#include <chrono>

#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/trace/chrome_trace.hpp"
#include "gui/model/run/describe.hpp"
#include "tests/gui/application.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

using test::scenario_path;
using test::wait_until_idle;

TEST_CASE("a scenario that is opened is simulated in the background", "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  CHECK(session.busy());
  CHECK(session.run() == nullptr);
  wait_until_idle(session);
  REQUIRE(session.run() != nullptr);
  CHECK(session.run()->simulated());
  CHECK(session.run()->report->step_time.v == Approx(346));
  CHECK(session.run()->notes.empty());
  CHECK(session.runs().size() == 1);
}

TEST_CASE("of many edits some are shown on the way, and the newest last", "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  std::vector<int> shown;
  QObject::connect(&session, &Session::runChanged,
                   [&] { shown.push_back(session.run()->scenario->num_microbatches()); });
  // A slider that moves on whenever something was shown, or half a second went by without.
  for (int microbatches = 9; microbatches <= 16; ++microbatches) {
    session.set_override("parallelism.pipeline_parallel_microbatches",
                         std::to_string(microbatches));
    session.set_override("parallelism.pipeline_parallel_microbatches",
                         std::to_string(microbatches + 16));
    const std::size_t before = shown.size();
    for (int wait = 0; wait < 100 && shown.size() == before; ++wait) {
      QTest::qWait(5);
    }
  }
  CHECK(shown.size() >= 4);  // although the next edit always came before the run was through
  for (int microbatches = 4; microbatches <= 32; ++microbatches) {
    session.set_override("parallelism.pipeline_parallel_microbatches",
                         std::to_string(microbatches));
  }
  wait_until_idle(session);
  REQUIRE(session.run() != nullptr);
  CHECK(session.run()->scenario->num_microbatches() == 32);
  CHECK(shown.back() == 32);
  CHECK(session.document().overrides ==
        std::vector<std::string>{"parallelism.pipeline_parallel_microbatches=32"});
  session.undo();  // the whole drag is one step
  wait_until_idle(session);
  CHECK(session.document().overrides.empty());
  CHECK(session.run()->scenario->num_microbatches() == 8);
  session.redo();
  wait_until_idle(session);
  CHECK(session.run()->scenario->num_microbatches() == 32);
}

TEST_CASE("whenever the list of runs changes, the run that is shown is in it", "[gui][model]") {
  test::application();
  Session session;
  int changes = 0;
  QObject::connect(&session, &Session::runsChanged, [&] {
    ++changes;
    const auto& runs = session.runs();
    // Otherwise Compare would lay what was shown before beside what is shown next.
    CHECK((!session.run() || std::find(runs.begin(), runs.end(), session.run()) != runs.end()));
  });
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  session.open(scenario_path("schedules/gpipe-p4-m8.toml"));
  wait_until_idle(session);
  session.set_override("parallelism.pipeline_parallel_microbatches", "12");
  wait_until_idle(session);
  session.close(session.run());
  CHECK(session.runs().size() == 1);
  CHECK(changes >= 4);
}

TEST_CASE("what is set over a scenario as it is opened is all that is simulated", "[gui][model]") {
  test::application();
  Session session;
  std::vector<int> shown;
  QObject::connect(&session, &Session::runChanged,
                   [&] { shown.push_back(session.run()->scenario->num_microbatches()); });
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  session.set_override("parallelism.pipeline_parallel_microbatches", "16");
  wait_until_idle(session);
  CHECK(shown == std::vector<int>{16});
}

TEST_CASE("what is opened last does not wait for what is simulated behind it", "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("tensor-parallel/llama2-70b-tp8-pp4-dp2-64xh100.toml"));
  session.set_override("what_if.jitter", "0.05");  // of no two ranks alike
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  std::vector<std::size_t> worlds;
  QObject::connect(&session, &Session::runsChanged,
                   [&] { worlds.push_back(to_size(session.runs().back()->world_size())); });
  wait_until_idle(session);
  CHECK(worlds == std::vector<std::size_t>{4, 64});
  CHECK(session.run()->world_size() == 4);  // the other one does not come to the front by itself
  for (const OpenItem& item : session.items()) {
    if (item.run != session.run()) session.show(item);
  }
  CHECK(session.run()->world_size() == 64);
}

TEST_CASE("a faulty edit says where, and the last good run stays", "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  const RunPtr good = session.run();
  Document document = session.document();
  document.text += "\n[modell]\n";
  session.edit(document);
  wait_until_idle(session);
  CHECK(session.run() == good);
  REQUIRE(session.errors().size() == 1);
  CHECK_THAT(to_string(session.errors().front()), ContainsSubstring("modell"));
  CHECK(session.errors().front().where->line > 0);
  session.undo();
  wait_until_idle(session);
  CHECK(session.errors().empty());
}

TEST_CASE("a file that cannot be read is told and changes nothing", "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  const RunPtr before = session.run();
  const TemporaryFolder folder;
  write_bytes(folder / "bad.json", "{\"traceEvents\": [");
  QStringList messages;
  QObject::connect(&session, &Session::failed, [&](const QString& m) { messages << m; });
  for (const std::string& path :
       {folder / "bad.json", folder / "absent.toml", folder.path.string()}) {
    session.open(path);
    wait_until_idle(session);
  }
  CHECK(messages.size() == 3);
  CHECK(session.run() == before);
}

TEST_CASE("a trace that was written opens beside the simulation", "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  const TemporaryFolder folder;
  REQUIRE(write_chrome_trace(session.run()->trace, folder / "trace.json.gz").ok());
  session.open(folder / "trace.json.gz");
  wait_until_idle(session);
  REQUIRE(session.runs().size() == 2);
  CHECK(session.run() == session.runs()[1]);
  CHECK(session.run()->trace.spans == session.runs()[0]->trace.spans);
  session.close(session.run());
  CHECK(session.run() == session.runs()[0]);
}

TEST_CASE("marks and pins belong to a file, and are there when it is shown again", "[gui][model]") {
  test::application();
  const std::string first = scenario_path("schedules/1f1b-p4-m8.toml");
  std::map<std::string, ViewState> kept;
  {
    Session session;
    session.open(first);
    wait_until_idle(session);
    CHECK(session.views().empty());  // nothing was arranged
    session.set_cursor(to_sim_time(Seconds{50}));
    session.toggle_mark();
    session.select({SpanId{3}, std::nullopt, {}});
    session.toggle_mark();
    REQUIRE(session.marks().size() == 2);
    CHECK(session.marks()[0].words == summary(*session.run(), 3));
    session.set_layout(toggled_pin(session.layout(), "rank 2"));
    session.open(scenario_path("tiny/gpt2-ddp2.toml"));
    wait_until_idle(session);
    CHECK(session.marks().empty());
    CHECK(session.layout().pinned.empty());
    kept = session.views();
  }
  REQUIRE(kept.count(first) == 1);
  Session session;
  session.set_views(kept);
  session.open(first);
  wait_until_idle(session);
  CHECK(session.marks().size() == 2);
  CHECK(session.layout().pinned == std::vector<RowKey>{"rank 2"});
  session.go_to_mark(true);
  CHECK(session.selection().ranks == std::vector<Rank>{session.marks()[0].ranks});
  session.go_to_mark(true);
  CHECK(to_seconds(session.cursor()).v == Approx(50));
  session.toggle_mark();  // what is marked already is unmarked
  CHECK(session.marks().size() == 1);
}

TEST_CASE("playing moves the cursor with the clock and stops at the end", "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  session.set_play_seconds(10);
  session.set_playing(true);
  session.advance(2.5);
  CHECK(to_seconds(session.cursor()).v == Approx(346.0 / 4));
  session.advance(100);
  CHECK(session.cursor() == session.run()->lanes.end());
  CHECK_FALSE(session.playing());
  session.set_playing(true);  // again, from the begin
  CHECK(session.cursor() == session.run()->lanes.begin());
}

TEST_CASE("a schedule of PyTorch's opens as a scenario of its own", "[gui][model]") {
  test::application();
  const TemporaryFolder folder;
  // One and several stages per rank, split backwards, V-shaped, and two copies of the model.
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"1F1B"},
           {"Interleaved1F1B", "parallelism.pipeline_parallel_virtual_stages=2"},
           {"ZBVZeroBubble", "parallelism.pipeline_parallel_virtual_stages=2"},
           {"DualPipe"}}) {
    INFO(overrides.front());
    std::vector<std::string> set = overrides;
    set.front() = "parallelism.pipeline_parallel_schedule=" + set.front();
    const LoadedScenario loaded = load_scenario(scenario_path("schedules/1f1b-p4-m8.toml"), set);
    REQUIRE(loaded.ok());
    const Schedule schedule = lower_schedule(loaded.points.front().scenario);
    write_bytes(folder / "mine.csv", print_schedule_csv(schedule));
    Session session;
    session.open(folder / "mine.csv");
    wait_until_idle(session);
    REQUIRE(session.errors().empty());
    REQUIRE(session.run());
    const Schedule opened = lower_schedule(*session.run()->scenario);
    CHECK(opened.actions == schedule.actions);
    CHECK(opened.copies == schedule.copies);
    CHECK(session.path().empty());
    CHECK(session.is_modified());  // it has no file yet
  }
  Session session;
  QStringList messages;
  QObject::connect(&session, &Session::failed, [&](const QString& m) { messages << m; });
  write_bytes(folder / "bad.csv", "0F0,0B0\n1F0,oops\n");
  session.open(folder / "bad.csv");
  write_bytes(folder / "uneven.csv", "0F0,0B0\n1F0,1B0,2F0,2B0\n");
  session.open(folder / "uneven.csv");
  REQUIRE(messages.size() == 2);
  CHECK_THAT(messages[0].toStdString(),
             ContainsSubstring("bad.csv:2:2") && ContainsSubstring("oops"));
  CHECK_THAT(messages[1].toStdString(), ContainsSubstring("3 stages cannot lie on 2 ranks"));
  CHECK_FALSE(session.has_document());
}

TEST_CASE("everything that is opened stays open, and the sliders belong to what is shown",
          "[gui][model]") {
  test::application();
  const TemporaryFolder folder;
  Session session;
  const std::vector<std::string> paths = {
      scenario_path("schedules/1f1b-p4-m8.toml"), scenario_path("tiny/gpt2-ddp2.toml"),
      scenario_path("schedules/gpipe-p4-m8.toml"), scenario_path("programs/ring.program")};
  for (const std::string& path : paths) session.open(path);  // at once, as from the command line
  wait_until_idle(session);
  REQUIRE(session.items().size() == 4);
  CHECK(session.runs().size() == 4);
  // A change is kept when something else is shown, and it is said that it is not saved.
  const auto item_of = [&](const std::string& path) {
    for (const OpenItem& item : session.items()) {
      if (item.run->path == path) return item;
    }
    throw std::runtime_error("not open: " + path);
  };
  session.show(item_of(paths[0]));
  CHECK(session.path() == paths[0]);
  session.set_override("parallelism.pipeline_parallel_microbatches", "12");
  session.show(item_of(paths[1]));
  CHECK(session.path() == paths[1]);
  CHECK_FALSE(session.is_modified());
  wait_until_idle(session);
  CHECK(item_of(paths[0]).modified);
  CHECK(item_of(paths[0]).run->scenario->num_microbatches() == 12);
  session.open(paths[0]);  // again: what is not saved stays
  wait_until_idle(session);
  CHECK(session.items().size() == 4);
  CHECK(session.document().overrides.size() == 1);
  session.undo();
  CHECK_FALSE(session.is_modified());
  wait_until_idle(session);
  for (const std::string& path : paths) session.close(item_of(path));
  CHECK(session.items().empty());
  CHECK(session.run() == nullptr);
  CHECK_FALSE(session.has_document());
}

TEST_CASE("a program's text opens as a run, and a fault in it is told", "[gui][model]") {
  test::application();
  const TemporaryFolder folder;
  Session session;
  session.open(scenario_path("programs/ring.program"));
  wait_until_idle(session);
  REQUIRE(session.run());
  CHECK(session.run()->simulated());
  CHECK(session.run()->program);
  CHECK(session.run()->report.has_value());
  CHECK_FALSE(session.has_document());
  std::string text = read_bytes(scenario_path("programs/ring.program"));
  write_bytes(folder / "bad.program", text + "\nnonsense\n");
  QStringList messages;
  QObject::connect(&session, &Session::failed, [&](const QString& m) { messages << m; });
  session.open(folder / "bad.program");
  wait_until_idle(session);
  REQUIRE(messages.size() == 1);
  CHECK_THAT(messages[0].toStdString(), ContainsSubstring("bad.program:"));
}

TEST_CASE("a scenario that does not fit is simulated, and what would make it fit is found",
          "[gui][model]") {
  test::application();
  Session session;
  Document document;
  document.text =
      "[model]\npreset = \"gpt2-124m\"\n[training]\nseq_len = 1024\n"
      "local_batch_size = 16\n[cluster]\npreset = \"a100-80\"\n"
      "device.memory_gb = 8\n";
  session.edit(document);
  wait_until_idle(session);
  INFO((session.errors().empty() ? std::string() : to_string(session.errors().front())));
  REQUIRE(session.run());
  REQUIRE(session.run()->too_large);
  CHECK(session.run()->too_large->kind == ErrorKind::OutOfMemory);
  CHECK(session.errors().empty());
  REQUIRE(session.remedies());
  REQUIRE_FALSE(session.remedies()->empty());
  for (const std::string& key : session.remedies()->front().keys) {
    put_override(document.overrides, key);
  }
  session.edit(document);
  wait_until_idle(session);
  CHECK_FALSE(session.run()->too_large);
}

TEST_CASE("a run that is not what the controls say is outdated, and says why", "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  CHECK(session.outdated().empty());
  session.set_override("parallelism.pipeline_parallel_microbatches", "9");
  CHECK_THAT(session.outdated(), ContainsSubstring("simulated"));
  session.cancel();
  CHECK_THAT(session.outdated(), ContainsSubstring("Not simulated"));
  session.set_override("parallelism.pipeline_parallel_microbatches", "many");
  wait_until_idle(session);
  CHECK_THAT(session.outdated(), ContainsSubstring("fault"));
  session.undo();
  session.undo();
  wait_until_idle(session);
  CHECK(session.outdated().empty());
}

TEST_CASE("saving writes the text that is edited", "[gui][model]") {
  test::application();
  const TemporaryFolder folder;
  Session session;
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  Document document = session.document();
  document.text += "# a remark\n";
  session.edit(document);
  CHECK(session.is_modified());
  REQUIRE(session.save(folder / "mine.toml").ok());
  CHECK_FALSE(session.is_modified());
  CHECK(read_bytes(folder / "mine.toml") == document.text);
  CHECK_FALSE(session.save(folder / "no/such/folder.toml").ok());
  wait_until_idle(session);
}

TEST_CASE("what takes long to simulate is estimated before, and the estimate is near",
          "[gui][model]") {
  test::application();
  Session session;
  session.open(scenario_path("tensor-parallel/gpt3-175b-1024xa100.toml"));
  wait_until_idle(session);
  REQUIRE(session.run());
  const auto slow = std::chrono::milliseconds(300);
  const auto begin = std::chrono::steady_clock::now();
  session.set_override("parallelism.pipeline_parallel_microbatches", "48");
  std::string told;
  while (session.busy() || Latest::any_busy()) {
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
    const std::string now = session.outdated();
    if (now.find("Estimated: a step of ") != std::string::npos) told = now;
  }
  if (told.empty()) {  // only a machine on which it does not take long may tell nothing
    CHECK(std::chrono::steady_clock::now() - begin < 2 * slow);
    return;
  }
  const double seconds = std::stod(told.substr(told.find("step of ") + 8));
  CHECK(seconds == Approx(session.run()->report->step_time.v).epsilon(0.25));
}

TEST_CASE("a scenario that another program has changed is read again and simulated",
          "[gui][model]") {
  test::application();
  const TemporaryFolder folder;
  const std::string text = read_bytes(scenario_path("schedules/1f1b-p4-m8.toml"));
  write_bytes(folder / "s.toml", text);
  Session session;
  session.open(folder / "s.toml");
  wait_until_idle(session);
  CHECK(session.reread().empty());
  std::string twelve = text;
  const std::size_t at = twelve.find("microbatches = 8");
  REQUIRE(at != std::string::npos);
  twelve.replace(at, 16, "microbatches = 12");
  write_bytes(folder / "s.toml", twelve);
  CHECK(session.reread() == std::vector<std::string>{folder / "s.toml"});
  wait_until_idle(session);
  CHECK(session.run()->scenario->num_microbatches() == 12);
  CHECK_FALSE(session.is_modified());
}

/// What a kill leaves of the session that keeps its changes in `folder`, once there are any: the
/// lock of a process that is not there, and the files. It is called before that session ends.
void copy_as_killed(const QString& folder) {
  const QDir kept(folder);
  REQUIRE(QTest::qWaitFor([&] { return !kept.entryList({"*.json"}).empty(); }));
  for (const QString& name : kept.entryList(QDir::Files)) {
    QFile::copy(kept.filePath(name), kept.filePath("0" + name));
    if (!name.endsWith(".lock")) continue;
    write_bytes(kept.filePath("0" + name).toStdString(),
                "1999999999\nlockstep\n" + QSysInfo::machineHostName().toStdString() + "\n");
  }
}

const std::string kMicrobatches = "parallelism.pipeline_parallel_microbatches";

/// Opens a scenario with twelve microbatches, and is killed.
void change_and_die(const std::string& path, const QString& kept) {
  Session killed;
  CHECK(killed.keep_changes_in(kept).empty());
  killed.open(path);
  wait_until_idle(killed);
  killed.set_override(kMicrobatches, "12");
  copy_as_killed(kept);
}

TEST_CASE("what a session that was killed had not saved is open in the next one", "[gui][model]") {
  test::application();
  const TemporaryFolder folder;
  const std::string path = scenario_path("schedules/1f1b-p4-m8.toml");
  const QString kept = QString::fromStdString(folder / "kept");
  change_and_die(path, kept);
  Session session;
  CHECK(session.keep_changes_in(kept) == std::vector<Session::Reopened>{{path, true}});
  wait_until_idle(session);
  CHECK(session.is_modified());
  CHECK(session.run()->scenario->num_microbatches() == 12);
  session.open(path);  // by hand, too: the changes stay, and nothing is open twice
  wait_until_idle(session);
  CHECK(session.items().size() == 1);
  CHECK(session.run()->scenario->num_microbatches() == 12);
  CHECK(QDir(kept).entryList({"*.json"}).size() == 1);  // it is ours to keep now
  session.undo();
  CHECK_FALSE(session.is_modified());
  CHECK(QTest::qWaitFor([&] { return QDir(kept).entryList({"*.json"}).empty(); }));
}

TEST_CASE("what two sessions died with is open in the next, and simulated once it changes",
          "[gui][model]") {
  test::application();
  const TemporaryFolder folder;
  const std::string path = scenario_path("schedules/1f1b-p4-m8.toml");
  const QString kept = QString::fromStdString(folder / "kept");
  change_and_die(path, kept);
  {
    Session again;
    CHECK(again.keep_changes_in(kept) == std::vector<Session::Reopened>{{path, true}});
    copy_as_killed(kept);
  }
  Session session;
  CHECK(session.keep_changes_in(kept) == std::vector<Session::Reopened>{{path, false}});
  wait_until_idle(session);
  CHECK(session.items().size() == 1);
  CHECK_FALSE(session.run());
  session.set_override(kMicrobatches, "16");
  wait_until_idle(session);
  REQUIRE(session.run());
  CHECK(session.run()->scenario->num_microbatches() == 16);
}

}  // namespace
}  // namespace lockstep::gui
