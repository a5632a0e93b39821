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
  void fill();
  void add_section(const char* title, const SpanArguments& rows);

  Session& session_;
  SpanArguments arguments_;  // of the selected span, once they are read
  Latest reading_;           // the last member, so that it stops before the others are destroyed
};

}  // namespace lockstep::gui
