#include "gui/views/plain_labels.hpp"

#include <QApplication>
#include <QEvent>
#include <QLabel>

namespace lockstep::gui {
namespace {

/// Sees every label, those of tool tips and message boxes too, before it is shown first.
class PlainLabels final : public QObject {
 public:
  using QObject::QObject;
  bool eventFilter(QObject* object, QEvent* event) override {
    if (event->type() == QEvent::Polish) {
      auto* const label = qobject_cast<QLabel*>(object);
      if (label && label->textFormat() == Qt::AutoText) label->setTextFormat(Qt::PlainText);
    }
    return QObject::eventFilter(object, event);
  }
};

}  // namespace

void make_labels_plain() {
  static PlainLabels* const labels = new PlainLabels(qApp);
  qApp->installEventFilter(labels);  // again: it is moved to the front
}

}  // namespace lockstep::gui
