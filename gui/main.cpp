// lockstep-gui: the main function of the desktop application.
#include <QApplication>
#include <QCommandLineParser>
#include <QDir>
#include <QSettings>
#include <QStandardPaths>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "backends/version.hpp"
#include "gui/views/main_window.hpp"
#include "gui/views/screenshot.hpp"
#include "gui/views/search_view.hpp"
#include "gui/views/style.hpp"
#include "gui/views/view_list.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::gui;

int usage_error(const QString& message) {
  std::fprintf(stderr, "lockstep-gui: %s\n", qPrintable(message));
  return exit_code(ErrorKind::InvalidSpec);
}

/// Whether a file is asked for instead of a window.
bool is_screenshot(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--screenshot") || argument.starts_with("--animate")) return true;
  }
  return false;
}

std::optional<QSize> parse_size(const QString& text) {
  const QStringList parts = text.split('x');
  if (parts.size() != 2) return std::nullopt;
  const QSize size(parts[0].toInt(), parts[1].toInt());
  if (size.width() < 200 || size.height() < 150 || size.width() > 16000 || size.height() > 16000) {
    return std::nullopt;
  }
  return size;
}

}  // namespace

int main(int argc, char** argv) {
  const bool headless = qEnvironmentVariableIsEmpty("DISPLAY") &&
                        qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY") &&
                        qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM");
  if (is_screenshot(argc, argv)) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
  } else if (headless) {
    return usage_error("no display: set DISPLAY, or use --screenshot OUT.png or --animate OUT.svg");
  }
  QApplication application(argc, argv);
  QApplication::setApplicationName("lockstep");
  QApplication::setOrganizationName("lockstep");
  QApplication::setApplicationVersion(kBuildFacts.version);
  QApplication::setStyle(new Style);

  QCommandLineParser parser;
  parser.setApplicationDescription("Shows what distributed training does, simulated and real.");
  parser.addHelpOption();
  const QCommandLineOption version({"v", "version"}, "version, commit and backends");
  parser.addOption(version);
  parser.addPositionalArgument(
      "file", "scenario (.toml), run folder, trace, program (.program) or schedule (.csv)",
      "[file...]");
  QStringList names;
  for (const ViewEntry& view : view_list()) names << view.name;
  const QCommandLineOption screenshot("screenshot", "render into a PNG file and exit", "OUT.png");
  const QCommandLineOption animate(
      "animate", "write the step as an animation (.svg, or an animated .png) and exit", "OUT");
  const QCommandLineOption size("size", "size of the window", "WxH");
  const QCommandLineOption theme("theme", "light or dark", "NAME");
  const QCommandLineOption view("view", "bring a view to the front: " + names.join(", "), "NAME");
  const QCommandLineOption alone("alone", "the screenshot is of that view only");
  const QCommandLineOption at("at", "where the cursor stands: seconds from the begin, or NN%",
                              "TIME");
  const QCommandLineOption find("find", "select the first span that a search finds", "WORDS");
  const QCommandLineOption path("critical-path", "mark the critical path");
  const QCommandLineOption set("set", "put section.key=value over the scenario", "KEY=VALUE");
  const QCommandLineOption search("search", "search the layouts of the scenario's cluster");
  parser.addOptions({screenshot, animate, size, theme, view, alone, at, find, path, set, search});
  parser.process(application);
  if (parser.isSet(version)) {
    std::printf("%s\n", version_text("lockstep-gui").c_str());
    return 0;
  }

  const bool sized = parser.isSet(size);
  const std::optional<QSize> window_size =
      parse_size(sized ? parser.value(size) : QString("1600x900"));
  if (!window_size) {
    return usage_error("--size " + parser.value(size) + ": write WIDTHxHEIGHT, say 1600x900");
  }
  const QString theme_name = parser.value(theme);
  if (!theme_name.isEmpty() && theme_name != "light" && theme_name != "dark") {
    return usage_error("--theme " + theme_name + ": light or dark");
  }

  const QStringList files = parser.positionalArguments();
  const bool scenario = std::any_of(files.begin(), files.end(), [](const QString& file) {
    return kind_of_path(file.toStdString()) == FileKind::Scenario;
  });
  if (parser.isSet(set) && !scenario) {
    return usage_error("--set " + parser.value(set) + ": no scenario is opened");
  }
  if (parser.isSet(search) && !scenario) return usage_error("--search: no scenario is opened");

  const bool writes = parser.isSet(screenshot) || parser.isSet(animate);
  Session session;
  MainWindow window(session);
  if (sized || writes) window.resize(*window_size);
  QSettings settings;
  if (writes) {
    window.set_theme(false);  // independent of what the last session left
    window.reset_layout();
  } else {
    window.remember(settings);
    if (sized) window.resize(*window_size);
  }
  if (!theme_name.isEmpty()) window.set_theme(theme_name == "dark");
  for (const QString& name : parser.values(view)) {
    if (window.show_view(name.toStdString())) continue;
    return usage_error("--view " + name + ": one of " + names.join(", "));
  }
  if (parser.isSet(view)) window.keep_views_in_front();
  if (!writes) {
    const QDir folder(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation));
    const QString reopened = window.keep_changes_in(folder.filePath("unsaved"));
    window.show();
    for (const QString& file : files) {
      window.open(file);
      set_over_scenario(session, file, parser.values(set));
    }
    if (!reopened.isEmpty()) window.tell(reopened);
    if (parser.isSet(search)) static_cast<SearchView*>(window.view("search"))->start();
    return QApplication::exec();
  }
  ScreenshotOptions options;
  options.file = parser.value(screenshot);
  options.animate = parser.value(animate);
  options.open = files;
  options.set = parser.values(set);
  options.view = parser.isSet(alone) ? parser.value(view).toStdString() : "";
  options.find = parser.value(find).toStdString();
  options.critical_path = parser.isSet(path);
  options.search = parser.isSet(search);
  options.at = parser.value(at).toStdString();
  if (const Result<void> done = take_screenshot(window, session, options); !done) {
    return std::fprintf(stderr, "%s\n", to_string(done.error()).c_str()),
           exit_code(done.error().kind);
  }
  return 0;
}
