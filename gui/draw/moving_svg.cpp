// The animation as SVG: every element is written once, with the frames in which it is visible.
#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <sstream>

#include "gui/draw/animation.hpp"
#include "gui/draw/painter.hpp"

namespace lockstep::gui {
namespace {

std::string svg_number(double value) {
  std::ostringstream out;
  out.precision(7);
  out << std::round(value * 10) / 10;
  return out.str();
}

std::string escaped(const std::string& words) {
  return QString::fromStdString(words).toHtmlEscaped().toStdString();
}

std::string color(const QColor& color) {
  std::string text = color.name().toStdString();
  if (color.alpha() < 255) text += "\" fill-opacity=\"" + std::to_string(color.alphaF());
  return text;
}

std::string rect(double x, double y, double width, double height, const std::string& rest) {
  return "<rect x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\" width=\"" +
         svg_number(width) + "\" height=\"" + svg_number(height) + "\" " + rest + "/>";
}

/// Writes elements, and remembers which patterns they need.
class Elements {
 public:
  Elements(const Theme& theme, const QFont& font) : theme_(theme), font_(font) {}

  /// The elements of a frame, from below to above.
  std::vector<std::string> of(const DisplayList& list) {
    std::vector<std::string> out;
    for (const Fill& f : list.fills) {
      if (f.width <= 0 || f.height <= 0) continue;
      const double width = std::max(f.width, 1.0F);
      if (shows_ink(f)) {
        const QColor ink = QColor::fromRgba(color_of(f, theme_));
        out.push_back(rect(f.x, f.y, width, f.height, "fill=\"" + color(ink) + "\""));
      }
      if (!shows_hatch(f)) continue;
      out.push_back(rect(f.x, f.y, width, f.height,
                         "fill=\"url(#" + pattern(f.hatch, hatch_color(f, theme_)) + ")\""));
    }
    for (const Polyline& p : list.polylines) out.push_back(polyline(p));
    for (const Line& l : list.lines) add_line(out, l);
    for (const Outline& o : list.outlines) {
      out.push_back(rect(o.rect.x(), o.rect.y(), o.rect.width(), o.rect.height(),
                         "fill=\"none\" stroke=\"" + color(theme_.color(o.ink)) +
                             "\" stroke-width=\"" + svg_number(o.width) + "\""));
    }
    for (const Text& t : list.texts) out.push_back(text(t));
    return out;
  }

  std::string patterns() const {
    std::string out;
    for (const auto& [key, name] : patterns_) {
      out += "<pattern id=\"" + name +
             "\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"" +
             path_of(key.first) + "\" stroke=\"" + key.second + "\" fill=\"none\"/></pattern>\n";
    }
    return out;
  }

 private:
  static const char* path_of(Hatch hatch) {
    switch (hatch) {
      case Hatch::Rising:
        return "M-1 1L1 -1M0 6L6 0M5 7L7 5";
      case Hatch::Falling:
        return "M-1 5L1 7M0 0L6 6M5 -1L7 1";
      case Hatch::Cross:
        return "M0 6L6 0M0 0L6 6";
      case Hatch::Upright:
        return "M3 0V6";
      case Hatch::Level:
        return "M0 3H6";
      case Hatch::Dots:
        return "M1 1.5H2M4 4.5H5";
      case Hatch::None:
        break;
    }
    return "";
  }
  std::string pattern(Hatch hatch, const QColor& ink) {
    return patterns_
        .try_emplace({hatch, ink.name().toStdString()}, "h" + std::to_string(patterns_.size()))
        .first->second;
  }
  std::string polyline(const Polyline& p) const {
    std::string points;
    for (const QPointF& at : p.points)
      points += svg_number(at.x()) + "," + svg_number(at.y()) + " ";
    const std::string ink = color(theme_.color(p.ink));
    return "<polyline points=\"" + points + "\" fill=\"" + (p.fill ? ink : "none") +
           "\" stroke=\"" + ink + "\" stroke-width=\"" + svg_number(p.width) + "\"/>";
  }
  void add_line(std::vector<std::string>& out, const Line& l) const {
    const std::string ink = color(theme_.color(l.ink));
    out.push_back("<line x1=\"" + svg_number(l.from.x()) + "\" y1=\"" + svg_number(l.from.y()) +
                  "\" x2=\"" + svg_number(l.to.x()) + "\" y2=\"" + svg_number(l.to.y()) +
                  "\" stroke=\"" + ink + "\" stroke-width=\"" + svg_number(l.width) + "\"" +
                  (l.dashed ? " stroke-dasharray=\"4 3\"" : "") + "/>");
    if (!l.arrow) return;
    const auto corners = arrow_head(l);
    std::string points;
    for (const QPointF& at : corners) points += svg_number(at.x()) + "," + svg_number(at.y()) + " ";
    out.push_back("<polygon points=\"" + points + "\" fill=\"" + ink + "\"/>");
  }
  std::string text(const Text& t) const {
    const double size = font_.pointSizeF() * 96 / 72 * (t.small ? 0.85 : 1);
    const double x = t.align == Align::Left     ? t.rect.left()
                     : t.align == Align::Center ? t.rect.center().x()
                                                : t.rect.right();
    const char* anchor = t.align == Align::Left     ? "start"
                         : t.align == Align::Center ? "middle"
                                                    : "end";
    const QColor ink = t.on_ink ? theme_.text_on(t.ink) : theme_.color(t.ink);
    return "<text x=\"" + svg_number(x) + "\" y=\"" +
           svg_number(t.rect.center().y() + size * 0.35) + "\" font-size=\"" + svg_number(size) +
           "\" text-anchor=\"" + anchor + "\"" + (t.bold ? " font-weight=\"bold\"" : "") +
           " fill=\"" + color(ink) + "\">" + escaped(t.text) + "</text>";
  }

  const Theme& theme_;
  const QFont& font_;
  std::map<std::pair<Hatch, std::string>, std::string> patterns_;
};

/// An element and the frames [first, last] in which it is visible.
struct Shown {
  std::string element;
  std::size_t first = 0, last = 0;
};

/// The elements of all frames in an order that is right in every one of them.
class Film {
 public:
  void add(std::size_t frame, const std::vector<std::string>& elements) {
    const std::vector<Place> kept = keep(elements);
    std::vector<Place> now;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      Place place = kept[i];
      if (place == all_.end()) {
        const Place after = now.empty() ? all_.begin() : std::next(now.back());
        place = all_.insert(after, {elements[i], frame, frame});
      }
      place->last = frame;
      now.push_back(place);
    }
    before_ = std::move(now);
  }
  const std::list<Shown>& all() const { return all_; }

 private:
  using Place = std::list<Shown>::iterator;

  /// For each element the one of the frame before that stays for it, or the end: the longest choice
  /// of equal elements that are in the same order in both frames.
  std::vector<Place> keep(const std::vector<std::string>& elements) {
    std::map<std::string, std::vector<std::size_t>> places;  // of the frame before, last first
    for (std::size_t i = before_.size(); i-- > 0;) places[before_[i]->element].push_back(i);
    constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    std::vector<std::size_t> match(elements.size(), kNone), previous(elements.size(), kNone);
    std::vector<std::size_t> tails;  // by length: the element with the lowest match that ends it
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto found = places.find(elements[i]);
      if (found == places.end() || found->second.empty()) continue;
      match[i] = found->second.back();
      found->second.pop_back();
      const auto lower = [&](std::size_t a, std::size_t b) { return match[a] < match[b]; };
      const auto tail = std::lower_bound(tails.begin(), tails.end(), i, lower);
      if (tail != tails.begin()) previous[i] = *std::prev(tail);
      if (tail == tails.end()) {
        tails.push_back(i);
      } else {
        *tail = i;
      }
    }
    std::vector<Place> kept(elements.size(), all_.end());
    for (std::size_t i = tails.empty() ? kNone : tails.back(); i != kNone; i = previous[i]) {
      kept[i] = before_[match[i]];
    }
    return kept;
  }

  std::list<Shown> all_;
  std::vector<Place> before_;  // the elements of the frame before, from below to above
};

/// When a group is visible, of `frames` frames.
std::string visibility(std::size_t first, std::size_t last, std::size_t frames, double seconds) {
  const auto time = [&](std::size_t frame) {
    std::ostringstream out;
    out.precision(6);
    out << static_cast<double>(frame) / static_cast<double>(frames);
    return out.str();
  };
  std::string values = first == 0 ? "visible" : "hidden;visible";
  std::string times = first == 0 ? "0" : "0;" + time(first);
  if (last + 1 < frames) {
    values += ";hidden";
    times += ";" + time(last + 1);
  }
  return "<animate attributeName=\"visibility\" calcMode=\"discrete\" values=\"" + values +
         "\" keyTimes=\"" + times + "\" dur=\"" + svg_number(seconds) +
         "s\" repeatCount=\"indefinite\"/>";
}

}  // namespace

std::string moving_svg(const Animation& animation, const std::string& title, const Theme& theme,
                       const QFont& font) {
  Elements elements(theme, font);
  Film film;
  const std::size_t frames = animation.frames.size();
  for (std::size_t i = 0; i < frames; ++i) film.add(i, elements.of(animation.frames[i]));
  const std::string width = svg_number(animation.size.width());
  const std::string height = svg_number(animation.size.height());
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" +
                    height + "\" viewBox=\"0 0 " + width + " " + height + "\" font-family=\"" +
                    escaped(font.family().toStdString()) + ", sans-serif\">\n<title>" +
                    escaped(title) + "</title>\n<defs>\n" + elements.patterns() + "</defs>\n";
  for (auto at = film.all().begin(); at != film.all().end();) {
    const Shown& group = *at;
    const bool always = group.first == 0 && group.last + 1 == frames;
    if (!always) {
      out += "<g" + std::string(group.first == 0 ? "" : " visibility=\"hidden\"") + ">" +
             visibility(group.first, group.last, frames, animation.seconds);
    }
    for (; at != film.all().end() && at->first == group.first && at->last == group.last; ++at) {
      out += at->element + "\n";
    }
    if (!always) out += "</g>\n";
  }
  return out + "</svg>\n";
}

}  // namespace lockstep::gui
