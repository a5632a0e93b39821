// DisplayList: a picture as plain values. Drawings are functions from models to display lists, so
// that a test can ask what is drawn where without a window; one painter (painter.hpp) draws them.
#pragma once

#include <QPointF>
#include <QRectF>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gui/draw/ink.hpp"

namespace lockstep::gui {

/// What is mixed into the ink of a box that stands for several spans, in parts of 255.
struct Blend {
  Ink other = Ink::Background;
  std::uint8_t of_other = 0;  // the part of the other ink
  std::uint8_t idle = 0;      // the part of the background in the result
  bool operator==(const Blend&) const = default;
};

/// A box. It is small, because most of a picture consists of boxes.
struct Fill {
  float x = 0, y = 0, width = 0, height = 0;
  Ink ink = Ink::Background;
  Hatch hatch = Hatch::None;     // drawn over the ink if the box is wide enough to show it
  std::uint32_t stands_for = 0;  // how many spans this box shows
  Blend blend = {};
  bool operator==(const Fill&) const = default;
};

struct Line {
  QPointF from, to;
  Ink ink = Ink::Grid;
  float width = 1;
  bool dashed = false;
  bool arrow = false;  // with a head at `to`
  bool operator==(const Line&) const = default;
};

/// Points connected by lines; closed and filled if `fill`.
struct Polyline {
  std::vector<QPointF> points;
  Ink ink = Ink::Text;
  float width = 1;
  bool fill = false;
  bool operator==(const Polyline&) const = default;
};

enum class Align : std::uint8_t { Left, Center, Right };

/// One line of text, vertically centred in `rect` and cut off at its edges.
struct Text {
  QRectF rect;
  std::string text;
  Ink ink = Ink::Text;
  bool on_ink = false;  // `ink` is the background; the text is black or white, as reads better
  Align align = Align::Left;
  bool bold = false;
  bool small = false;
  bool operator==(const Text&) const = default;
};

struct Outline {
  QRectF rect;
  Ink ink = Ink::Accent;
  float width = 2;
  bool operator==(const Outline&) const = default;
};

/// A picture. It is drawn in the order of the members, and within each in the order of the list.
struct DisplayList {
  std::vector<Fill> fills;
  std::vector<Polyline> polylines;
  std::vector<Line> lines;
  std::vector<Outline> outlines;
  std::vector<Text> texts;

  void fill(QRectF rect, Ink ink, Hatch hatch = Hatch::None, std::uint32_t stands_for = 0) {
    fills.push_back({float(rect.x()), float(rect.y()), float(rect.width()), float(rect.height()),
                     ink, hatch, stands_for});
  }
  void line(QPointF from, QPointF to, Ink ink, float width = 1) {
    lines.push_back({from, to, ink, width});
  }
  void text(QRectF rect, std::string words, Ink ink = Ink::Text, Align align = Align::Left) {
    texts.push_back({rect, std::move(words), ink, false, align});
  }
  void append(const DisplayList& other);
  bool operator==(const DisplayList&) const = default;
};

/// The picture as text for golden files and messages of failed tests, with one primitive per line
/// and coordinates to a tenth of a pixel.
std::string print(const DisplayList& list);

/// The sizes of letters, from which a drawing knows whether a text fits.
struct TextSize {
  double char_width = 7;
  double line_height = 16;
  std::array<float, 128> ascii{};  // width of each ASCII character; 0: as char_width
  /// The width of a UTF-8 text. Continuation bytes take no room.
  double width_of(const std::string& text) const;
  /// The text if it fits into `width`; otherwise its begin and its end with "…" between them.
  std::string elided(const std::string& text, double width) const;
};

}  // namespace lockstep::gui
