#include "gui/views/unsaved.hpp"

#include <QFileDialog>
#include <QFileInfo>
#include <QMessageBox>
#include <QPushButton>
#include <QRegularExpression>

#include "core/scenario/shipped.hpp"
#include "gui/views/qt_text.hpp"

namespace lockstep::gui {

QString ask_where_to_write(QWidget* parent, const QString& title, const QString& name,
                           const QString& filter) {
  QFileDialog dialog(parent, title, QFileInfo(name).path(), filter);
  dialog.setAcceptMode(QFileDialog::AcceptSave);
  dialog.selectFile(name);
  const qsizetype star = filter.indexOf("*.");
  dialog.setDefaultSuffix(filter.mid(star + 2).section(QRegularExpression("[ ;)]"), 0, 0));
  return dialog.exec() == QDialog::Accepted ? dialog.selectedFiles().value(0) : QString();
}

namespace {

enum class Overwrite { Yes, OtherName, No };

Overwrite ask_to_overwrite(QWidget* parent, const QString& path) {
  using Box = QMessageBox;
  Box box(Box::Warning, "Changed by another program",
          path +
              " has other content than when it was read here. Saving replaces what another "
              "program, or another window, has written.",
          Box::Save | Box::Discard | Box::Cancel, parent);
  box.button(Box::Save)->setText("Save &as…");
  box.button(Box::Discard)->setText("&Overwrite");
  box.setDefaultButton(Box::Save);
  const int answer = box.exec();
  if (answer == Box::Save) return Overwrite::OtherName;
  return answer == Box::Discard ? Overwrite::Yes : Overwrite::No;
}

}  // namespace

bool save_document(QWidget* parent, Session& session, bool other_name, QString& error) {
  QString path = qt(session.path());
  if (!other_name && session.is_changed_elsewhere()) {
    const Overwrite answer = ask_to_overwrite(parent, path);
    if (answer == Overwrite::No) return false;
    other_name = answer == Overwrite::OtherName;
  }
  if (other_name || !session.has_own_file()) {
    // What came with Lockstep lies where nobody looks for files of their own.
    if (path.isEmpty()) path = "scenario.toml";
    if (is_shipped(path.toStdString())) path = QFileInfo(path).fileName();
    path = ask_where_to_write(parent, "Save the scenario", path, "Scenarios (*.toml)");
  }
  if (path.isEmpty()) return false;
  const Result<void> saved = session.save(path.toStdString());
  if (!saved) error = qt(to_string(saved.error()));
  return saved.ok();
}

bool may_close(QWidget* parent, Session& session, const OpenItem& item) {
  if (!item.modified) return true;
  session.show(item);  // so that the user sees what is asked about
  using Box = QMessageBox;
  const auto answer =
      Box::question(parent, "Unsaved changes",
                    qt(item.title) + " has changes that are not saved, in its text or sliders.",
                    Box::Save | Box::Discard | Box::Cancel, Box::Save);
  if (answer != Box::Save) return answer == Box::Discard;
  QString error;
  const bool saved = save_document(parent, session, false, error);
  if (!error.isEmpty()) Box::warning(parent, "Not saved", error);
  return saved;
}

bool may_close_all(QWidget* parent, Session& session) {
  for (const OpenItem& item : session.items()) {
    if (!may_close(parent, session, item)) return false;
  }
  return true;
}

}  // namespace lockstep::gui
