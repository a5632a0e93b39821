#include "gui/views/timeline_view.hpp"

#include <QLabel>
#include <QTest>
#include <QWheelEvent>
#include <algorithm>

#include "gui/views/start_page.hpp"
#include "gui/views/timeline_panel.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

using test::scenario_path;
using test::wait_until_idle;

/// A timeline of the 1F1B pipeline, 1000 × 400 pixels.
struct Fixture {
  Fixture() : app(test::application()), view(session) {
    view.resize(1000, 400);
    view.show();
    session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
    wait_until_idle(session);
  }
  QPointF point(double seconds, const std::string& key) const {
    for (const Row& row : view.layout_now().rows) {
      if (row.key != key) continue;
      const auto place = place_of(view.layout_now(), view.frame(), row);
      return {view.frame().x_of(to_sim_time(Seconds{seconds})), place->center().y()};
    }
    return {};
  }
  void wheel(QPointF at, int notches, Qt::KeyboardModifiers modifiers) {
    QWheelEvent event(at, view.mapToGlobal(at), {}, {0, 120 * notches}, Qt::NoButton, modifiers,
                      Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(&view, &event);
  }
  QApplication& app;
  Session session;
  TimelineView view;
};

TEST_CASE("the first picture shows the whole run", "[gui][views]") {
  Fixture f;
  CHECK(f.view.frame().axis.begin < f.session.run()->lanes.begin());
  CHECK(f.view.frame().axis.end > f.session.run()->lanes.end());
  const QImage image = f.view.grab().toImage();
  const QPointF forward = f.point(2, "rank 0");  // F0 runs from 0 to 10 s
  CHECK(image.pixelColor(forward.toPoint()) == f.view.theme().color(ink_of(Look::Forward)));
}

TEST_CASE("keys zoom and pan; 0 shows everything again", "[gui][views]") {
  Fixture f;
  const TimeAxis whole = f.view.frame().axis;
  QTest::keyClick(&f.view, Qt::Key_W);
  CHECK(f.view.frame().axis.length() < whole.length());
  const TimeAxis closer = f.view.frame().axis;
  QTest::keyClick(&f.view, Qt::Key_D);
  CHECK(f.view.frame().axis.begin > closer.begin);
  QTest::keyClick(&f.view, Qt::Key_A);
  CHECK(std::abs((f.view.frame().axis.begin - closer.begin).count()) <= 1);
  QTest::keyClick(&f.view, Qt::Key_S);
  CHECK(f.view.frame().axis.length() > closer.length());
  QTest::keyClick(&f.view, Qt::Key_0);
  CHECK(f.view.frame().axis == whole);
}

TEST_CASE("wherever one pans and zooms, a part of the run stays in sight", "[gui][views]") {
  Fixture f;
  const auto in_sight = [&] {
    const TimeAxis& axis = f.view.frame().axis;
    const SimTime begin = std::max(axis.begin, f.session.run()->lanes.begin());
    const SimTime end = std::min(axis.end, f.session.run()->lanes.end());
    return to_seconds(end - begin).v / to_seconds(axis.length()).v;
  };
  for (const auto key : {Qt::Key_D, Qt::Key_A}) {
    QTest::keyClick(&f.view, Qt::Key_0);
    for (int i = 0; i < 40; ++i) QTest::keyClick(&f.view, key);
    CHECK(in_sight() > 0.1);
    const double x = key == Qt::Key_D ? 990 : f.view.frame().gutter + 10;  // where there is nothing
    for (int i = 0; i < 30; ++i) f.wheel({x, 200}, 1, Qt::ControlModifier);
    CHECK(in_sight() > 0.1);
  }
}

TEST_CASE("Ctrl and the wheel zoom about the mouse, the wheel alone scrolls", "[gui][views]") {
  Fixture f;
  const QPointF at(700, 100);
  const SimTime under = f.view.frame().time_at(at.x());
  f.wheel(at, 3, Qt::ControlModifier);
  CHECK(f.view.frame().x_of(under) == Approx(at.x()).margin(1));
  f.view.resize(1000, 150);
  f.wheel(at, -1, Qt::NoModifier);
  CHECK(f.view.frame().scroll > 0);
}

TEST_CASE("a click selects the span and sets the cursor; Escape clears", "[gui][views]") {
  Fixture f;
  const QPointF b0 = f.point(120, "rank 0");
  QTest::mouseClick(&f.view, Qt::LeftButton, {}, b0.toPoint());
  REQUIRE(f.session.selection().span);
  const Span& span = f.session.run()->trace.spans[*f.session.selection().span];
  CHECK(label(f.session.run()->lanes.op(span), f.session.run()->lanes.look(span)) == "B0");
  CHECK(to_seconds(f.session.cursor()).v == Approx(120).margin(1));
  QTest::keyClick(&f.view, Qt::Key_Escape);
  CHECK_FALSE(f.session.selection().span);
}

TEST_CASE("a drag selects a range of time", "[gui][views]") {
  Fixture f;
  const QPoint from = f.point(100, "rank 1").toPoint(), to = f.point(50, "rank 1").toPoint();
  QTest::mousePress(&f.view, Qt::LeftButton, {}, from);
  QTest::mouseMove(&f.view, to);
  QTest::mouseRelease(&f.view, Qt::LeftButton, {}, to);
  REQUIRE(f.session.selection().range);
  CHECK(to_seconds(f.session.selection().range->begin).v == Approx(50).margin(1));
  CHECK(to_seconds(f.session.selection().range->end).v == Approx(100).margin(1));
}

TEST_CASE("a click on a rank's label folds it", "[gui][views]") {
  Fixture f;
  const std::size_t rows = f.view.layout_now().rows.size();
  QTest::mouseClick(&f.view, Qt::LeftButton, {}, {20, int(f.point(0, "rank 1").y())});
  CHECK(f.view.layout_now().rows.size() == rows - 4);
}

TEST_CASE("a step that got shorter looks shorter, until the whole is asked for", "[gui][views]") {
  Fixture f;
  const TimeAxis before = f.view.frame().axis;
  f.session.set_override("parallelism.pipeline_parallel_microbatches", "6");
  wait_until_idle(f.session);
  REQUIRE(f.session.run()->scenario->num_microbatches() == 6);
  CHECK(f.view.frame().axis == before);
  QTest::keyClick(&f.view, Qt::Key_0);
  CHECK(f.view.frame().axis.length() < before.length());
  f.session.set_override("parallelism.pipeline_parallel_microbatches", "16");
  wait_until_idle(f.session);
  CHECK(f.view.frame().axis.end > f.session.run()->lanes.end());  // a longer step is shown whole
}

TEST_CASE("rows grow to fill the height that there is", "[gui][views]") {
  Fixture f;
  const double small = f.view.layout_now().height;
  f.view.resize(1000, 700);
  CHECK(f.view.layout_now().height > small);
  CHECK(f.view.layout_now().height > 600);
  CHECK(f.view.layout_now().height <= 700 - f.view.frame().ruler);
}

TEST_CASE("a picture that is not what the controls say is dimmed", "[gui][views]") {
  test::application();
  Session session;
  TimelinePanel panel(session);
  panel.resize(1000, 500);
  panel.show();
  CHECK_FALSE(panel.timeline().isVisible());  // the start page is there instead
  CHECK(panel.start().isVisible());
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  CHECK(panel.timeline().isVisible());
  CHECK_FALSE(panel.start().isVisible());
  CHECK_FALSE(panel.timeline().dimmed());
  session.set_override("parallelism.pipeline_parallel_microbatches", "many");
  wait_until_idle(session);
  CHECK(panel.timeline().dimmed());
  const auto* notice = panel.findChild<QLabel*>("notice");
  REQUIRE(notice);
  CHECK(notice->isVisible());
  CHECK(notice->text().contains("fault"));
  session.undo();
  wait_until_idle(session);
  CHECK_FALSE(panel.timeline().dimmed());
  CHECK_FALSE(notice->isVisible());
}

TEST_CASE("a new simulation of the same ranks keeps the zoom", "[gui][views]") {
  Fixture f;
  f.view.show_time(to_sim_time(Seconds{50}), to_sim_time(Seconds{60}));
  const TimeAxis axis = f.view.frame().axis;
  f.session.set_override("costs.forward", "11.0");
  wait_until_idle(f.session);
  CHECK(f.view.frame().axis == axis);
}

TEST_CASE("areas snap to the edges of spans, with Alt they do not", "[gui][views]") {
  Fixture f;
  const QPoint from = f.point(0, "rank 0").toPoint() + QPoint(3, 0);
  const QPoint to = f.point(10, "rank 0").toPoint() + QPoint(3, 0);
  const auto drag = [&](Qt::KeyboardModifiers modifiers) {
    QTest::mousePress(&f.view, Qt::LeftButton, modifiers, from);
    QMouseEvent move(QEvent::MouseMove, to, f.view.mapToGlobal(to), Qt::NoButton, Qt::LeftButton,
                     modifiers);
    QCoreApplication::sendEvent(&f.view, &move);
    QTest::mouseRelease(&f.view, Qt::LeftButton, modifiers, to);
    return *f.session.selection().range;
  };
  CHECK(drag({}) == TimeRange{SimTime{0}, to_sim_time(Seconds{10})});
  CHECK(f.session.selection().ranks == std::vector<Rank>{0});
  CHECK(drag(Qt::AltModifier).end > to_sim_time(Seconds{10}));
}

TEST_CASE("keys walk along a lane and along links", "[gui][views]") {
  Fixture f;
  const auto selected = [&] {
    const Span& s = f.session.run()->trace.spans[*f.session.selection().span];
    return "rank " + std::to_string(s.rank) + " " +
           label(f.session.run()->lanes.op(s), f.session.run()->lanes.look(s));
  };
  REQUIRE(f.view.find("F0 rank0 compute", true));
  CHECK(selected() == "rank 0 F0");
  QTest::keyClick(&f.view, Qt::Key_Period);
  CHECK(selected() == "rank 0 F1");
  QTest::keyClick(&f.view, Qt::Key_Comma);
  CHECK(selected() == "rank 0 F0");
  QTest::keyClick(&f.view, Qt::Key_BracketRight);  // F0 -> its send -> the receive -> F0
  CHECK(selected() == "rank 0 S0");
  QTest::keyClick(&f.view, Qt::Key_BracketRight);
  CHECK(selected() == "rank 1 r0");
  QTest::keyClick(&f.view, Qt::Key_BracketRight);
  CHECK(selected() == "rank 1 F0");
  QTest::keyClick(&f.view, Qt::Key_BracketLeft);
  CHECK(selected() == "rank 1 r0");
  CHECK_FALSE(f.view.find("no such span", true));
}

TEST_CASE("F shows the selection, and F again everything", "[gui][views]") {
  Fixture f;
  const TimeAxis whole = f.view.frame().axis;
  f.view.find("F0 rank0 compute", true);
  QTest::keyClick(&f.view, Qt::Key_F);
  CHECK(f.view.frame().axis.length() < whole.length() / 20);
  QTest::keyClick(&f.view, Qt::Key_F);
  CHECK(f.view.frame().axis == whole);
}

TEST_CASE("P pins a row, Alt and arrows move a rank, R takes a span's time", "[gui][views]") {
  Fixture f;
  f.view.find("F0 rank2 compute", true);
  QTest::keyClick(&f.view, Qt::Key_P);
  REQUIRE(f.view.layout_now().pinned.size() == 1);
  CHECK(f.view.layout_now().pinned.front().key == "rank 2");
  QTest::keyClick(&f.view, Qt::Key_R);
  CHECK(f.session.selection().range->end - f.session.selection().range->begin ==
        to_sim_time(Seconds{10}));
}

TEST_CASE("a label is dragged to another place, a click on it still folds", "[gui][views]") {
  test::application();
  Session session;
  TimelineView view(session);
  view.resize(1000, 400);
  view.show();
  session.open(scenario_path("tiny/gpt2-fsdp2-1f1b2.toml"));
  wait_until_idle(session);
  const auto y_of = [&](const std::string& key) {
    for (const Row& row : view.layout_now().rows) {
      if (row.key == key) return place_of(view.layout_now(), view.frame(), row)->center().y();
    }
    return -1.0;
  };
  REQUIRE(y_of("rank 0") < y_of("rank 1"));
  const QPoint from(20, int(y_of("rank 0"))), to(20, int(y_of("rank 1")) + 200);
  QTest::mousePress(&view, Qt::LeftButton, {}, from);
  QTest::mouseMove(&view, to);
  QTest::mouseRelease(&view, Qt::LeftButton, {}, to);
  CHECK(y_of("rank 1") < y_of("rank 0"));
  CHECK(session.layout().folded.empty());
  QTest::mouseClick(&view, Qt::LeftButton, {}, {20, int(y_of("rank 0"))});
  CHECK(session.layout().folded == std::set<RowKey>{"rank 0"});
}

TEST_CASE("M marks, N goes from mark to mark, and M takes the mark away", "[gui][views]") {
  Fixture f;
  f.view.find("F0 rank1 compute", true);
  QTest::keyClick(&f.view, Qt::Key_M);
  f.view.find("B7 rank0 compute", true);
  QTest::keyClick(&f.view, Qt::Key_M);
  REQUIRE(f.session.marks().size() == 2);
  const auto flags = [&] {
    int count = 0;
    for (const Text& text : f.view.picture().texts) {
      count += (text.text == "1" || text.text == "2") && text.rect.y() < f.view.frame().ruler;
    }
    return count;
  };
  CHECK(flags() == 2);
  QTest::keyClick(&f.view, Qt::Key_N);  // once around
  CHECK(f.session.selection().ranks == std::vector<Rank>{1});
  QTest::keyClick(&f.view, Qt::Key_N, Qt::ShiftModifier);
  CHECK(f.session.selection().ranks == std::vector<Rank>{0});
  QTest::keyClick(&f.view, Qt::Key_M);
  CHECK(f.session.marks().size() == 1);
  CHECK(flags() == 1);
}

TEST_CASE("no two commands of the timeline share a key", "[gui][views]") {
  Fixture f;
  QStringList keys;
  for (const Command& command : f.view.commands()) {
    for (const QKeySequence& key : command.keys) {
      INFO(key.toString().toStdString());
      CHECK_FALSE(key.isEmpty());
      CHECK_FALSE(keys.contains(key.toString()));
      keys << key.toString();
    }
  }
}

}  // namespace
}  // namespace lockstep::gui
