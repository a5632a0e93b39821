#include "gui/views/style.hpp"

#include <QCheckBox>
#include <QPushButton>

#include "gui/draw/icon.hpp"
#include "gui/draw/theme.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

/// How many pixels of a picture have a colour.
int count_pixels(const QImage& image, const QColor& color) {
  int count = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) count += image.pixelColor(x, y) == color;
  }
  return count;
}

struct Window {
  explicit Window(const Theme& theme) : theme(theme) {
    widget.setStyle(&style);
    widget.setPalette(palette_of(theme));
    for (QPushButton* button : {&first, &second}) {
      button->setStyle(&style);
      button->setFixedSize(80, 28);
      button->setParent(&widget);
    }
    second.move(0, 40);
    widget.resize(100, 80);
    widget.show();
    widget.activateWindow();
    QCoreApplication::processEvents();
  }
  QApplication& app = test::application();  // before the widgets
  const Theme& theme;
  Style style;
  QWidget widget;
  QPushButton first, second;
};

TEST_CASE("the button with the keyboard has a ring in the accent colour, and no other",
          "[gui][views]") {
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    Window w(*theme);
    w.first.setFocus();
    REQUIRE(w.first.hasFocus());
    const QColor accent = theme->color(Ink::Accent);
    CHECK(count_pixels(w.first.grab().toImage(), accent) > 200);
    CHECK(count_pixels(w.second.grab().toImage(), accent) == 0);
  }
}

TEST_CASE("a pressed button looks pressed", "[gui][views]") {
  Window w(light_theme());
  const QColor before = w.first.grab().toImage().pixelColor(6, 14);
  w.first.setDown(true);
  const QColor pressed = w.first.grab().toImage().pixelColor(6, 14);
  CHECK(pressed.lightness() < before.lightness() - 20);
}

TEST_CASE("a check box without a tick is seen on its ground, in both themes", "[gui][views]") {
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    Window w(*theme);
    QCheckBox box;
    box.setStyle(&w.style);
    box.setPalette(palette_of(*theme));
    box.show();
    const QColor quiet = palette_of(*theme).color(QPalette::PlaceholderText);
    CHECK(count_pixels(box.grab().toImage(), quiet) > 20);  // of an edge of some forty
  }
}

TEST_CASE("distances are multiples of four pixels", "[gui][views]") {
  test::application();
  const Style style;
  for (const auto metric :
       {QStyle::PM_LayoutHorizontalSpacing, QStyle::PM_LayoutVerticalSpacing,
        QStyle::PM_LayoutLeftMargin, QStyle::PM_DockWidgetSeparatorExtent,
        QStyle::PM_TabBarTabHSpace, QStyle::PM_TabBarTabVSpace, QStyle::PM_ScrollBarExtent}) {
    INFO(metric);
    CHECK(style.pixelMetric(metric, nullptr, nullptr) % 4 == 0);
    CHECK(style.pixelMetric(metric, nullptr, nullptr) > 0);
  }
}

TEST_CASE("every sign is drawn, in the colour of the text, and no two are alike", "[gui][views]") {
  test::application();
  const QPalette palette = palette_of(dark_theme());
  std::vector<QImage> seen;
  for (const Sign sign : {Sign::Play, Sign::Pause, Sign::ToStart, Sign::StepBack, Sign::StepForward,
                          Sign::Exchange, Sign::Close, Sign::Open, Sign::Save, Sign::Search}) {
    const QImage image = icon_of(sign, palette).pixmap(32, 32).toImage();
    CHECK(count_pixels(image, palette.color(QPalette::ButtonText)) > 10);
    for (const QImage& other : seen) CHECK(image != other);
    seen.push_back(image);
  }
}

}  // namespace
}  // namespace lockstep::gui
