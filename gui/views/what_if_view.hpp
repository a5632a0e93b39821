// WhatIfView: the scenario as sliders and as text. Every change is simulated immediately.
#pragma once

#include <QElapsedTimer>
#include <QWidget>
#include <vector>

#include "gui/model/form/scenario_form.hpp"
#include "gui/model/run/latest.hpp"
#include "gui/model/session.hpp"

class QCheckBox;
class QComboBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QListWidget;
class QPlainTextEdit;
class QPushButton;
class QSlider;
class QTabWidget;
class QToolButton;
class QVBoxLayout;

namespace lockstep::gui {

class WhatIfView final : public QWidget {
 public:
  explicit WhatIfView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {380, 600}; }
  bool busy() const { return fields_.busy(); }  // whether values of fields are being tried
  /// Leaves the wheel to the form, which it scrolls, where the mouse is over a slider or a list,
  /// and the keys of undo and redo to the window, where the text would take them.
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  /// One row of the form: a slider, a list of names, or a check box.
  struct Control {
    QSlider* slider = nullptr;
    QComboBox* choice = nullptr;
    QCheckBox* toggle = nullptr;
    QLineEdit* value = nullptr;    // the number, which can be typed
    QPushButton* reset = nullptr;  // goes back to the value of the text
    QWidget *row = nullptr, *label = nullptr;
    std::size_t group = 0;  // in groups_
    FieldState state;
  };

  QWidget* make_form();
  QWidget* make_text();
  QWidget* make_buttons();
  void on_document();
  void show_fields(std::vector<FieldState> states);
  void show_errors();
  void on_typed();
  void set(std::size_t field, int at);
  void type(std::size_t field);
  QFormLayout* add_group(QVBoxLayout& column, const QString& name);
  void fold_groups();

  Session& session_;
  std::vector<Control> controls_;     // by form_fields()
  std::vector<QToolButton*> groups_;  // headings
  std::string folded_for_;            // the file for which groups were folded
  QLabel* changes_ = nullptr;
  QPushButton *undo_ = nullptr, *redo_ = nullptr, *text_values_ = nullptr, *command_ = nullptr;
  QTabWidget* tabs_;
  QWidget* buttons_;
  QLabel* nothing_;
  QPlainTextEdit* editor_ = nullptr;
  std::string edited_file_;         // whose text the editor has
  int typed_line_ = 0, typed_ = 0;  // where the user typed last; counts the steps of undo
  QElapsedTimer since_typed_;
  QListWidget* errors_ = nullptr;
  Latest fields_;  // the last member, so that it stops before the others are destroyed
};

}  // namespace lockstep::gui
