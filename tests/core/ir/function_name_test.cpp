#include "core/ir/function_name.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

using Kind = FunctionName::Kind;

TEST_CASE("a function's name says of which layer, phase and segment it is", "[core][ir]") {
  struct Case {
    const char* name;
    Kind kind;
    const char* layer;
    Phase phase;
    int segment;
  };
  const Case cases[] = {
      {"block.F", Kind::Block, "block", Phase::F, 0},
      {"block.B.1+gw", Kind::Block, "block", Phase::B, 1},
      {"block_moe.W.12+gw,gw_tied", Kind::Block, "block_moe", Phase::W, 12},
      {"head.B+gw", Kind::OutputLayer, "head", Phase::B, 0},
      {"embed.R", Kind::Layer, "embed", Phase::R, 0},
      {"stage.one.I", Kind::Layer, "stage.one", Phase::I, 0},
      {"block.F.pair", Kind::Block, "", Phase::None, 0},
      {"block.X", Kind::Block, "", Phase::None, 0},
      {"block.F.1x", Kind::Block, "", Phase::None, 0},
      {"headless.F", Kind::Layer, "headless", Phase::F, 0},
      {"adamw.32768", Kind::Other, "", Phase::None, 0},
      {"F", Kind::Other, "", Phase::None, 0},
      {"", Kind::Other, "", Phase::None, 0},
      {"newton_schulz.64x32", Kind::Orthogonalize, "", Phase::None, 0},
      {"power_sgd.factor.8x4.2", Kind::LowRankFactor, "", Phase::None, 0},
      {"power_sgd.invert.8x4.2", Kind::LowRankUnknown, "", Phase::None, 0},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const FunctionName name = c.name;
    CHECK(name.kind() == c.kind);
    CHECK(name.layer() == c.layer);
    CHECK(name.phase() == c.phase);
    CHECK(name.segment() == c.segment);
    CHECK(name.text() == c.name);
  }
}

}  // namespace
}  // namespace lockstep
