// qt: converts the model's UTF-8 text to what Qt's widgets take.
#pragma once

#include <QString>
#include <string>

namespace lockstep::gui {

inline QString qt(const std::string& text) { return QString::fromStdString(text); }

}  // namespace lockstep::gui
