// Legend: says which colour, letter and pattern stand for which kind, for the kinds that the run
// has.
#pragma once

#include "gui/model/session.hpp"
#include "gui/views/canvas.hpp"

namespace lockstep::gui {

/// Draws boxes with their names from left to right, in as many lines as the width asks for: the
/// kinds, then the causes of bubbles.
DisplayList draw_legend(const std::vector<Look>& looks, const std::vector<BubbleCause>& causes,
                        double width, const TextSize& text);

/// The kinds that occur in the run, in the order of Look.
std::vector<Look> looks_of(const RunView& run);

/// The causes that bubbles of the run have.
std::vector<BubbleCause> causes_of(const RunView& run);

class Legend final : public Canvas {
 public:
  explicit Legend(Session& session, QWidget* parent = nullptr);

 protected:
  DisplayList draw() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void take_height();
  std::vector<Look> looks_;
  std::vector<BubbleCause> causes_;
};

}  // namespace lockstep::gui
