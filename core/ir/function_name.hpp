// FunctionName: the name of a function, and what it says of the function. Nobody else reads names.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "core/base/phase.hpp"

namespace lockstep {

/// The model library names the function of a layer "<layer>.<phase>", then ".<segment>" for all but
/// the first of several and "+<what it adds to>" where it adds: "block.B.1+gw". The program text
/// has names only, so a program that was written by hand says by them, too, what its functions are.
class FunctionName {
 public:
  enum class Kind : std::uint8_t {
    Other,
    Layer,           // of another layer than the two below
    Block,           // of a block
    OutputLayer,     // of the layer that makes logits
    Orthogonalize,   // makes a matrix of an update orthogonal (Muon)
    LowRankProject,  // the left factor of a gradient (PowerSGD)
    LowRankFactor,   // its right factor
    LowRankRestore,  // their product
    LowRankUnknown,  // named as one of these, but none of them
  };

  FunctionName() = default;
  // Not explicit: wherever a name is given, its meaning is read.
  FunctionName(std::string text);
  FunctionName(std::string_view text) : FunctionName(std::string(text)) {}
  FunctionName(const char* text) : FunctionName(std::string(text)) {}
  operator const std::string&() const { return text_; }

  const std::string& text() const { return text_; }
  Kind kind() const { return kind_; }
  /// The kind of layer, "block"; empty if the function is not a whole segment of one.
  std::string_view layer() const { return std::string_view(text_).substr(0, layer_size_); }
  Phase phase() const { return phase_; }  // None without a layer
  int segment() const { return segment_; }
  FunctionName& operator+=(std::string_view more) { return *this = text_ + std::string(more); }
  friend std::string operator+(const FunctionName& name, const std::string& text) {
    return name.text_ + text;
  }
  friend std::string operator+(const std::string& text, const FunctionName& name) {
    return text + name.text_;
  }
  friend std::ostream& operator<<(std::ostream& out, const FunctionName& name) {
    return out << name.text_;
  }
  bool operator==(const FunctionName& other) const { return text_ == other.text_; }

 private:
  std::string text_;
  std::uint32_t layer_size_ = 0;
  int segment_ = 0;
  Kind kind_ = Kind::Other;
  Phase phase_ = Phase::None;
};

/// Whether a function makes, or uses, a gradient's factors of low rank.
constexpr bool is_low_rank(FunctionName::Kind kind) {
  return kind >= FunctionName::Kind::LowRankProject;
}

}  // namespace lockstep
