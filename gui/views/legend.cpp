#include "gui/views/legend.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"

namespace lockstep::gui {

DisplayList draw_legend(const std::vector<Look>& looks, QSizeF size, const TextSize& text) {
  DisplayList list;
  list.fill({0, 0, size.width(), size.height()}, Ink::Band);
  const double box_height = std::min(text.line_height, size.height() - 4);
  const double top = (size.height() - box_height) / 2;
  double x = 6;
  const auto entry = [&](const std::string& in_box, const std::string& name, Ink ink, Hatch hatch) {
    const double box = std::max(20.0, text.width_of(in_box) + 6), width = text.width_of(name);
    if (x + box + 4 + width > size.width()) return;
    const QRectF rect(x, top, box, box_height);
    list.fill(rect, ink, hatch);
    if (!in_box.empty()) list.texts.push_back({rect, in_box, ink, true, Align::Center});
    list.text({x + box + 4, 0, width, size.height()}, name);
    x += box + 4 + width + 12;
  };
  for (const Look look : looks) {
    entry(std::string(letters(look)), std::string(long_name(look)), ink_of(look), hatch_of(look));
  }
  entry("", "bubble", Ink::Idle, Hatch::Rising);
  return list;
}

std::vector<Look> looks_of(const RunView& run) {
  IndexVector<Look, bool> occurs(kNumLooks, false);
  const Trace& trace = run.trace;
  for (const TraceRole& role : trace.roles) {
    for (const TraceOp& op : role.ops) {
      occurs[look_of_kind(trace.names[op.kind])] = true;
    }
  }
  std::vector<Look> looks;
  for (const Look look : occurs.ids()) {
    if (occurs[look]) looks.push_back(look);
  }
  return looks;
}

Legend::Legend(Session& session, QWidget* parent) : Canvas(parent) {
  setAccessibleName("Legend");
  setFocusPolicy(Qt::NoFocus);
  setFixedHeight(sizeHint().height());
  setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed);  // at most as wide as it needs
  const auto show = [this, &session] {
    looks_ = session.run() ? looks_of(*session.run()) : std::vector<Look>();
    updateGeometry();
    invalidate();
  };
  connect(&session, &Session::runChanged, this, show);
  show();
}

QSize Legend::sizeHint() const {
  const int height = static_cast<int>(text().line_height) + 8;
  const DisplayList all = draw_legend(looks_, {1e6, 1.0 * height}, text());
  return {static_cast<int>(all.texts.back().rect.right()) + 6, height};
}

DisplayList Legend::draw() const { return draw_legend(looks_, size(), text()); }

}  // namespace lockstep::gui
