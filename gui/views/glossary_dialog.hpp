// GlossaryDialog: the terms that the application uses, with a line to find one.
#pragma once

#include <QDialog>
#include <QTextBrowser>

namespace lockstep::gui {

/// Does not block the window, and deletes itself when it is closed.
class GlossaryDialog : public QDialog {
 public:
  explicit GlossaryDialog(QWidget* parent = nullptr);

  /// Scrolls to the first term that begins with `term`, ignoring case; false if there is none.
  bool show_term(const QString& term);
  const QTextBrowser& page() const { return *page_; }

 private:
  QTextBrowser* page_;
};

}  // namespace lockstep::gui
