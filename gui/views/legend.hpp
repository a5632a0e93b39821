// Legend: says which colour, letter and pattern stand for which kind, for the kinds that the run
// has.
#pragma once

#include "gui/model/session.hpp"
#include "gui/views/canvas.hpp"

namespace lockstep::gui {

/// Draws boxes with their names from left to right, as many as fit into `size`.
DisplayList draw_legend(const std::vector<Look>& looks, QSizeF size, const TextSize& text);

/// The kinds that occur in the run, in the order of Look.
std::vector<Look> looks_of(const RunView& run);

class Legend final : public Canvas {
 public:
  explicit Legend(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override;

 protected:
  DisplayList draw() const override;

 private:
  std::vector<Look> looks_;
};

}  // namespace lockstep::gui
