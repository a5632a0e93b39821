#include "gui/views/what_if_view.hpp"

#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QFontDatabase>
#include <QFormLayout>
#include <QGridLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QSlider>
#include <QTabWidget>
#include <QTextBlock>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "gui/draw/theme.hpp"
#include "gui/views/qt_text.hpp"

namespace lockstep::gui {
namespace {

constexpr int kPauseMs = 2000;  // who stops typing for that long has ended a thought

QTextEdit::ExtraSelection mark(QTextDocument& document, int line, const QColor& color) {
  QTextEdit::ExtraSelection selection;
  selection.cursor = QTextCursor(document.findBlockByNumber(line - 1));
  selection.format.setProperty(QTextFormat::FullWidthSelection, true);
  QColor wash = color;
  wash.setAlpha(60);
  selection.format.setBackground(wash);
  return selection;
}

/// The text in the editor, to the character: toPlainText() makes plain spaces of no-break ones.
QString text_of(const QPlainTextEdit& editor) {
  return editor.document()->toRawText().replace(QChar::ParagraphSeparator, '\n');
}

/// Changes only what differs, and shows it, so that the view stays where the user is.
void put_text(QPlainTextEdit& editor, const QString& text) {
  const QString before = text_of(editor);
  if (before == text) return;
  const qsizetype shorter = std::min(before.size(), text.size());
  qsizetype same = 0, behind = 0;
  while (same < shorter && before[same] == text[same]) ++same;
  if (same > 0 && before[same - 1].isHighSurrogate()) --same;
  while (behind < shorter - same &&
         before[before.size() - behind - 1] == text[text.size() - behind - 1]) {
    ++behind;
  }
  if (behind > 0 && before[before.size() - behind].isLowSurrogate()) --behind;
  QTextCursor cursor(editor.document());
  cursor.setPosition(static_cast<int>(same));
  cursor.setPosition(static_cast<int>(before.size() - behind), QTextCursor::KeepAnchor);
  cursor.insertText(text.mid(same, text.size() - behind - same));
  editor.setTextCursor(cursor);
}

/// What holds the longest of the words that the form has for values, and the entry's frame.
int entry_width(const QFontMetrics& font) {
  int widest = 0;
  for (const FormField& field : form_fields()) {
    for (const auto& [value, words] : field.words) {
      widest = std::max(widest, font.horizontalAdvance(qt(words)));
    }
  }
  return widest + 12;
}

}  // namespace

WhatIfView::WhatIfView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      tabs_(new QTabWidget),
      buttons_(make_buttons()),
      nothing_(new QLabel("Open a scenario to vary it: File ▸ Open.")),
      fields_(*this) {
  tabs_->setAccessibleName("Sliders or text");
  setAccessibleName("What if");
  tabs_->addTab(make_form(), "Sliders");
  tabs_->addTab(make_text(), "Text");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(4, 4, 4, 4);
  nothing_->setAlignment(Qt::AlignCenter);
  nothing_->setWordWrap(true);
  layout->addWidget(nothing_, 1);
  layout->addWidget(tabs_, 1);
  layout->addWidget(buttons_);
  connect(&session, &Session::documentChanged, this, [this] { on_document(); });
  connect(&session, &Session::errorsChanged, this, [this] { show_errors(); });
  on_document();
}

// ---------------------------------------------------------------- what it is made of

QWidget* WhatIfView::make_form() {
  auto* form = new QWidget;
  auto* column = new QVBoxLayout(form);
  QFormLayout* rows = nullptr;
  std::string group;
  for (std::size_t i = 0; i < form_fields().size(); ++i) {
    const FormField& field = form_fields()[i];
    if (field.group != group) {
      group = field.group;
      rows = add_group(*column, qt(group));
    }
    Control control;
    control.row = new QWidget;
    auto* line = new QHBoxLayout(control.row);
    line->setContentsMargins(0, 0, 0, 0);
    if (field.kind == FormKind::Switch) {
      control.toggle = new QCheckBox;
      control.toggle->setAccessibleName(qt(field.label));
      connect(control.toggle, &QCheckBox::clicked, this, [this, i](bool on) { set(i, on); });
      line->addWidget(control.toggle, 1);
    } else if (field.kind == FormKind::Names) {
      control.choice = new QComboBox;
      control.choice->installEventFilter(this);
      control.choice->setAccessibleName(qt(field.label));
      connect(control.choice, &QComboBox::activated, this, [this, i](int at) { set(i, at); });
      line->addWidget(control.choice, 1);
    } else {
      control.slider = new QSlider(Qt::Horizontal);
      control.slider->installEventFilter(this);
      control.slider->setAccessibleName(qt(field.label));
      control.slider->setPageStep(1);
      control.value = new QLineEdit;
      control.value->setAccessibleName(qt(field.label + ", typed"));
      control.value->setFixedWidth(entry_width(control.value->fontMetrics()));
      connect(control.value, &QLineEdit::editingFinished, this, [this, i] { type(i); });
      connect(control.slider, &QSlider::valueChanged, this, [this, i](int at) { set(i, at); });
      connect(control.slider, &QSlider::sliderReleased, this, [this] { on_document(); });
      line->addWidget(control.slider, 1);
      line->addWidget(control.value);
    }
    control.reset = new QPushButton("↺");
    control.reset->setFixedWidth(fontMetrics().horizontalAdvance("↺") + 16);
    control.reset->setToolTip("Back to the text's own value");
    control.reset->setAccessibleName(qt("Reset " + field.label));
    connect(control.reset, &QPushButton::clicked, this,
            [this, i] { session_.set_override(form_fields()[i].key, std::nullopt); });
    line->addWidget(control.reset);
    control.row->setToolTip(qt(field.help + "\n" + field.key));
    rows->addRow(qt(field.label), control.row);
    control.label = rows->labelForField(control.row);
    control.group = groups_.size() - 1;
    controls_.push_back(std::move(control));
  }
  column->addStretch();
  auto* scroll = new QScrollArea;
  scroll->setFocusPolicy(Qt::NoFocus);  // it follows the control that has the keyboard
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidget(form);
  return scroll;
}

bool WhatIfView::eventFilter(QObject* watched, QEvent* event) {
  if (watched == editor_ && event->type() == QEvent::ShortcutOverride) {
    const auto* key = static_cast<QKeyEvent*>(event);
    const QKeySequence pressed(key->keyCombination());
    return key->matches(QKeySequence::Undo) || pressed == QKeySequence("Ctrl+Shift+Z") ||
           pressed == QKeySequence("Ctrl+Y");
  }
  if (watched == editor_ || event->type() != QEvent::Wheel)
    return QWidget::eventFilter(watched, event);
  event->ignore();  // so that the parents get it
  return true;
}

/// Adds a heading that folds the rows below it.
QFormLayout* WhatIfView::add_group(QVBoxLayout& column, const QString& name) {
  auto* heading = new QToolButton;
  heading->setText(name);
  heading->setAccessibleName("Group " + name);
  heading->setCheckable(true);
  heading->setChecked(true);
  heading->setAutoRaise(true);
  heading->setArrowType(Qt::DownArrow);
  heading->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  heading->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  QFont font = heading->font();
  font.setBold(true);
  heading->setFont(font);
  auto* box = new QWidget;
  auto* rows = new QFormLayout(box);
  rows->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  rows->setContentsMargins(12, 0, 4, 8);
  connect(heading, &QToolButton::toggled, box, [heading, box](bool open) {
    heading->setArrowType(open ? Qt::DownArrow : Qt::RightArrow);
    box->setVisible(open);
  });
  column.addWidget(heading);
  column.addWidget(box);
  groups_.push_back(heading);
  return rows;
}

/// Folds the groups of a scenario that has just been opened in which nothing can be changed.
void WhatIfView::fold_groups() {
  std::vector<bool> useful(groups_.size());
  for (const Control& control : controls_) {
    if (control.state.values.size() > 1) useful[control.group] = true;
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i]->setChecked(useful[i]);
}

QWidget* WhatIfView::make_text() {
  auto* page = new QWidget;
  editor_ = new QPlainTextEdit;
  editor_->setAccessibleName("Scenario text");
  editor_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  editor_->setLineWrapMode(QPlainTextEdit::NoWrap);
  editor_->setUndoRedoEnabled(false);  // the session undoes changes of both text and sliders
  editor_->installEventFilter(this);
  connect(editor_, &QPlainTextEdit::textChanged, this, [this] { on_typed(); });
  errors_ = new QListWidget;
  errors_->setAccessibleName("Faults of the scenario");
  errors_->setWordWrap(true);
  errors_->setMaximumHeight(140);
  connect(errors_, &QListWidget::itemActivated, this, [this](QListWidgetItem* item) {
    const int line = item->data(Qt::UserRole).toInt();
    if (line < 1) return;
    editor_->setTextCursor(QTextCursor(editor_->document()->findBlockByNumber(line - 1)));
    editor_->setFocus();
  });
  auto* layout = new QVBoxLayout(page);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(editor_, 1);
  layout->addWidget(errors_);
  return page;
}

/// What is typed into one line without a pause is one step of undo.
void WhatIfView::on_typed() {
  const Document& document = session_.document();
  QString text = text_of(*editor_);
  if (document.text.find("\r\n") != std::string::npos) text.replace("\n", "\r\n");
  const int line = editor_->textCursor().blockNumber();
  const bool paused = !since_typed_.isValid() || since_typed_.elapsed() > kPauseMs;
  if (paused || line != typed_line_) ++typed_;
  typed_line_ = line;
  since_typed_.start();
  session_.edit({text.toStdString(), document.overrides}, "text " + std::to_string(typed_));
}

QWidget* WhatIfView::make_buttons() {
  auto* page = new QWidget;
  auto* layout = new QVBoxLayout(page);
  layout->setContentsMargins(0, 0, 0, 0);
  changes_ = new QLabel;
  changes_->setWordWrap(true);
  changes_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  changes_->setAccessibleName("Changes to the scenario");
  layout->addWidget(changes_);
  auto* grid = new QGridLayout;  // of two lines, because the panel may be narrow
  layout->addLayout(grid);
  const auto button = [&](const char* label, const char* tip, auto&& action) {
    auto* b = new QPushButton(label);
    b->setToolTip(tip);
    connect(b, &QPushButton::clicked, this, action);
    grid->addWidget(b, grid->count() / 3, grid->count() % 3);
    return b;
  };
  undo_ = button("Undo", "Ctrl+Z", [this] { session_.undo(); });
  redo_ = button("Redo", "Ctrl+Shift+Z", [this] { session_.redo(); });
  text_values_ = button("Reset", "Every slider back to the text's own values", [this] {
    session_.edit({session_.document().text, {}});
  });
  command_ = button("Copy command", "The command line that runs what is shown", [this] {
    const Result<std::string> command = session_.command();
    if (command) QApplication::clipboard()->setText(qt(*command));
  });
  button("Keep A", "Keep what is shown as A, to compare with",
         [this] { session_.store(Slot::A, session_.run()); });
  button("Keep B", "Keep what is shown as B, to compare with",
         [this] { session_.store(Slot::B, session_.run()); });
  return page;
}

// ---------------------------------------------------------------- what it shows

void WhatIfView::on_document() {
  const bool open = session_.has_document();
  nothing_->setVisible(!open);
  tabs_->setVisible(open);
  buttons_->setVisible(open);
  if (!open) return;
  const Document& document = session_.document();
  {
    const QSignalBlocker quiet(editor_);
    const QString text = qt(document.text).replace("\r\n", "\n");
    const bool other_file = std::exchange(edited_file_, session_.path()) != session_.path();
    other_file ? editor_->setPlainText(text) : put_text(*editor_, text);
  }
  QString changes;
  for (const std::string& entry : document.overrides) {
    changes += (changes.isEmpty() ? "Over the text: " : ", ") + qt(entry);
  }
  changes_->setText(changes);
  changes_->setVisible(!changes.isEmpty());
  undo_->setEnabled(session_.can_undo());
  redo_->setEnabled(session_.can_redo());
  text_values_->setEnabled(!document.overrides.empty());
  const Result<std::string> command = session_.command();
  command_->setEnabled(command.ok());
  command_->setToolTip(command ? "The command line that runs what is shown"
                               : qt(to_string(command.error())));
  fields_.submit(
      [this, document, path = session_.path()](const Cancelled& cancelled) -> Latest::Apply {
        return [this, states = form_state(document.text, path.empty() ? "scenario.toml" : path,
                                          document.overrides, cancelled)] { show_fields(states); };
      });
}

void WhatIfView::show_fields(std::vector<FieldState> states) {
  if (states.empty()) return;  // there are faults, so the form stays as it was
  for (std::size_t i = 0; i < controls_.size(); ++i) {
    Control& control = controls_[i];
    if (control.slider && control.slider->isSliderDown()) continue;  // the user is moving it
    control.state = std::move(states[i]);
    const FieldState& state = control.state;
    const bool free = state.values.size() > 1;
    const FormField& field = form_fields()[i];
    QString tip = qt(field.help + "\n" + field.key);
    if (!free && !state.why_not.empty()) tip += qt("\nNo other value goes: " + state.why_not);
    control.row->setToolTip(tip);
    control.label->setToolTip(tip);
    control.label->setEnabled(free);
    control.reset->setEnabled(state.overridden);
    if (control.choice) {
      const QSignalBlocker quiet(control.choice);
      control.choice->clear();
      for (const std::string& value : state.values) {
        control.choice->addItem(qt(field.text_of(value)));
      }
      control.choice->setCurrentIndex(state.at);
      control.choice->setEnabled(free);
      continue;
    }
    if (control.toggle) {
      control.toggle->setChecked(state.values[state.at] == "true");
      control.toggle->setEnabled(free);
      continue;
    }
    control.slider->setEnabled(free);
    control.value->setEnabled(free);
    if (!control.value->hasFocus() || !control.value->isModified()) {
      control.value->setText(qt(field.text_of(state.values[state.at])));
    }
    const QSignalBlocker quiet(control.slider);
    control.slider->setRange(0, static_cast<int>(state.values.size()) - 1);
    control.slider->setValue(state.at);
  }
  if (std::exchange(folded_for_, session_.path()) != session_.path()) fold_groups();
}

/// Takes a number that was typed, whether the slider has it or not.
void WhatIfView::type(std::size_t field) {
  const Control& control = controls_[field];
  const QString typed = control.value->text().trimmed();
  const QString shown = qt(form_fields()[field].text_of(control.state.values[control.state.at]));
  bool number = false;
  typed.toDouble(&number);
  if (typed == shown) return;
  if (number) return session_.set_override(form_fields()[field].key, typed.toStdString());
  control.value->setText(shown);
}

void WhatIfView::set(std::size_t field, int at) {
  Control& control = controls_[field];
  if (at < 0 || at >= static_cast<int>(control.state.values.size())) return;
  const std::string& value = control.state.values[at];
  if (control.value) control.value->setText(qt(form_fields()[field].text_of(value)));
  const std::string& key = form_fields()[field].key;
  if (const std::string& helper = control.state.helper[at]; !helper.empty()) {
    Document document = session_.document();
    put_override(document.overrides, key + "=" + value);
    put_override(document.overrides, helper);
    return session_.edit(std::move(document), key);
  }
  const bool own = value == control.state.own;  // the value of the text needs no override
  session_.set_override(key, own ? std::nullopt : std::optional(value));
}

void WhatIfView::show_errors() {
  errors_->clear();
  QList<QTextEdit::ExtraSelection> marks;
  const Theme& theme = theme_for(palette());
  for (const Error& error : session_.errors()) {
    const bool here = error.where && error.where->line > 0 &&
                      (error.where->file == session_.path() || session_.path().empty());
    const QString words = here
                              ? QString("line %1: %2").arg(error.where->line).arg(qt(error.message))
                              : qt(to_string(error));
    auto* item = new QListWidgetItem(words, errors_);
    item->setData(Qt::UserRole, here ? error.where->line : 0);
    if (here) marks.append(mark(*editor_->document(), error.where->line, theme.color(Ink::Fault)));
  }
  editor_->setExtraSelections(marks);
  errors_->setVisible(errors_->count() > 0);
  tabs_->setTabText(1, errors_->count() == 0 ? "Text" : QString("Text (%1)").arg(errors_->count()));
}

}  // namespace lockstep::gui
