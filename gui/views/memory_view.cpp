#include "gui/views/memory_view.hpp"

#include <QAbstractItemView>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QMouseEvent>
#include <QSignalBlocker>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>

#include "core/format/format.hpp"
#include "gui/draw/memory_drawing.hpp"
#include "gui/draw/wrapped_text.hpp"
#include "gui/views/canvas.hpp"
#include "gui/views/notice.hpp"

namespace lockstep::gui {

class MemoryView::Picture final : public Canvas {
 public:
  Picture(MemoryView& view, Session& session) : view_(view), session_(session) {
    setAccessibleName("Memory against time, and the arena at the cursor");
    setMouseTracking(true);
    setMinimumHeight(160);
  }
  void refresh() { invalidate(); }

 protected:
  double legend_height() const {  // lines of the kinds, and of what is beside the arena
    return (view_.model_.device.terms.empty() ? 2 : 3) * (text().line_height + 2) + 4;
  }
  QRectF curve_rect() const {
    const double part = view_.shows_blocks() ? 1 : 0.55;  // below it is the arena
    return {0, legend_height(), double(width()), (height() - legend_height()) * part};
  }
  QRectF arena_rect() const {
    const double top = legend_height() + (height() - legend_height()) * 0.55 + 6;
    return {8, top, width() - 16.0, height() - top - 4};
  }
  MemoryFrame frame() const {
    return memory_frame(view_.model_, view_.others_, curve_rect(), text(),
                        {session_.axis(), session_.axis_left()});
  }
  ArenaPicture arena() const {
    return arena_picture(view_.model_, session_.cursor(), arena_rect(), text());
  }

  DisplayList draw() const override {
    DisplayList list;
    if (!view_.model_.run) {
      write_hint(list, QRectF(rect()),
                 "The memory of a rank against time comes here, kind by kind.", text());
      return list;
    }
    if (view_.model_.empty()) {
      list.text(QRectF(0, 0, width(), height()), "This trace tells nothing of memory.", Ink::Faint,
                Align::Center);
      return list;
    }
    if (view_.shows_blocks()) return draw_blocks(view_.model_, frame(), text());
    return draw_memory_curve(view_.model_, view_.others_, frame(), text());
  }
  DisplayList draw_overlay() const override {
    if (!view_.model_.run || view_.model_.empty()) return {};
    const SimTime t = session_.cursor();
    DisplayList list =
        draw_memory_legend(view_.model_, t, QRectF(8, 2, width() - 16.0, legend_height()), text());
    const MemoryFrame f = frame();
    const double x = f.plot.left() + f.axis.x_of(t);
    if (x >= f.plot.left() && x <= f.plot.right() + 1) {
      list.line({x, f.plot.top()}, {x, f.plot.bottom()}, Ink::Accent, 2);
    }
    if (!view_.shows_blocks()) list.append(draw_arena(view_.model_, arena(), text()));
    return list;
  }

  void mousePressEvent(QMouseEvent* event) override { move_cursor(event); }
  void mouseMoveEvent(QMouseEvent* event) override {
    if (event->buttons() & Qt::LeftButton) {
      move_cursor(event);
      return;
    }
    const ArenaPicture picture = arena();
    const MemoryFrame f = frame();
    const BufferLife* const life = view_.shows_blocks()
                                       ? block_at(view_.model_, f, event->position())
                                       : picture.at(event->position());
    if (!life) {
      QToolTip::hideText();
      return;
    }
    const SimTime now = view_.shows_blocks() ? f.axis.time_at(event->position().x() - f.plot.left())
                                             : session_.cursor();
    QString words = QString::fromStdString(view_.model_.describe(*life) + "\n" +
                                           bytes_text(Bytes{life->bytes}) + " at " +
                                           bytes_text(Bytes{life->offset}));
    if (!life->persistent()) {
      words +=
          QString::fromStdString("\nin use for " + time_text(to_seconds(life->until - life->from)) +
                                 ", freed in " + time_text(to_seconds(life->until - now)));
    }
    QToolTip::showText(event->globalPosition().toPoint(), words, this);
  }

 private:
  void move_cursor(QMouseEvent* event) {
    if (!view_.model_.run) return;
    const MemoryFrame f = frame();
    if (event->position().y() > f.plot.bottom()) return;
    session_.set_cursor(f.axis.time_at(event->position().x() - f.plot.left()));
  }

  MemoryView& view_;
  Session& session_;
};

MemoryView::MemoryView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      ranks_(new QComboBox),
      shown_(new QComboBox),
      next_(new QLabel),
      picture_(new Picture(*this, session)),
      reading_(*this) {
  setAccessibleName("Memory");
  ranks_->setAccessibleName("Rank");
  next_->setSizePolicy(QSizePolicy::Ignored,
                       QSizePolicy::Preferred);  // it does not widen the panel
  ranks_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  ranks_->view()->setAccessibleName("Ranks to choose from");
  shown_->addItems({"By kind", "By address"});
  shown_->setAccessibleName("What the picture shows");
  shown_->setToolTip(
      "By kind: the bytes of each kind, stacked.\nBy address: each block from its "
      "begin to its end, where it lies.");
  shown_->view()->setAccessibleName("Pictures to choose from");
  auto* line = new QHBoxLayout;
  line->addWidget(ranks_);
  line->addWidget(shown_);
  line->addWidget(next_, 1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(4, 4, 4, 4);
  layout->addLayout(line);
  layout->addWidget(picture_, 1);
  connect(ranks_, &QComboBox::currentIndexChanged, this, [this] { read_memory(); });
  connect(shown_, &QComboBox::currentIndexChanged, this, [this] { picture_->refresh(); });
  connect(&session, &Session::runChanged, this, [this] { on_run(); });
  connect(&session, &Session::runsChanged, this, [this] { read_memory(); });
  connect(&session, &Session::slotsChanged, this, [this] { read_memory(); });
  connect(&session, &Session::cursorChanged, this, [this] { show_next(); });
  connect(&session, &Session::axisChanged, this, [this] { picture_->refresh(); });
  dim_when_outdated(*picture_, session);
  connect(&session, &Session::selectionChanged, this, [this] {
    const auto& selection = session_.selection();
    if (selection.span && session_.run()) {
      ranks_->setCurrentIndex(session_.run()->trace.spans[*selection.span].rank);
    } else if (!selection.ranks.empty()) {
      ranks_->setCurrentIndex(selection.ranks.front());
    }
  });
  on_run();
}

Rank MemoryView::rank() const { return std::max(ranks_->currentIndex(), 0); }

bool MemoryView::shows_blocks() const {
  return shown_->currentIndex() == 1 && !model_.lives.empty();
}

void MemoryView::on_run() {
  const RunPtr run = session_.run();
  {
    const QSignalBlocker quiet(ranks_);
    const int before = ranks_->currentIndex();
    ranks_->clear();
    if (run) {
      for (const std::string& label : run->trace.rank_labels) {
        ranks_->addItem(QString::fromStdString(label));
      }
      ranks_->setCurrentIndex(std::clamp(before, 0, ranks_->count() - 1));
    }
  }
  read_memory();
}

void MemoryView::read_memory() {
  const RunPtr run = session_.run();
  if (!run) {
    reading_.cancel();
    model_ = {};
    others_.clear();
    picture_->refresh();
    return;
  }
  std::vector<RunPtr> others;
  const auto consider = [&](const RunPtr& other) {
    if (!other || other == run || rank() >= other->world_size()) return;
    if (std::find(others.begin(), others.end(), other) == others.end()) others.push_back(other);
  };
  consider(session_.slot(Slot::A));
  consider(session_.slot(Slot::B));
  for (const RunPtr& other : session_.runs()) {
    if (other->trace.program_hash == run->trace.program_hash) consider(other);
  }
  reading_.submit([this, run, others, rank = rank()](const Cancelled& cancelled) -> Latest::Apply {
    MemoryModel model = make_memory_model(run, rank);
    std::vector<MemoryModel> rest;
    for (const RunPtr& other : others) {
      if (cancelled) return {};
      rest.push_back(make_memory_model(other, rank));
    }
    return [this, model = std::move(model), rest = std::move(rest)] {
      model_ = model;
      others_ = rest;
      picture_->refresh();
      shown_->setEnabled(!model_.lives.empty());
      show_next();
    };
  });
}

void MemoryView::show_next() {
  picture_->update();
  QString words;
  if (!model_.lives.empty()) {
    const ArenaState arena = arena_at(model_.lives, model_.curve.arena, session_.cursor());
    if (const std::int64_t process = model_.process(); process > model_.curve.arena) {
      words = "process " + QString::fromStdString(bytes_text(Bytes{process})) + ", of it ";
    }
    const std::string place = model_.run->program ? "arena " : "segments ";
    words += QString::fromStdString(place + bytes_text(Bytes{arena.arena}) + ", " +
                                    bytes_text(Bytes{arena.free()}) + " free");
    const std::vector<std::size_t> next = arena.next_freed();
    if (!next.empty()) {
      const BufferLife& life = arena.live[next.front()];
      words += QString::fromStdString(" · freed next: " + model_.describe(life) + ", " +
                                      bytes_text(Bytes{life.bytes}));
    }
    for (const MemoryModel& other : others_) {
      words += QString::fromStdString(" · line: " + other.run->title + ", peak " +
                                      bytes_text(Bytes{other.curve.peak}));
    }
  }
  next_->setText(words);
}

}  // namespace lockstep::gui
