#include "gui/views/command.hpp"

#include <QGuiApplication>
#include <QKeyEvent>

namespace lockstep::gui {
namespace {

/// The physical key of an event. On X11 and Wayland, the scan code is evdev's key code plus 8.
int key_of(const QKeyEvent& event) {
  const QString platform = QGuiApplication::platformName();
  if (platform != "xcb" && platform != "wayland") return event.key();
  switch (event.nativeScanCode()) {
    case 25:
      return Qt::Key_W;
    case 38:
      return Qt::Key_A;
    case 39:
      return Qt::Key_S;
    case 40:
      return Qt::Key_D;
    default:
      return event.key();
  }
}

}  // namespace

bool run_command(const std::vector<Command>& commands, const QKeyEvent& event) {
  const int key = key_of(event);
  Qt::KeyboardModifiers modifiers = event.modifiers() & ~Qt::KeypadModifier;
  const bool letter = key >= Qt::Key_A && key <= Qt::Key_Z;
  // Shift is ignored for signs, because "?" needs it on some keyboards and not on others.
  if (!letter && key > Qt::Key_Space && key < Qt::Key_Escape) modifiers &= ~Qt::ShiftModifier;
  const QKeySequence pressed(QKeyCombination(modifiers, static_cast<Qt::Key>(key)));
  for (const Command& command : commands) {
    for (const QKeySequence& sequence : command.keys) {
      if (sequence.matches(pressed) != QKeySequence::ExactMatch) continue;
      command.run();
      return true;
    }
  }
  return false;
}

}  // namespace lockstep::gui
