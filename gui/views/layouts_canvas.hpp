// LayoutsCanvas: the layouts of a search as points, of which one is chosen by a click and opened by
// a double click.
#pragma once

#include <functional>
#include <vector>

#include "gui/draw/layouts_drawing.hpp"
#include "gui/views/canvas.hpp"

namespace lockstep::gui {

class LayoutsCanvas final : public Canvas {
 public:
  explicit LayoutsCanvas(QWidget* parent = nullptr);
  QSize sizeHint() const override { return {700, 240}; }
  /// Shows these rows. `lost` are families without one.
  void set(std::vector<LayoutRow> rows, std::vector<LostFamily> lost, Bytes capacity);
  /// The row that is marked; -1: none.
  void choose(int row);
  LayoutsFrame frame() const;

  std::function<void(int row)> on_chosen, on_opened;

 protected:
  DisplayList draw() const override;
  DisplayList draw_overlay() const override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;

 private:
  std::vector<LayoutRow> rows_;
  std::vector<LostFamily> lost_;
  Bytes capacity_;
  int chosen_ = -1;
};

}  // namespace lockstep::gui
