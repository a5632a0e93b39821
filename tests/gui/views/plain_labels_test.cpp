#include "gui/views/plain_labels.hpp"

#include <QApplication>
#include <QLabel>
#include <QMessageBox>
#include <QToolTip>

#include "tests/catch.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {

TEST_CASE("a text that looks like HTML is shown as it is", "[gui][views]") {
  test::application();
  make_labels_plain();
  const QString text = "<b>bold</b><img src=x>";
  QLabel label(text);
  label.show();
  CHECK(label.textFormat() == Qt::PlainText);
  QLabel own("<b>own</b>");
  own.setTextFormat(Qt::RichText);
  own.show();
  CHECK(own.textFormat() == Qt::RichText);
  QMessageBox box(QMessageBox::Warning, "title", text);
  box.show();
  for (const QLabel* part : box.findChildren<QLabel*>()) CHECK(part->textFormat() == Qt::PlainText);
  QToolTip::showText(label.mapToGlobal(QPoint(1, 1)), text, &label);
  int tips = 0;
  for (QWidget* widget : QApplication::topLevelWidgets()) {
    if (!widget->inherits("QTipLabel")) continue;
    CHECK(qobject_cast<QLabel*>(widget)->textFormat() == Qt::PlainText);
    ++tips;
  }
  CHECK(tips == 1);
}

}  // namespace lockstep::gui
