#include "gui/views/signs.hpp"

#include <QAbstractButton>
#include <QEvent>

namespace lockstep::gui {
namespace {

/// Draws the icon again when the colours change. It belongs to the button.
class SignKeeper final : public QObject {
 public:
  SignKeeper(QAbstractButton& button, Sign sign) : QObject(&button), button_(button), sign_(sign) {
    setObjectName("sign");
    button.installEventFilter(this);
    draw();
  }
  void show(Sign sign) {
    sign_ = sign;
    draw();
  }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::PaletteChange) draw();
    return QObject::eventFilter(watched, event);
  }

 private:
  void draw() { button_.setIcon(icon_of(sign_, button_.palette())); }

  QAbstractButton& button_;
  Sign sign_;
};

}  // namespace

void set_sign(QAbstractButton& button, Sign sign) {
  QObject* known = button.findChild<QObject*>("sign", Qt::FindDirectChildrenOnly);
  if (known) {
    static_cast<SignKeeper*>(known)->show(sign);
  } else {
    new SignKeeper(button, sign);
  }
}

}  // namespace lockstep::gui
