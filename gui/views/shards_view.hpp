// ShardsView: shows what part of the model each rank of the mesh keeps, and what it has gathered at
// the cursor.
#pragma once

#include "gui/model/run/latest.hpp"
#include "gui/model/run/shards_model.hpp"
#include "gui/model/session.hpp"
#include "gui/views/canvas.hpp"

namespace lockstep::gui {

class ShardsView final : public Canvas {
 public:
  explicit ShardsView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {800, 320}; }
  const ShardsModel& model() const { return model_; }

 protected:
  DisplayList draw() const override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  DisplayList legend() const;
  QRectF field() const;
  void on_run();

  Session& session_;
  ShardsModel model_;
  Latest reading_;  // the last member, so that it stops before the others are destroyed
};

}  // namespace lockstep::gui
