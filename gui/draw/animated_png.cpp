// The animation as an APNG: the chunks of a PNG (ISO/IEC 15948), and those of the extension
// (wiki.mozilla.org/APNG_Specification), which the third edition of the standard has taken over.
#include <QByteArray>
#include <QImage>
#include <QRect>
#include <algorithm>
#include <cstdint>

#include "gui/draw/animation.hpp"
#include "gui/draw/painter.hpp"

namespace lockstep::gui {
namespace {

constexpr unsigned char kOverTheLast = 1;  // blend_op: what is transparent keeps the frame before
constexpr int kBestCompression = 9;

void put32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}
void put16(std::string& out, std::uint32_t value) {
  out += static_cast<char>(value >> 8 & 0xFF);
  out += static_cast<char>(value & 0xFF);
}

/// The checksum of a chunk (ISO/IEC 15948, annex D).
std::uint32_t crc32_of(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

void put_chunk(std::string& out, const char* type, const std::string& data) {
  put32(out, static_cast<std::uint32_t>(data.size()));
  const std::string body = type + data;
  out += body;
  put32(out, crc32_of(body));
}

/// The stream of zlib, which Qt puts behind four bytes of length.
std::string deflated(const std::string& data) {
  const QByteArray packed = qCompress(QByteArray::fromStdString(data), kBestCompression);
  return packed.mid(4).toStdString();
}

QRgb pixel(const QImage& image, int x, int y) {
  return reinterpret_cast<const QRgb*>(image.constScanLine(y))[x];
}

/// The smallest rectangle outside of which two pictures are alike; one pixel if they are
/// everywhere.
QRect difference(const QImage& a, const QImage& b) {
  int left = a.width(), right = -1, top = a.height(), bottom = -1;
  for (int y = 0; y < a.height(); ++y) {
    for (int x = 0; x < a.width(); ++x) {
      if (pixel(a, x, y) == pixel(b, x, y)) continue;
      left = std::min(left, x);
      right = std::max(right, x);
      top = std::min(top, y);
      bottom = y;
    }
  }
  return right < 0 ? QRect(0, 0, 1, 1) : QRect(QPoint(left, top), QPoint(right, bottom));
}

/// The rows of a rectangle as RGBA, each behind the number of its filter (none). Pixels that are
/// those of `before` are transparent.
std::string rows_of(const QImage& image, const QImage* before, const QRect& rect) {
  std::string rows;
  for (int y = rect.top(); y <= rect.bottom(); ++y) {
    rows += '\0';
    for (int x = rect.left(); x <= rect.right(); ++x) {
      const QRgb p = pixel(image, x, y);
      const bool same = before != nullptr && pixel(*before, x, y) == p;
      for (const int channel : {qRed(p), qGreen(p), qBlue(p), 255}) {
        rows += static_cast<char>(same ? 0 : channel);
      }
    }
  }
  return rows;
}

std::string frame_control(std::uint32_t sequence, const QRect& rect, double seconds) {
  std::string data;
  put32(data, sequence);
  for (const int value : {rect.width(), rect.height(), rect.x(), rect.y()}) {
    put32(data, static_cast<std::uint32_t>(value));
  }
  put16(data, static_cast<std::uint32_t>(seconds * 1000 + 0.5));
  put16(data, 1000);  // thousandths of a second
  data += '\0';       // dispose_op: the frame stays
  data += static_cast<char>(kOverTheLast);
  return data;
}

}  // namespace

std::string animated_png(const Animation& animation, double scale, const Theme& theme,
                         const QFont& font) {
  const QSize size = (animation.size * scale).toSize();
  const double seconds = animation.seconds / static_cast<double>(animation.frames.size());
  std::string out = "\x89PNG\r\n\x1a\n";
  std::string header;
  put32(header, static_cast<std::uint32_t>(size.width()));
  put32(header, static_cast<std::uint32_t>(size.height()));
  header += std::string("\x08\x06\x00\x00\x00", 5);  // eight bits a channel, RGBA, no interlacing
  put_chunk(out, "IHDR", header);
  std::string control;
  put32(control, static_cast<std::uint32_t>(animation.frames.size()));
  put32(control, 0);  // repeats for ever
  put_chunk(out, "acTL", control);
  std::uint32_t sequence = 0;
  QImage before;
  for (const DisplayList& list : animation.frames) {
    QImage image(size, QImage::Format_RGB32);
    image.setDevicePixelRatio(scale);
    image.fill(theme.color(Ink::Background));
    rasterize(image, list, theme, font);
    const bool first = before.isNull();
    const QRect rect = first ? image.rect() : difference(image, before);
    put_chunk(out, "fcTL", frame_control(sequence++, rect, seconds));
    const std::string data = deflated(rows_of(image, first ? nullptr : &before, rect));
    if (first) {
      put_chunk(out, "IDAT", data);
    } else {
      std::string numbered;
      put32(numbered, sequence++);
      put_chunk(out, "fdAT", numbered + data);
    }
    before = image;
  }
  put_chunk(out, "IEND", "");
  return out;
}

}  // namespace lockstep::gui
