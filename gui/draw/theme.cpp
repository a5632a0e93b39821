#include "gui/draw/theme.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::gui {
namespace {

struct LookColor {
  Look look;
  QRgb color;
};

constexpr LookColor kLooks[] = {
    {Look::Forward, 0xff0072b2},       {Look::Backward, 0xffe69f00},
    {Look::BackwardInput, 0xfff0b84a}, {Look::BackwardWeight, 0xfff0e442},
    {Look::Recompute, 0xff56b4e9},     {Look::Optimizer, 0xff009e73},
    {Look::Product, 0xff0072b2},       {Look::Attention, 0xffe69f00},
    {Look::Convolution, 0xff56b4e9},   {Look::Normalization, 0xfff0e442},
    {Look::Reduction, 0xffd8cf8a},     {Look::Indexing, 0xff9db4d6},
    {Look::Elementwise, 0xff8fc3ae},   {Look::OtherCompute, 0xff8a97a3},
    {Look::AllReduce, 0xffcc79a7},     {Look::AllGather, 0xffb889d6},
    {Look::ReduceScatter, 0xffe3a4c4}, {Look::Broadcast, 0xffd9a0e8},
    {Look::AllToAll, 0xffb08ca8},      {Look::Send, 0xff69757f},
    {Look::Recv, 0xff87929c},          {Look::OtherTransfer, 0xffc9a0b5},
    {Look::Copy, 0xffb59a7a},          {Look::Host, 0xffa8a294},
};

// The colours are in the order of BufferKind: param, param_full, grad, master, optimizer,
// activation, boundary, comm, workspace, input, metric, param_version, outer.
constexpr QRgb kMemory[kNumBufferKinds] = {
    0xff0072b2, 0xff56b4e9, 0xffe69f00, 0xff007a5a, 0xff009e73, 0xfff0e442, 0xffd8cf8a,
    0xffcc79a7, 0xff8a97a3, 0xffb59a7a, 0xffc4cad0, 0xffd55e00, 0xff8c6bb1};

struct Surface {
  QRgb background, band, grid, text, faint, accent, wash, idle, fault, ok, over;
};
constexpr Surface kLight = {0xffffffff, 0xfff3f5f7, 0xffdde2e7, 0xff1b2228, 0xff5d6b78, 0xff0b5cad,
                            0x300b5cad, 0xff87929c, 0xffc43c00, 0xff007a5a, 0x60c43c00};
constexpr Surface kDark = {0xff16191d, 0xff1f242a, 0xff343c45, 0xffe8ecf0, 0xff9aa7b3, 0xff6db6ff,
                           0x386db6ff, 0xff66727e, 0xffff7a45, 0xff3fc79a, 0x60ff7a45};

Theme make_theme(const Surface& s, bool dark) {
  Theme theme;
  theme.dark = dark;
  const auto set = [&](Ink ink, QRgb color) { theme.colors[ink] = QColor::fromRgba(color); };
  set(Ink::Background, s.background);
  set(Ink::Band, s.band);
  set(Ink::Grid, s.grid);
  set(Ink::Text, s.text);
  set(Ink::Faint, s.faint);
  set(Ink::Accent, s.accent);
  set(Ink::Wash, s.wash);
  set(Ink::Idle, s.idle);
  set(Ink::Fault, s.fault);
  set(Ink::Ok, s.ok);
  set(Ink::Over, s.over);
  for (const LookColor& look : kLooks) set(ink_of(look.look), look.color);
  for (int kind = 0; kind < kNumBufferKinds; ++kind) set(memory_ink(kind), kMemory[kind]);
  return theme;
}

double luminance(const QColor& color) {
  const auto linear = [](double c) {
    return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) +
         0.0722 * linear(color.blueF());
}

}  // namespace

double contrast(const QColor& a, const QColor& b) {
  const double la = luminance(a), lb = luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

QColor Theme::text_on(Ink ink) const {
  const QColor black(0x10, 0x14, 0x18), white(Qt::white);
  return contrast(black, color(ink)) >= contrast(white, color(ink)) ? black : white;
}

const Theme& light_theme() {
  static const Theme theme = make_theme(kLight, false);
  return theme;
}

const Theme& dark_theme() {
  static const Theme theme = make_theme(kDark, true);
  return theme;
}

const Theme& theme_for(const QPalette& palette) {
  return palette.window().color().lightness() < 128 ? dark_theme() : light_theme();
}

QPalette palette_of(const Theme& theme) {
  QPalette palette;
  const auto set = [&](QPalette::ColorRole role, Ink ink) {
    palette.setColor(role, theme.color(ink));
  };
  set(QPalette::Window, Ink::Band);
  set(QPalette::Base, Ink::Background);
  set(QPalette::AlternateBase, Ink::Band);
  set(QPalette::Button, Ink::Band);
  set(QPalette::ToolTipBase, Ink::Background);
  for (const QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText,
                                         QPalette::ToolTipText, QPalette::BrightText}) {
    set(role, Ink::Text);
  }
  set(QPalette::PlaceholderText, Ink::Faint);
  set(QPalette::Highlight, Ink::Accent);
  set(QPalette::Link, Ink::Accent);
  palette.setColor(QPalette::HighlightedText, theme.text_on(Ink::Accent));
  palette.setColor(QPalette::Light, theme.color(Ink::Band).lighter(110));
  palette.setColor(QPalette::Midlight, theme.color(Ink::Band).lighter(104));
  palette.setColor(QPalette::Mid, theme.color(Ink::Grid));
  palette.setColor(QPalette::Dark, theme.color(Ink::Grid).darker(120));
  for (const QPalette::ColorRole role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText}) {
    palette.setColor(QPalette::Disabled, role, theme.color(Ink::Faint));
  }
  return palette;
}

}  // namespace lockstep::gui
