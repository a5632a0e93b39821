#include "gui/views/unsaved.hpp"

#include <QFileDialog>
#include <QMessageBox>

#include "gui/views/qt_text.hpp"

namespace lockstep::gui {

bool save_document(QWidget* parent, Session& session, bool other_name, QString& error) {
  QString path = qt(session.path());
  if (other_name || path.isEmpty()) {
    path = QFileDialog::getSaveFileName(parent, "Save the scenario", path, "Scenarios (*.toml)");
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
