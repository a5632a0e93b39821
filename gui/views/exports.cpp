#include "gui/views/exports.hpp"

#include <QBuffer>
#include <QPainter>
#include <QPixmap>
#include <QSvgGenerator>

#include "core/lower/lower.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/chrome_trace.hpp"
#include "core/trace/span_csv.hpp"
#include "gui/draw/painter.hpp"
#include "gui/views/timeline_view.hpp"

namespace lockstep::gui {
namespace {

using Job = Export::Job;

Error nothing(const char* why) { return Error{ErrorKind::InvalidSpec, why, {}}; }

Result<Job> png(const Session&, TimelineView& timeline, const QString& path) {
  return Job([image = timeline.grab().toImage(), path]() -> Result<void> {
    if (image.save(path, "PNG")) return {};
    return Error{ErrorKind::Device, path.toStdString() + " cannot be written", {}};
  });
}

Result<Job> svg(const Session& session, TimelineView& timeline, const QString& path) {
  QBuffer buffer;
  QSvgGenerator generator;
  generator.setOutputDevice(&buffer);
  generator.setSize(timeline.size());
  generator.setViewBox(timeline.rect());
  if (session.run()) generator.setTitle(QString::fromStdString(session.run()->title));
  QPainter painter(&generator);
  paint(painter, timeline.picture(), timeline.theme(), timeline.font());
  painter.end();
  return Job(
      [text = buffer.data().toStdString(), path] { return write_file(path.toStdString(), text); });
}

Result<Job> perfetto(const Session& session, TimelineView&, const QString& path) {
  if (!session.run()) return nothing("nothing is open");
  return Job(
      [run = session.run(), path] { return write_chrome_trace(run->trace, path.toStdString()); });
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
      {"Trace for Perfetto", "", "trace.json.gz", "Chrome traces (*.json.gz *.json)", perfetto},
      {"Spans as CSV", "", "spans.csv", "Tables (*.csv *.csv.gz)", spans},
      {"Pipeline schedule as PyTorch's CSV", "", "schedule.csv", "Tables (*.csv)", schedule},
  };
  return list;
}

}  // namespace lockstep::gui
