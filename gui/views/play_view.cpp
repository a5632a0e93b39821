#include "gui/views/play_view.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QPushButton>
#include <QShortcut>
#include <QSignalBlocker>
#include <QSlider>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <optional>

#include "core/ir/program.hpp"
#include "core/scenario/shipped.hpp"
#include "gui/draw/play_drawing.hpp"
#include "gui/draw/wrapped_text.hpp"
#include "gui/model/run/lesson.hpp"
#include "gui/views/canvas.hpp"
#include "gui/views/notice.hpp"
#include "gui/views/signs.hpp"

namespace lockstep::gui {
namespace {

constexpr int kFrameMs = 33;
constexpr int kScrubSteps = 10'000;
constexpr int kCaptionLines = 3;
constexpr double kLeastLines = 11;  // of the picture: the caption, boxes with words, and the strip
constexpr std::array<int, 6> kSeconds = {5, 10, 20, 40, 90, 300};  // to play a whole run

/// The words below the picture. Before a step is played, they are the scenario's own comment; after
/// it, the sum of the step; between, what happens and why.
std::string words_at_cursor(const Session& session, const StepAnalysis& step) {
  const RunPtr run = session.run();
  const bool paused = !session.playing();
  if (paused && session.cursor() <= run->lanes.begin() && session.has_document() &&
      run->simulated() && run->path == session.path()) {
    if (const std::string words = opening_words(session.document().text); !words.empty()) {
      return words + " — Space plays it.";
    }
  }
  if (paused && session.cursor() >= run->lanes.end()) return closing_words(step);
  return caption(step.graph, step.bubbles, session.cursor());
}

}  // namespace

class PlayView::Picture final : public Canvas {
 public:
  explicit Picture(Session& session) : session_(session) {
    setAccessibleName("The step at the cursor");
    setMinimumHeight(static_cast<int>(kLeastLines * text().line_height));
  }
  void refresh() {
    invalidate();
    const RunPtr run = session_.run();
    const StepAnalysis* step = run ? step_at(*run, session_.cursor()) : nullptr;
    setAccessibleDescription(step ? QString::fromStdString(words_at_cursor(session_, *step)) : "");
  }

 protected:
  DisplayList draw() const override {
    DisplayList list;
    const RunPtr run = session_.run();
    const StepAnalysis* step = run ? step_at(*run, session_.cursor()) : nullptr;
    if (!step) {
      write_hint(list, QRectF(rect()),
                 run ? "This trace has no step to play."
                     : "A step plays here: what each rank computes, and what moves between them.",
                 text());
      return list;
    }
    const SimTime t = session_.cursor();
    const double line = text().line_height;
    const auto words =
        wrap(words_at_cursor(session_, *step), width() - 24.0, kCaptionLines, text());
    for (std::size_t i = 0; i < words.size(); ++i) {
      list.text(QRectF(12, 4 + static_cast<double>(i) * line, width() - 20.0, line), words[i]);
    }
    const double top = 8 + kCaptionLines * line;
    const Stage stage = set_stage(*run, *step, QRectF(0, top, width(), height() - top), text());
    list.append(draw_play(*run, *step, stage, t, text()));
    return list;
  }

 private:
  Session& session_;
};

PlayView::PlayView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      play_(new QPushButton),
      scrub_(new QSlider(Qt::Horizontal)),
      speed_(new QComboBox),
      picture_(new Picture(session)) {
  setAccessibleName("Play");
  auto* line = new QHBoxLayout;
  const auto button = [&](Sign sign, const char* name, const char* tip, auto&& action) {
    auto* b = new QPushButton;
    set_sign(*b, sign);
    b->setAccessibleName(name);
    b->setToolTip(tip);
    b->setFixedWidth(fontMetrics().horizontalAdvance("MM") + 16);
    connect(b, &QPushButton::clicked, this, action);
    line->addWidget(b);
  };
  button(Sign::ToStart, "To the start", "To the start", [this] {
    if (session_.run()) session_.set_cursor(session_.run()->lanes.begin());
  });
  button(Sign::StepBack, "Step back", "To the moment before", [this] { step(-1); });
  play_->setAccessibleName("Play");
  play_->setToolTip("Play or pause (Space)");
  play_->setFixedWidth(fontMetrics().horizontalAdvance("Pause") + 52);
  connect(play_, &QPushButton::clicked, this, [this] { toggle(); });
  line->addWidget(play_);
  button(Sign::StepForward, "Step forward", "To the next moment", [this] { step(1); });
  scrub_->setAccessibleName("Time");
  scrub_->setRange(0, kScrubSteps);
  connect(scrub_, &QSlider::valueChanged, this, [this](int at) {
    const RunPtr run = session_.run();
    if (!run) return;
    const double part = static_cast<double>(at) / kScrubSteps;
    const auto whole = static_cast<double>((run->lanes.end() - run->lanes.begin()).count());
    session_.set_cursor(run->lanes.begin() + SimTime{static_cast<std::int64_t>(whole * part)});
  });
  line->addWidget(scrub_, 1);
  speed_->setAccessibleName("Speed");
  for (const int seconds : kSeconds) speed_->addItem(QString("in %1 s").arg(seconds), seconds);
  speed_->setCurrentIndex(speed_->findData(static_cast<int>(session.play_seconds())));
  connect(speed_, &QComboBox::activated, this,
          [this] { session_.set_play_seconds(speed_->currentData().toInt()); });
  line->addWidget(speed_);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(4, 4, 4, 4);
  layout->addLayout(line);
  layout->addWidget(picture_, 1);

  auto* space = new QShortcut(Qt::Key_Space, this);
  space->setContext(Qt::WindowShortcut);
  connect(space, &QShortcut::activated, this, [this] { toggle(); });

  timer_.setInterval(kFrameMs);
  connect(&timer_, &QTimer::timeout, this,
          [this] { session_.advance(static_cast<double>(clock_.restart()) / 1000); });
  connect(&session, &Session::playChanged, this, [this] { show_play(); });
  connect(&session, &Session::cursorChanged, this, [this] { show_cursor(); });
  connect(&session, &Session::runChanged, this, [this] { show_cursor(); });
  dim_when_outdated(*picture_, session);
  show_play();
  show_cursor();
}

void PlayView::show_play() {
  const bool playing = session_.playing();
  play_->setText(playing ? "Pause" : "Play");
  set_sign(*play_, playing ? Sign::Pause : Sign::Play);
  const int at = speed_->findData(static_cast<int>(session_.play_seconds()));
  if (at >= 0) speed_->setCurrentIndex(at);
  if (playing && !timer_.isActive()) {
    clock_.start();
    timer_.start();
  }
  if (!playing) timer_.stop();
  picture_->refresh();
}

void PlayView::show_cursor() {
  const RunPtr run = session_.run();
  setEnabled(run != nullptr);
  if (run) {
    const auto whole = static_cast<double>((run->lanes.end() - run->lanes.begin()).count());
    const auto now = static_cast<double>((session_.cursor() - run->lanes.begin()).count());
    const QSignalBlocker quiet(scrub_);
    scrub_->setValue(whole > 0 ? static_cast<int>(now / whole * kScrubSteps) : 0);
  }
  picture_->refresh();
}

void PlayView::step(int direction) {
  const RunPtr run = session_.run();
  if (!run) return;
  session_.set_playing(false);
  const SimTime now = session_.cursor();
  std::optional<SimTime> next;
  const auto consider = [&](SimTime t) {
    if (direction > 0 ? t > now && (!next || t < *next) : t < now && (!next || t > *next)) next = t;
  };
  for (const Lane& lane : run->lanes.all()) {
    if (lane.stream != static_cast<int>(Stream::Compute)) continue;
    for (const LaneSegment& segment : lane.segments) {
      const std::size_t at = segment.first_ending_after(now);
      const auto spans = segment.spans();
      // The next moment belongs to the span that contains `now`, or to a neighbour of it.
      for (std::size_t i = at > 0 ? at - 1 : 0; i < std::min(at + 2, spans.size()); ++i) {
        consider(spans[i].begin);
        consider(spans[i].end);
      }
    }
  }
  if (next) session_.set_cursor(*next);
}

}  // namespace lockstep::gui
