#include "gui/draw/display_list.hpp"

#include <cstdio>

namespace lockstep::gui {
namespace {

template <class T>
void extend(std::vector<T>& list, const std::vector<T>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

std::string tenths(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return text;
}

std::string place(const QRectF& r) {
  return " " + tenths(r.x()) + " " + tenths(r.y()) + " " + tenths(r.width()) + " " +
         tenths(r.height());
}

std::string place(QPointF p) { return " " + tenths(p.x()) + " " + tenths(p.y()); }

std::string ink_name(Ink ink) {
  static constexpr const char* kNames[] = {"background", "band", "grid",  "text", "faint", "accent",
                                           "wash",       "idle", "fault", "ok",   "over"};
  const int i = static_cast<int>(ink);
  if (i < static_cast<int>(Ink::Look0)) return std::string(" ") + kNames[i];
  if (i < static_cast<int>(Ink::Memory0)) {
    return " " + std::string(letters(static_cast<Look>(i - static_cast<int>(Ink::Look0))));
  }
  return " memory" + std::to_string(i - static_cast<int>(Ink::Memory0));
}

}  // namespace

void DisplayList::append(const DisplayList& other) {
  extend(fills, other.fills);
  extend(polylines, other.polylines);
  extend(lines, other.lines);
  extend(outlines, other.outlines);
  extend(texts, other.texts);
}

std::string print(const DisplayList& list) {
  std::string text;
  for (const Fill& f : list.fills) {
    text += "fill" + place(QRectF(f.x, f.y, f.width, f.height)) + ink_name(f.ink);
    if (f.hatch != Hatch::None) text += " hatch" + std::to_string(static_cast<int>(f.hatch));
    if (f.stands_for > 0) text += " spans=" + std::to_string(f.stands_for);
    if (f.blend.of_other > 0) {
      text += " with" + ink_name(f.blend.other) + " " + std::to_string(f.blend.of_other);
    }
    if (f.blend.idle > 0) text += " idle " + std::to_string(f.blend.idle);
    text += "\n";
  }
  for (const Polyline& p : list.polylines) {
    text += p.fill ? "polygon" : "polyline";
    text += ink_name(p.ink);
    for (const QPointF& point : p.points) text += place(point);
    text += "\n";
  }
  for (const Line& l : list.lines) {
    text += "line" + place(l.from) + place(l.to) + ink_name(l.ink);
    text += std::string(l.dashed ? " dashed" : "") + (l.arrow ? " arrow" : "") + "\n";
  }
  for (const Outline& o : list.outlines) text += "outline" + place(o.rect) + ink_name(o.ink) + "\n";
  for (const Text& t : list.texts) {
    text += "text" + place(t.rect) + ink_name(t.ink) + " \"" + t.text + "\"\n";
  }
  return text;
}

std::string TextSize::elided(const std::string& text, double width) const {
  if (width_of(text) <= width) return text;
  std::size_t left = text.size() / 2, right = left;
  const auto inside = [&](std::size_t i) {  // a character of UTF-8 is not cut
    return i > 0 && i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  for (bool from_left = true; left > 0 || right < text.size(); from_left = !from_left) {
    if (from_left && left > 0) --left;
    if (!from_left && right < text.size()) ++right;
    while (inside(left)) --left;
    while (inside(right)) ++right;
    std::string shorter = text.substr(0, left) + "…" + text.substr(right);
    if (width_of(shorter) <= width) return shorter;
  }
  return {};
}

double TextSize::width_of(const std::string& text) const {
  double width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;
    width += byte < ascii.size() && ascii[byte] > 0 ? ascii[byte] : char_width;
  }
  return width;
}

}  // namespace lockstep::gui
