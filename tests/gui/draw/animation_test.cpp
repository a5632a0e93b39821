// Tests animations by reading them back: every frame of a file shows what its display list says.
#include "gui/draw/animation.hpp"

#include <QImage>
#include <QPainter>
#include <QXmlStreamReader>
#include <fstream>
#include <sstream>

#include "gui/draw/painter.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

Animation small_animation() {
  test::application();
  const std::string file = test::scenario_path("schedules/1f1b-p4-m8.toml");
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  const RunPtr run = simulate(text.str(), file, {}, never).run;
  REQUIRE(run);
  return animate(*run, run->steps.front(), {400, 240}, 4, text_size(QFont()));
}

QImage drawn(const DisplayList& list, QSize size) {
  QImage image(size, QImage::Format_RGB32);
  image.fill(light_theme().color(Ink::Background));
  rasterize(image, list, light_theme(), QFont());
  return image;
}

// ---------------------------------------------------------------- SVG

/// The elements of an SVG that are visible at a part of the animation's time, in their order.
QStringList visible_at(const std::string& svg, double part) {
  QXmlStreamReader xml(QString::fromStdString(svg));
  QStringList found;
  bool visible = true;
  while (!xml.atEnd()) {
    xml.readNext();
    const QString name = xml.name().toString();
    if (xml.isEndElement() && name == "g") visible = true;
    if (!xml.isStartElement()) continue;
    const QXmlStreamAttributes a = xml.attributes();
    if (name == "pattern" || name == "title") {
      xml.skipCurrentElement();
    } else if (name == "g") {
      visible = a.value("visibility") != QString("hidden");
    } else if (name == "animate") {
      const QStringList values = a.value("values").toString().split(';');
      const QStringList times = a.value("keyTimes").toString().split(';');
      REQUIRE(values.size() == times.size());
      for (int i = 0; i < values.size(); ++i) {
        if (times[i].toDouble() <= part) visible = values[i] == "visible";
      }
    } else if (name != "svg" && name != "defs" && visible) {
      QString words = name;
      for (const QXmlStreamAttribute& one : a) {
        words += " " + one.name().toString() + "=" + one.value().toString();
      }
      if (name == "text") words += " " + xml.readElementText();
      found << words;
    }
  }
  CHECK_FALSE(xml.hasError());
  return found;
}

TEST_CASE("at every moment the moving SVG shows the elements of that frame alone", "[gui][draw]") {
  const Animation animation = small_animation();
  REQUIRE(animation.frames.size() == 4 * kFramesPerSecond);
  const std::string svg = moving_svg(animation, "a < b", light_theme(), QFont());
  for (std::size_t i = 0; i < animation.frames.size(); i += 5) {
    const Animation still{animation.size, 1, {animation.frames[i]}};
    const std::string frame = moving_svg(still, "", light_theme(), QFont());
    const double part =
        (static_cast<double>(i) + 0.5) / static_cast<double>(animation.frames.size());
    CHECK(visible_at(svg, part) == visible_at(frame, 0));
  }
  CHECK(svg.find("a &lt; b") != std::string::npos);
  CHECK(svg.find("<script") == std::string::npos);
  // What stays is written once: far less than all frames one after the other.
  const std::string one =
      moving_svg({animation.size, 1, {animation.frames[20]}}, "", light_theme(), QFont());
  CHECK(svg.size() < one.size() * animation.frames.size() / 3);
}

// ---------------------------------------------------------------- APNG

std::uint32_t number_at(const std::string& bytes, std::size_t at, int size = 4) {
  std::uint32_t value = 0;
  for (int i = 0; i < size; ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  }
  return value;
}

struct Chunk {
  std::string type, data, whole;
};

std::vector<Chunk> chunks_of(const std::string& png) {
  std::vector<Chunk> chunks;
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t size = number_at(png, at);
    chunks.push_back({png.substr(at + 4, 4), png.substr(at + 8, size), png.substr(at, size + 12)});
    at += size + 12;
  }
  return chunks;
}

void put(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

/// CRC-32 by polynomial division, bit by bit from the front of the reflected message.
std::uint32_t checksum(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = ((crc ^ static_cast<unsigned char>(c) >> bit) & 1) != 0;
      crc = (crc >> 1) ^ (one ? 0xEDB88320U : 0U);
    }
  }
  return ~crc;
}

std::string chunk(const std::string& type, const std::string& data) {
  std::string out;
  put(out, static_cast<std::uint32_t>(data.size()));
  out += type + data;
  put(out, checksum(type + data));
  return out;
}

TEST_CASE("every frame of the animated PNG, put over those before, is the frame's picture",
          "[gui][draw]") {
  const Animation animation = small_animation();
  const std::string png = animated_png(animation, 1, light_theme(), QFont());
  const std::vector<Chunk> chunks = chunks_of(png);
  REQUIRE(chunks.size() >= 4);
  CHECK(chunks[0].type == "IHDR");
  CHECK(chunks[1].type == "acTL");
  CHECK(chunks.back().type == "IEND");
  CHECK(number_at(chunks[1].data, 0) == animation.frames.size());
  CHECK(number_at(chunks[1].data, 4) == 0);  // for ever
  // A program that does not know the extension shows the first frame.
  CHECK(QImage::fromData(QByteArray::fromStdString(png), "PNG")
            .convertToFormat(QImage::Format_RGB32) == drawn(animation.frames[0], {400, 240}));

  QImage canvas(400, 240, QImage::Format_ARGB32);
  canvas.fill(Qt::transparent);
  std::uint32_t sequence = 0;
  std::size_t frame = 0;
  QRect where;
  double seconds = 0;
  for (const Chunk& c : chunks) {
    CHECK(c.whole == chunk(c.type, c.data));
    if (c.type == "fcTL") {
      CHECK(number_at(c.data, 0) == sequence++);
      where =
          QRect(static_cast<int>(number_at(c.data, 12)), static_cast<int>(number_at(c.data, 16)),
                static_cast<int>(number_at(c.data, 4)), static_cast<int>(number_at(c.data, 8)));
      REQUIRE(canvas.rect().contains(where));
      seconds += number_at(c.data, 20, 2) / double(number_at(c.data, 22, 2));
    }
    if (c.type != "IDAT" && c.type != "fdAT") continue;
    std::string data = c.data;
    if (c.type == "fdAT") {
      CHECK(number_at(data, 0) == sequence++);
      data = data.substr(4);
    }
    // The frame as a PNG of its own, for Qt's reader.
    std::string header;
    put(header, static_cast<std::uint32_t>(where.width()));
    put(header, static_cast<std::uint32_t>(where.height()));
    header += chunks[0].data.substr(8);
    const std::string alone =
        png.substr(0, 8) + chunk("IHDR", header) + chunk("IDAT", data) + chunk("IEND", "");
    const QImage part = QImage::fromData(QByteArray::fromStdString(alone), "PNG");
    REQUIRE(part.size() == where.size());
    QPainter(&canvas).drawImage(where.topLeft(), part);
    if (frame % 7 == 0) {
      CHECK(canvas.convertToFormat(QImage::Format_RGB32) ==
            drawn(animation.frames[frame], {400, 240}));
    }
    ++frame;
  }
  CHECK(frame == animation.frames.size());
  CHECK(seconds == Approx(4).epsilon(0.02));
}

}  // namespace
}  // namespace lockstep::gui
