#include "gui/views/shards_view.hpp"

#include <QMouseEvent>

#include "gui/draw/shards_drawing.hpp"
#include "gui/draw/wrapped_text.hpp"

namespace lockstep::gui {

ShardsView::ShardsView(Session& session, QWidget* parent)
    : Canvas(parent), session_(session), reading_(*this) {
  setAccessibleName("Shards");
  setMinimumHeight(120);
  connect(&session, &Session::runChanged, this, [this] { on_run(); });
  connect(&session, &Session::cursorChanged, this, [this] { invalidate(); });
  on_run();
}

void ShardsView::on_run() {
  reading_.submit([this, run = session_.run()](const Cancelled& cancelled) -> Latest::Apply {
    ShardsModel model = make_shards_model(run, cancelled);
    return [this, model = std::move(model)] {
      model_ = model;
      invalidate();
    };
  });
}

DisplayList ShardsView::legend() const {
  return draw_shards_legend(model_, QRectF(8, 4, width() - 16.0, text().line_height), text());
}

QRectF ShardsView::field() const {
  const double top = legend().texts.back().rect.bottom() + 4;
  return {4, top, width() - 8.0, height() - top - 2};
}

DisplayList ShardsView::draw() const {
  DisplayList list;
  if (!model_.run) {
    write_hint(list, QRectF(rect()),
               "What each rank keeps of the model, and has gathered, comes here.", text());
    return list;
  }
  if (model_.empty()) {
    write_hint(list, QRectF(rect()),
               "Shards are known of runs of a model whose program is at hand.", text());
    return list;
  }
  list.append(legend());
  list.append(
      draw_shards(model_, shards_frame(model_, field(), text()), session_.cursor(), text()));
  return list;
}

void ShardsView::mousePressEvent(QMouseEvent* event) {
  const ShardsFrame frame = shards_frame(model_, field(), text());
  for (std::size_t i = 0; i < frame.ranks.size(); ++i) {
    if (frame.ranks[i].box.contains(event->position())) {
      session_.select({{}, {}, {model_.ranks[i].rank}});
    }
  }
}

}  // namespace lockstep::gui
