// MemoryView: the memory of a rank over time, and its arena at the cursor.
#pragma once

#include <QWidget>

#include "gui/model/run/latest.hpp"
#include "gui/model/run/memory_model.hpp"
#include "gui/model/session.hpp"

class QComboBox;
class QLabel;

namespace lockstep::gui {

class MemoryView final : public QWidget {
 public:
  explicit MemoryView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {800, 320}; }
  Rank rank() const;
  const MemoryModel& model() const { return model_; }
  /// Whether the picture shows each block at its address, or the bytes of each kind.
  bool shows_blocks() const;

 private:
  class Picture;

  void on_run();
  void read_memory();
  void show_next();

  Session& session_;
  QComboBox* ranks_;
  QComboBox* shown_;
  QLabel* next_;
  Picture* picture_;
  MemoryModel model_;
  std::vector<MemoryModel> others_;  // A and B, and other runs of the same program
  Latest reading_;  // the last member, so that it stops before the others are destroyed
};

}  // namespace lockstep::gui
