#include "gui/draw/theme.hpp"

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("text reads on whatever it stands on, light and dark", "[gui][draw]") {
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    for (const Ink ground : {Ink::Background, Ink::Band}) {
      CHECK(contrast(theme->color(Ink::Text), theme->color(ground)) >= 7);
      CHECK(contrast(theme->color(Ink::Faint), theme->color(ground)) >= 4.5);
      CHECK(contrast(theme->color(Ink::Fault), theme->color(ground)) >= 4.5);
      CHECK(contrast(theme->color(Ink::Accent), theme->color(ground)) >= 4.5);
    }
    for (int look = 0; look < kNumLooks; ++look) {
      const Ink ink = ink_of(static_cast<Look>(look));
      INFO(letters(static_cast<Look>(look)));
      CHECK(contrast(theme->text_on(ink), theme->color(ink)) >= 4.5);
    }
  }
}

TEST_CASE("bubbles, sends and receives are seen against the background", "[gui][draw]") {
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    for (const Ink ink : {Ink::Idle, ink_of(Look::Send), ink_of(Look::Recv)}) {
      CHECK(contrast(theme->color(ink), theme->color(Ink::Background)) >= 3);
    }
  }
}

TEST_CASE("what differs in kind differs in letters, and collectives in pattern", "[gui][draw]") {
  for (int a = 0; a < kNumLooks; ++a) {
    for (int b = 0; b < a; ++b) {
      CHECK(letters(static_cast<Look>(a)) != letters(static_cast<Look>(b)));
    }
  }
  for (int a = static_cast<int>(Look::AllReduce); a <= static_cast<int>(Look::AllToAll); ++a) {
    CHECK(hatch_of(static_cast<Look>(a)) != Hatch::None);
    for (int b = static_cast<int>(Look::AllReduce); b < a; ++b) {
      CHECK(hatch_of(static_cast<Look>(a)) != hatch_of(static_cast<Look>(b)));
    }
  }
}

TEST_CASE("no two kinds of memory look alike", "[gui][draw]") {
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    for (int a = 0; a < kNumBufferKinds; ++a) {
      for (int b = 0; b < a; ++b) {
        CHECK(theme->color(memory_ink(a)) != theme->color(memory_ink(b)));
      }
    }
  }
  const auto version = static_cast<int>(BufferKind::ParamVersion);
  CHECK(memory_hatch(version) != memory_hatch(static_cast<int>(BufferKind::Param)));
}

TEST_CASE("a palette tells which theme it is", "[gui][draw]") {
  CHECK_FALSE(theme_for(palette_of(light_theme())).dark);
  CHECK(theme_for(palette_of(dark_theme())).dark);
}

}  // namespace
}  // namespace lockstep::gui
