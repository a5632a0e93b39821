#include "gui/views/style.hpp"

#include <QAbstractButton>
#include <QComboBox>
#include <QPainter>
#include <QScrollBar>
#include <QSlider>
#include <QStyleFactory>
#include <QStyleOption>
#include <QTabBar>
#include <algorithm>

namespace lockstep::gui {
namespace {

constexpr int kGrid = 4;
constexpr double kRadius = 4;

QColor mixed(const QColor& a, const QColor& b, double of_b) {
  const auto part = [&](int x, int y) { return static_cast<int>(x + (y - x) * of_b); };
  return {part(a.red(), b.red()), part(a.green(), b.green()), part(a.blue(), b.blue())};
}

QColor edge_color(const QPalette& palette) { return palette.color(QPalette::Mid); }
QColor accent_color(const QPalette& palette) { return palette.color(QPalette::Highlight); }
QColor quiet_text(const QPalette& palette) { return palette.color(QPalette::PlaceholderText); }

/// A rounded box with an edge; with the keyboard, a ring of two pixels instead.
void draw_box(QPainter* painter, const QRect& rect, const QPalette& palette, const QColor& fill,
              bool focus) {
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  const double half = focus ? 1 : 0.5;
  painter->setBrush(fill);
  painter->setPen(QPen(focus ? accent_color(palette) : edge_color(palette), 2 * half));
  painter->drawRoundedRect(QRectF(rect).adjusted(half, half, -half, -half), kRadius, kRadius);
  painter->restore();
}

/// The colour of a button: darker while the mouse is over it, and darker still while it is pressed
/// or switched on.
QColor button_color(const QStyleOption& option, const QColor& ground) {
  const QColor text = option.palette.color(QPalette::ButtonText);
  if (!option.state.testFlag(QStyle::State_Enabled)) return ground;
  if (option.state.testFlag(QStyle::State_Sunken)) return mixed(ground, text, 0.22);
  if (option.state.testFlag(QStyle::State_On)) return mixed(ground, text, 0.12);
  if (option.state.testFlag(QStyle::State_MouseOver)) return mixed(ground, text, 0.08);
  return ground;
}

bool has_keyboard(const QStyleOption& option) {
  return option.state.testFlag(QStyle::State_HasFocus) &&
         option.state.testFlag(QStyle::State_Enabled);
}

void draw_arrow(QPainter* painter, QPointF center, const QColor& color) {
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(QPen(color, 1.6, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter->drawPolyline(QPolygonF(
      {center + QPointF(-3.5, -1.75), center + QPointF(0, 1.75), center + QPointF(3.5, -1.75)}));
  painter->restore();
}

/// A tab is its words; the one in front has a line in the accent colour below them.
void draw_tab(const QStyleOptionTab& tab, QPainter* painter) {
  const bool selected = tab.state.testFlag(QStyle::State_Selected);
  if (!selected && tab.state.testFlag(QStyle::State_MouseOver)) {
    painter->fillRect(tab.rect, mixed(tab.palette.color(QPalette::Window),
                                      tab.palette.color(QPalette::WindowText), 0.06));
  }
  const bool south = tab.shape == QTabBar::RoundedSouth || tab.shape == QTabBar::TriangularSouth;
  QRect line = tab.rect;
  if (south) {
    line.setHeight(selected ? 2 : 1);
  } else {
    line.setTop(line.bottom() - (selected ? 1 : 0));
  }
  painter->fillRect(line, selected ? accent_color(tab.palette) : edge_color(tab.palette));
}

void draw_header_section(const QStyleOptionHeader& header, QPainter* painter) {
  painter->fillRect(header.rect, header.palette.color(QPalette::Window));
  const QRect& r = header.rect;
  painter->fillRect(r.left(), r.bottom(), r.width(), 1, edge_color(header.palette));
}

void draw_slider(const QStyle& style, const QStyleOptionSlider& slider, QPainter* painter,
                 const QWidget* widget) {
  const QRect handle =
      style.subControlRect(QStyle::CC_Slider, &slider, QStyle::SC_SliderHandle, widget);
  const bool flat = slider.orientation == Qt::Horizontal;
  const bool enabled = slider.state.testFlag(QStyle::State_Enabled);
  const QPointF center = QRectF(handle).center();
  QRectF groove(slider.rect), done;
  if (flat) {
    groove = QRectF(groove.left() + 2, center.y() - 1.5, groove.width() - 4, 3);
    done = groove;
    (slider.upsideDown ? done.setLeft(center.x()) : done.setRight(center.x()));
  } else {
    groove = QRectF(center.x() - 1.5, groove.top() + 2, 3, groove.height() - 4);
    done = groove;
    (slider.upsideDown ? done.setTop(center.y()) : done.setBottom(center.y()));
  }
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(Qt::NoPen);
  painter->setBrush(edge_color(slider.palette));
  painter->drawRoundedRect(groove, 1.5, 1.5);
  const QColor accent = enabled ? accent_color(slider.palette) : quiet_text(slider.palette);
  painter->setBrush(accent);
  if (enabled) painter->drawRoundedRect(done, 1.5, 1.5);
  const bool held = slider.state.testFlag(QStyle::State_Sunken);
  painter->setPen(QPen(has_keyboard(slider) ? slider.palette.color(QPalette::Text) : accent, 2));
  painter->setBrush(held ? accent : slider.palette.color(QPalette::Base));
  painter->drawEllipse(center, 6, 6);
  painter->restore();
}

void draw_scroll_bar(const QStyle& style, const QStyleOptionSlider& bar, QPainter* painter,
                     const QWidget* widget) {
  painter->fillRect(bar.rect, bar.palette.color(QPalette::Window));
  if (bar.maximum <= bar.minimum) return;
  const QRectF handle =
      style.subControlRect(QStyle::CC_ScrollBar, &bar, QStyle::SC_ScrollBarSlider, widget);
  const bool active = bar.activeSubControls.testFlag(QStyle::SC_ScrollBarSlider) &&
                      bar.state & (QStyle::State_MouseOver | QStyle::State_Sunken);
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(Qt::NoPen);
  const QColor quiet = quiet_text(bar.palette);
  painter->setBrush(active ? quiet : mixed(bar.palette.color(QPalette::Window), quiet, 0.55));
  painter->drawRoundedRect(handle.adjusted(2, 2, -2, -2), 3, 3);
  painter->restore();
}

/// Its edge is as dark as quiet words, because a box without a tick is nothing but its edge.
void draw_check_box(const QStyleOption& box, QPainter* painter) {
  const bool enabled = box.state.testFlag(QStyle::State_Enabled);
  const QColor quiet = quiet_text(box.palette);
  const double side = std::min(box.rect.width(), box.rect.height()) - 1;
  const QPointF center = QRectF(box.rect).center();
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  const bool keyboard = has_keyboard(box);
  painter->setPen(QPen(keyboard ? accent_color(box.palette) : quiet, keyboard ? 2 : 1));
  painter->setBrush(button_color(box, box.palette.color(QPalette::Base)));
  painter->drawRoundedRect(QRectF(center.x() - side / 2, center.y() - side / 2, side, side), 2, 2);
  if (box.state.testFlag(QStyle::State_On)) {
    const double part = side / 12;
    painter->setPen(QPen(enabled ? box.palette.color(QPalette::Text) : quiet, 1.8 * part,
                         Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter->drawPolyline(
        QPolygonF({center + QPointF(-3, 0) * part, center + QPointF(-1, 2.5) * part,
                   center + QPointF(3, -3) * part}));
  }
  painter->restore();
}

void draw_combo_box(const QStyleOptionComboBox& box, QPainter* painter) {
  const QColor ground = box.palette.color(box.editable ? QPalette::Base : QPalette::Button);
  draw_box(painter, box.rect, box.palette, button_color(box, ground), has_keyboard(box));
  const bool enabled = box.state.testFlag(QStyle::State_Enabled);
  draw_arrow(painter, {box.rect.right() - 11.0, box.rect.center().y() + 0.5},
             enabled ? box.palette.color(QPalette::ButtonText) : quiet_text(box.palette));
}

}  // namespace

Style::Style() : QProxyStyle(QStyleFactory::create("fusion")) {}

int Style::pixelMetric(PixelMetric metric, const QStyleOption* option,
                       const QWidget* widget) const {
  switch (metric) {
    case PM_LayoutHorizontalSpacing:
      return 2 * kGrid;
    case PM_LayoutVerticalSpacing:
      return kGrid;
    case PM_LayoutLeftMargin:
    case PM_LayoutTopMargin:
    case PM_LayoutRightMargin:
    case PM_LayoutBottomMargin:
      return 2 * kGrid;
    case PM_DockWidgetSeparatorExtent:
    case PM_SplitterWidth:
    case PM_DockWidgetTitleMargin:
      return kGrid;
    case PM_TabBarTabHSpace:
      return 4 * kGrid;
    case PM_TabBarTabVSpace:
      return 2 * kGrid;
    case PM_TabBarTabShiftVertical:
    case PM_TabBarTabShiftHorizontal:
    case PM_TabBarTabOverlap:
      return 0;
    case PM_ScrollBarExtent:
      return 3 * kGrid;
    case PM_ScrollBarSliderMin:
      return 6 * kGrid;
    case PM_FocusFrameHMargin:
    case PM_FocusFrameVMargin:
      return 2;
    default:
      return QProxyStyle::pixelMetric(metric, option, widget);
  }
}

int Style::styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                     QStyleHintReturn* data) const {
  if (hint == SH_ToolTip_WakeUpDelay) return 400;
  if (hint == SH_ScrollBar_LeftClickAbsolutePosition) return 1;
  return QProxyStyle::styleHint(hint, option, widget, data);
}

QSize Style::sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& size,
                              const QWidget* widget) const {
  const QSize made = QProxyStyle::sizeFromContents(type, option, size, widget);
  const bool field = type == CT_PushButton || type == CT_ComboBox || type == CT_LineEdit ||
                     type == CT_SpinBox || type == CT_ToolButton;
  if (!field) return made;
  const int least = option->fontMetrics.height() + 2 * kGrid;
  return {made.width(), std::max(made.height(), least)};
}

void Style::drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                          const QWidget* widget) const {
  switch (element) {
    case PE_PanelButtonCommand:
      return draw_box(painter, option->rect, option->palette,
                      button_color(*option, option->palette.color(QPalette::Base)),
                      has_keyboard(*option));
    case PE_PanelButtonTool: {
      const bool plain = option->state.testFlag(State_AutoRaise) &&
                         !(option->state & (State_MouseOver | State_Sunken | State_On));
      if (!plain || has_keyboard(*option)) {
        draw_box(painter, option->rect, option->palette,
                 button_color(*option, option->palette.color(QPalette::Window)),
                 has_keyboard(*option));
      }
      return;
    }
    case PE_Frame:  // of lists, tables and texts
    case PE_FrameLineEdit:
      return draw_box(painter, option->rect, option->palette, Qt::transparent,
                      has_keyboard(*option));
    case PE_PanelLineEdit: {
      const auto* frame = qstyleoption_cast<const QStyleOptionFrame*>(option);
      if (frame && frame->lineWidth <= 0) break;  // it is part of another control
      return draw_box(painter, option->rect, option->palette, option->palette.color(QPalette::Base),
                      has_keyboard(*option));
    }
    case PE_IndicatorCheckBox:
      return draw_check_box(*option, painter);
    case PE_FrameFocusRect: {
      painter->save();
      painter->setRenderHint(QPainter::Antialiasing);
      painter->setBrush(Qt::NoBrush);
      painter->setPen(QPen(accent_color(option->palette), 2));
      painter->drawRoundedRect(QRectF(option->rect).adjusted(1, 1, -1, -1), 2, 2);
      painter->restore();
      return;
    }
    case PE_FrameTabBarBase:
    case PE_FrameTabWidget:
      return;  // the tabs themselves have a line
    default:
      break;
  }
  QProxyStyle::drawPrimitive(element, option, painter, widget);
}

void Style::drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                        const QWidget* widget) const {
  if (element == CE_TabBarTabShape) {
    if (const auto* tab = qstyleoption_cast<const QStyleOptionTab*>(option)) {
      return draw_tab(*tab, painter);
    }
  }
  if (element == CE_HeaderSection) {
    if (const auto* header = qstyleoption_cast<const QStyleOptionHeader*>(option)) {
      return draw_header_section(*header, painter);
    }
  }
  if (element == CE_TabBarTabLabel) {
    if (const auto* tab = qstyleoption_cast<const QStyleOptionTab*>(option)) {
      QStyleOptionTab words = *tab;  // those behind are paler
      if (!tab->state.testFlag(State_Selected)) {
        words.palette.setColor(QPalette::WindowText, quiet_text(tab->palette));
      }
      return QProxyStyle::drawControl(element, &words, painter, widget);
    }
  }
  QProxyStyle::drawControl(element, option, painter, widget);
}

void Style::drawComplexControl(ComplexControl control, const QStyleOptionComplex* option,
                               QPainter* painter, const QWidget* widget) const {
  if (control == CC_ComboBox) {
    if (const auto* box = qstyleoption_cast<const QStyleOptionComboBox*>(option)) {
      return draw_combo_box(*box, painter);
    }
  }
  const auto* slider = qstyleoption_cast<const QStyleOptionSlider*>(option);
  if (control == CC_Slider && slider) return draw_slider(*this, *slider, painter, widget);
  if (control == CC_ScrollBar && slider) return draw_scroll_bar(*this, *slider, painter, widget);
  QProxyStyle::drawComplexControl(control, option, painter, widget);
}

/// What changes its look under the mouse has to be told of it.
void Style::polish(QWidget* widget) {
  QProxyStyle::polish(widget);
  const bool reacts = qobject_cast<QAbstractButton*>(widget) || qobject_cast<QComboBox*>(widget) ||
                      qobject_cast<QSlider*>(widget) || qobject_cast<QScrollBar*>(widget) ||
                      qobject_cast<QTabBar*>(widget);
  if (reacts) widget->setAttribute(Qt::WA_Hover);
}

}  // namespace lockstep::gui
