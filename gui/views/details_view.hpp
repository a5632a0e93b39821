// DetailsView: everything about the selected span, and links to its neighbours.
#pragma once

#include <QTreeWidget>

#include "gui/model/session.hpp"

namespace lockstep::gui {

class DetailsView final : public QTreeWidget {
 public:
  explicit DetailsView(Session& session, QWidget* parent = nullptr);

 private:
  void show_selection();
  Session& session_;
};

}  // namespace lockstep::gui
