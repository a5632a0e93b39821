#include "gui/views/exports.hpp"

#include <QBuffer>
#include <QImage>
#include <QPainter>
#include <QSvgGenerator>
#include <cmath>

#include "core/lower/lower.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/chrome_trace.hpp"
#include "core/trace/span_csv.hpp"
#include "gui/draw/animation.hpp"
#include "gui/draw/painter.hpp"
#include "gui/draw/play_drawing.hpp"
#include "gui/views/legend.hpp"
#include "gui/views/timeline_view.hpp"

namespace lockstep::gui {
namespace {

using Job = Export::Job;

constexpr QSizeF kAnimationSize(960, 540);
constexpr double kAnimationSeconds = 12;

Error nothing(const char* why) { return Error{ErrorKind::InvalidSpec, why, {}}; }

constexpr double kPixelsPerPoint = 2;  // of pictures, which are shown on slides and in print

/// The timeline as it stands, with its legend below.
class Sheet {
 public:
  Sheet(const Session& session, const TimelineView& timeline)
      : timeline_(timeline), text_(text_size(timeline.font())) {
    if (!session.run()) return;
    legend_ =
        draw_legend(looks_of(*session.run()), causes_of(*session.run()), timeline.width(), text_);
  }
  QSize size() const {
    const double below = legend_.fills.empty() ? 0 : std::ceil(legend_.fills.front().height);
    return {timeline_.width(), timeline_.height() + static_cast<int>(below)};
  }
  void paint_with(QPainter& painter) const {
    paint(painter, timeline_.picture(), timeline_.theme(), timeline_.font());
    painter.translate(0, timeline_.height());
    paint(painter, legend_, timeline_.theme(), timeline_.font());
  }

 private:
  const TimelineView& timeline_;
  TextSize text_;
  DisplayList legend_;
};

Result<Job> png(const Session& session, TimelineView& timeline, const QString& path) {
  const Sheet sheet(session, timeline);
  QImage image(sheet.size() * kPixelsPerPoint, QImage::Format_RGB32);
  image.setDevicePixelRatio(kPixelsPerPoint);
  image.fill(timeline.theme().color(Ink::Background));
  {
    QPainter painter(&image);
    sheet.paint_with(painter);
  }
  return Job([image, path]() -> Result<void> {
    QBuffer buffer;
    image.save(&buffer, "PNG");
    return write_file(path.toStdString(), buffer.data().toStdString());
  });
}

Result<Job> svg(const Session& session, TimelineView& timeline, const QString& path) {
  QBuffer buffer;
  QSvgGenerator generator;
  generator.setOutputDevice(&buffer);
  const Sheet sheet(session, timeline);
  generator.setSize(sheet.size());
  generator.setViewBox(QRect(QPoint(), sheet.size()));
  if (session.run()) generator.setTitle(QString::fromStdString(session.run()->title));
  QPainter painter(&generator);
  sheet.paint_with(painter);
  painter.end();
  return Job(
      [text = buffer.data().toStdString(), path] { return write_file(path.toStdString(), text); });
}

/// A job that writes the step at the cursor as an animation.
template <class Encode>
Result<Job> animation(const Session& session, TimelineView& timeline, const QString& path,
                      Encode encode) {
  const RunPtr run = session.run();
  const StepAnalysis* step = run ? step_at(*run, session.cursor()) : nullptr;
  if (!step) return nothing("nothing is open that has a step to play");
  return Job([run, step, path, encode, theme = timeline.theme(), font = timeline.font()] {
    const Animation frames =
        animate(*run, *step, kAnimationSize, kAnimationSeconds, text_size(font));
    return write_file(path.toStdString(), encode(frames, run->title, theme, font));
  });
}

Result<Job> animated_svg(const Session& session, TimelineView& timeline, const QString& path) {
  return animation(session, timeline, path, moving_svg);
}

Result<Job> apng(const Session& session, TimelineView& timeline, const QString& path) {
  return animation(session, timeline, path,
                   [](const Animation& frames, const std::string&, const Theme& theme,
                      const QFont& font) { return animated_png(frames, 1, theme, font); });
}

Result<Job> perfetto(const Session& session, TimelineView&, const QString& path) {
  if (!session.run()) return nothing("nothing is open");
  return Job([run = session.run(), path] {
    Trace trace = run->trace;
    trace.memory = run->memory();
    return write_chrome_trace(trace, path.toStdString());
  });
}

Result<Job> spans(const Session& session, TimelineView&, const QString& path) {
  if (!session.run()) return nothing("nothing is open");
  return Job(
      [run = session.run(), path] { return write_span_csv(run->trace, path.toStdString()); });
}

Result<Job> schedule(const Session& session, TimelineView&, const QString& path) {
  const RunPtr run = session.run();
  if (!run || !run->scenario || run->scenario->strategy.pipeline_parallel_degree < 2) {
    return nothing("only a scenario with pipeline stages has a schedule");
  }
  return Job([run, path] {
    return write_file(path.toStdString(), print_schedule_csv(lower_schedule(*run->scenario)));
  });
}

}  // namespace

const std::vector<Export>& export_list() {
  static const std::vector<Export> list = {
      {"Timeline as SVG", "Ctrl+E", "timeline.svg", "Vector pictures (*.svg)", svg},
      {"Timeline as PNG", "", "timeline.png", "Pictures (*.png)", png},
      {"Animation as SVG", "", "step.svg", "Vector pictures (*.svg)", animated_svg},
      {"Animation as PNG", "", "step.png", "Animated pictures (*.png *.apng)", apng},
      {"Trace for Perfetto", "", "trace.json.gz", "Chrome traces (*.json.gz *.json)", perfetto},
      {"Spans as CSV", "", "spans.csv", "Tables (*.csv *.csv.gz)", spans},
      {"Pipeline schedule as PyTorch's CSV", "", "schedule.csv", "Tables (*.csv)", schedule},
  };
  return list;
}

const Export* animation_export(const QString& path) {
  const bool picture = path.endsWith(".png") || path.endsWith(".apng");
  if (!picture && !path.endsWith(".svg")) return nullptr;
  for (const Export& row : export_list()) {
    if (row.prepare == (picture ? apng : animated_svg)) return &row;
  }
  return nullptr;
}

}  // namespace lockstep::gui
