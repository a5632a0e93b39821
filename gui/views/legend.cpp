#include "gui/views/legend.hpp"

#include <algorithm>
#include <set>

#include "core/base/index_vector.hpp"
#include "gui/draw/timeline_drawing.hpp"

namespace lockstep::gui {

namespace {

double line_height(const TextSize& text) { return text.line_height + 6; }

}  // namespace

DisplayList draw_legend(const std::vector<Look>& looks, const std::vector<BubbleCause>& causes,
                        double width, const TextSize& text) {
  DisplayList list;
  double x = 6, y = 0;
  const auto entry = [&](const std::string& in_box, const std::string& name, Ink ink, Hatch hatch) {
    const double box = std::max(20.0, text.width_of(in_box) + 6), words = text.width_of(name);
    if (x > 6 && x + box + 4 + words > width) {
      x = 6;
      y += line_height(text);
    }
    const QRectF rect(x, y + 3, box, text.line_height);
    if (ink == Ink::Idle) list.fill(rect, Ink::Background);
    list.fill(rect, ink, hatch);
    if (!in_box.empty()) list.texts.push_back({rect, in_box, ink, true, Align::Center});
    list.text({x + box + 4, y, words + 2, line_height(text)}, name);
    x += box + 4 + words + 12;
  };
  for (const Look look : looks) {
    entry(std::string(letters(look)), std::string(long_name(look)), ink_of(look), hatch_of(look));
  }
  for (const BubbleCause cause : causes) {
    entry("", std::string(to_string(cause)), Ink::Idle, hatch_of(cause));
  }
  const double height = y + line_height(text);
  list.fills.insert(list.fills.begin(), {0, 0, float(width), float(height), Ink::Band});
  return list;
}

std::vector<Look> looks_of(const RunView& run) {
  IndexVector<Look, bool> occurs(kNumLooks, false);
  const Trace& trace = run.trace;
  for (const TraceRole& role : trace.roles) {
    for (const TraceOp& op : role.ops) {
      occurs[run.lanes.look_of(op)] = true;
    }
  }
  std::vector<Look> looks;
  for (const Look look : occurs.ids()) {
    if (occurs[look]) looks.push_back(look);
  }
  return looks;
}

std::vector<BubbleCause> causes_of(const RunView& run) {
  std::set<BubbleCause> causes;
  for (const StepAnalysis& step : run.steps) {
    for (const Bubble& bubble : step.bubbles.list) causes.insert(bubble.cause);
  }
  return {causes.begin(), causes.end()};
}

Legend::Legend(Session& session, QWidget* parent) : Canvas(parent) {
  setAccessibleName("Legend");
  setFocusPolicy(Qt::NoFocus);
  const auto show = [this, &session] {
    looks_ = session.run() ? looks_of(*session.run()) : std::vector<Look>();
    causes_ = session.run() ? causes_of(*session.run()) : std::vector<BubbleCause>();
    take_height();
    invalidate();
  };
  connect(&session, &Session::runChanged, this, show);
  show();
}

/// The height follows from the width, as text that is wrapped.
void Legend::take_height() { setFixedHeight(static_cast<int>(draw().fills.front().height) + 2); }

void Legend::resizeEvent(QResizeEvent* event) {
  take_height();
  Canvas::resizeEvent(event);
}

DisplayList Legend::draw() const { return draw_legend(looks_, causes_, width(), text()); }

}  // namespace lockstep::gui
