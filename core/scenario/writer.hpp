// Writer: the fields of a spec as the lines of one table; the inverse of Reader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/scenario/document.hpp"
#include "core/spec/keys/keys.hpp"

namespace lockstep {

class Writer : public KeyVisitor<Writer> {
 public:
  explicit Writer(std::string path) : path_(std::move(path)) {}

  void field(const char* key, bool value) { line(key, value ? "true" : "false"); }
  void field(const char* key, int value) { line(key, std::to_string(value)); }
  void field(const char* key, std::int64_t value) { line(key, std::to_string(value)); }
  void field(const char* key, std::uint64_t value) {
    line(key, std::to_string(static_cast<std::int64_t>(value)));  // signed, as Reader reads it
  }
  void field(const char* key, double value, UnitPrefix prefix = UnitPrefix::One) {
    line(key, format_number(from_si(prefix, value)));
  }
  void field(const char* key, const std::string& value) { line(key, quote(value)); }
  void field(const char* key, const std::vector<int>& values) {
    std::string text;
    for (const int v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
    line(key, "[" + text + "]");
  }
  void field(const char* key, const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& v : values) text += (text.empty() ? "" : ", ") + quote(v);
    line(key, "[" + text + "]");
  }
  void field(const char* key, const std::vector<double>& values) {
    std::string text;
    for (const double v : values) text += (text.empty() ? "" : ", ") + format_number(v);
    line(key, "[" + text + "]");
  }
  template <class Dim, class Rep>
  void field(const char* key, Quantity<Dim, Rep> value, UnitPrefix prefix) {
    field(key, static_cast<double>(value.v), prefix);
  }
  void field(const char* key, const std::vector<PeakRate>& peaks) {
    std::string text;
    for (const PeakRate& peak : peaks) {
      text += (text.empty() ? "" : ", ") + std::string(to_string(peak.dtype)) + " = " +
              format_number(from_si(UnitPrefix::Tera, peak.rate.v));
    }
    line(key, "{ " + text + " }");
  }
  void field(const char* key, const std::vector<EfficiencyPoint>& points) {
    std::string text;
    for (const EfficiencyPoint& p : points) {
      text += (text.empty() ? "[" : ", [") + format_number(p.ideal.v) + ", " +
              format_number(p.efficiency) + "]";
    }
    line(key, "[" + text + "]");
  }
  template <class E>
  requires std::is_enum_v<E>
  void field(const char* key, E value) {
    for (const auto& [name, choice] : choices(E{})) {
      if (choice == value) line(key, quote(name));
    }
  }
  template <class T>
  void field(const char* key, const std::optional<T>& value) {
    if (value) field(key, *value);
  }
  template <class T>
  void table(const char* key, const T& value) {
    Writer inner(path_.empty() ? key : path_ + "." + key);
    describe(inner, value);
    tables_ += "\n[" + inner.path_ + "]\n" + inner.text();
  }
  template <class T>
  void tables(const char* key, const std::vector<T>& values) {
    if (values.empty()) line(key, "[]");
    for (const T& value : values) {
      Writer inner(path_.empty() ? key : path_ + "." + key);
      describe(inner, value);
      tables_ += "\n[[" + inner.path_ + "]]\n" + inner.text();
    }
  }

  std::string text() const { return lines_ + tables_; }

 private:
  void line(const char* key, const std::string& value) {
    lines_ += std::string(key) + " = " + value + "\n";
  }
  std::string path_, lines_, tables_;
};

}  // namespace lockstep
