#include "gui/views/screenshot.hpp"

#include <QCoreApplication>
#include <QEventLoop>
#include <QPixmap>
#include <charconv>

#include "gui/views/search_view.hpp"
#include "gui/views/timeline_panel.hpp"
#include "gui/views/timeline_view.hpp"

namespace lockstep::gui {
namespace {

void wait_until_idle(Session& session) {
  while (session.busy() || Latest::any_busy()) {
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
  }
  QCoreApplication::processEvents();
}

}  // namespace

Result<SimTime> parse_time(const std::string& text, const RunView& run) {
  const bool percent = text.ends_with("%");
  double value = 0;
  const char* last = text.data() + text.size() - (percent ? 1 : 0);
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) {
    return Error{ErrorKind::InvalidSpec, "'" + text + "' is neither seconds nor NN%", {}};
  }
  const SimTime begin = run.lanes.begin(), length = run.lanes.end() - begin;
  return begin +
         (percent ? to_sim_time((value / 100) * to_seconds(length)) : to_sim_time(Seconds{value}));
}

void set_over_scenario(Session& session, const QString& file, const QStringList& values) {
  const bool scenario = kind_of_path(file.toStdString()) == FileKind::Scenario;
  if (values.isEmpty() || !scenario || !session.has_document()) return;
  Document document = session.document();
  for (const QString& value : values) put_override(document.overrides, value.toStdString());
  session.edit(std::move(document));
}

Result<void> take_screenshot(MainWindow& window, Session& session,
                             const ScreenshotOptions& options) {
  window.show();
  QString failure;
  QObject::connect(&session, &Session::failed, &window, [&](const QString& m) { failure = m; });
  for (const QString& file : options.open) {
    session.open(file.toStdString());
    set_over_scenario(session, file, options.set);
    wait_until_idle(session);
    if (!failure.isEmpty()) return Error{ErrorKind::InvalidSpec, failure.toStdString(), {}};
    if (!session.errors().empty()) return session.errors().front();
  }
  for (const QString& name : options.views) window.show_view(name.toStdString());
  if (!options.at.empty()) {
    if (!session.run()) return Error{ErrorKind::InvalidSpec, "--at: nothing is open", {}};
    const Result<SimTime> time = parse_time(options.at, *session.run());
    if (!time) return time.error();
    session.set_cursor(*time);
  }
  TimelineView& timeline = static_cast<TimelinePanel*>(window.centralWidget())->timeline();
  timeline.show_critical_path(options.critical_path);
  if (!options.find.empty() && !timeline.find(options.find, true)) {
    return Error{ErrorKind::InvalidSpec, "--find: no span is '" + options.find + "'", {}};
  }
  if (options.search) static_cast<SearchView*>(window.view("search"))->start();
  wait_until_idle(session);
  if (!options.animate.isEmpty()) {
    const Export* kind = animation_export(options.animate);
    if (!kind) {
      return Error{ErrorKind::InvalidSpec,
                   "--animate " + options.animate.toStdString() + ": end it with .svg or .png",
                   {}};
    }
    Result<Export::Job> job = kind->prepare(session, timeline, options.animate);
    return job ? (*job)() : job.error();
  }
  QWidget* widget = &window;
  if (!options.view.empty()) widget = window.view(options.view);
  if (!widget->grab().save(options.file)) {
    return Error{ErrorKind::Device, options.file.toStdString() + " cannot be written", {}};
  }
  return {};
}

}  // namespace lockstep::gui
