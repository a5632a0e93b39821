#include "gui/draw/painter.hpp"

#include <QPainter>

#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

QImage white(int width, int height, double ratio = 1) {
  QImage image(width, height, QImage::Format_RGB32);
  image.setDevicePixelRatio(ratio);
  image.fill(Qt::white);
  return image;
}

TEST_CASE("a box covers its pixels, and no box is too narrow to be seen", "[gui][draw]") {
  test::application();
  const Theme& theme = light_theme();
  DisplayList list;
  list.fill({2, 1, 3, 2}, ink_of(Look::Forward));
  list.fill({8.1, 0, 0.05, 4}, ink_of(Look::Backward));
  list.fill({-5, -5, 6, 6}, ink_of(Look::Optimizer));  // cut at the edges
  QImage image = white(10, 4);
  rasterize(image, list, theme, QFont());
  int forward = 0, backward = 0, optimizer = 0;
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 10; ++x) {
      const QColor c = image.pixelColor(x, y);
      forward += c == theme.color(ink_of(Look::Forward));
      backward += c == theme.color(ink_of(Look::Backward));
      optimizer += c == theme.color(ink_of(Look::Optimizer));
    }
  }
  CHECK(forward == 6);
  CHECK(backward == 4);
  CHECK(optimizer == 1);
}

TEST_CASE("both ways of drawing boxes give the same pixels", "[gui][draw]") {
  test::application();
  DisplayList list;
  for (int i = 0; i < 40; ++i) {
    list.fill({i * 7.0, (i % 5) * 10.0, 5, 9}, ink_of(static_cast<Look>(i % kNumLooks)));
  }
  list.fill({20, 5, 100, 30}, Ink::Wash);
  list.line({3, 3}, {200, 3}, Ink::Text);
  QImage fast = white(300, 60), slow = white(300, 60);
  rasterize(fast, list, dark_theme(), QFont());
  QPainter painter(&slow);
  paint(painter, list, dark_theme(), QFont());
  painter.end();
  int different = 0;
  for (int y = 0; y < 60; ++y) {
    for (int x = 0; x < 300; ++x) {
      const QColor a = fast.pixelColor(x, y), b = slow.pixelColor(x, y);
      different += std::abs(a.red() - b.red()) > 2 || std::abs(a.green() - b.green()) > 2 ||
                   std::abs(a.blue() - b.blue()) > 2;
    }
  }
  CHECK(different == 0);
}

TEST_CASE("patterns differ from plain boxes and from each other", "[gui][draw]") {
  test::application();
  std::vector<QImage> images;
  for (const Hatch hatch : {Hatch::None, Hatch::Rising, Hatch::Falling, Hatch::Cross,
                            Hatch::Upright, Hatch::Level, Hatch::Dots}) {
    DisplayList list;
    list.fill({0, 0, 40, 20}, ink_of(Look::AllReduce), hatch);
    images.push_back(white(40, 20));
    rasterize(images.back(), list, light_theme(), QFont());
    for (std::size_t i = 0; i + 1 < images.size(); ++i) CHECK(images[i] != images.back());
  }
}

TEST_CASE("a picture for a dense screen has the same boxes on more pixels", "[gui][draw]") {
  test::application();
  DisplayList list;
  list.fill({10, 5, 20, 8}, ink_of(Look::Forward));
  QImage image = white(100, 40, 2);
  rasterize(image, list, light_theme(), QFont());
  const QColor ink = light_theme().color(ink_of(Look::Forward));
  CHECK(image.pixelColor(20, 10) == ink);
  CHECK(image.pixelColor(59, 25) == ink);
  CHECK(image.pixelColor(60, 25) != ink);
  CHECK(image.pixelColor(19, 10) != ink);
}

}  // namespace
}  // namespace lockstep::gui
