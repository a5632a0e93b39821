// UTF-8 text of the model as Qt's widgets take it.
#pragma once

#include <QString>
#include <string>

namespace lockstep::gui {

inline QString qt(const std::string& text) { return QString::fromStdString(text); }

}  // namespace lockstep::gui
