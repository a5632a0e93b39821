#include "core/ir/kernels/formula.hpp"

#include <limits>
#include <stdexcept>

#include "core/ir/kernels/kernel.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr std::array<std::string_view, 3> kDims = {"a", "b", "c"};
constexpr std::array<std::string_view, 2> kIn = {"x", "bias"};
constexpr std::array<std::string_view, 1> kOut = {"y"};

Formula compiled(const char* text) {
  Formula formula(text);
  formula.compile(kDims, kIn, kOut);
  return formula;
}

Kernel sized(std::int64_t a, std::int64_t b, std::int64_t c) {
  Kernel kernel;
  kernel.dims = {a, b, c};
  kernel.in = {{0, DType::F32, 0}, {}};
  kernel.out = {{1, DType::F32, 0}};
  return kernel;
}

}  // namespace

TEST_CASE("a formula multiplies what stands side by side before it adds", "[core][ir]") {
  const Kernel kernel = sized(2, 3, 5);
  CHECK(compiled("7").elements(kernel) == 7);
  CHECK(compiled("a b c").elements(kernel) == 30);
  CHECK(compiled("a + b c").elements(kernel) == 17);
  CHECK(compiled("(a + b) c").elements(kernel) == 25);
  CHECK(compiled("2 a (b + 10 c + 1) a").elements(kernel) == 8 * 54);
  CHECK(compiled("2 a (b + 10 c + 1) a").value(kernel) == 8 * 54.0);
  CHECK_FALSE(Formula());
}

TEST_CASE("quotients are rounded up, and nothing is divided by zero", "[core][ir]") {
  CHECK(compiled("a/b c").elements(sized(6, 3, 5)) == 10);
  CHECK(compiled("a/b").elements(sized(7, 3, 5)) == 3);
  CHECK(compiled("a/b").elements(sized(9, 3, 5)) == 3);
  CHECK(compiled("a/b").elements(sized(7, 0, 5)) == 7);
  CHECK(compiled("a/b").value(sized(7, 3, 5)) == 3);
}

TEST_CASE("a formula knows what is zero, absent, accumulated or smaller", "[core][ir]") {
  Kernel kernel = sized(2, 0, 5);
  CHECK(compiled("!a").elements(kernel) == 0);
  CHECK(compiled("!b").elements(kernel) == 1);
  CHECK(compiled("!!a + c !b").elements(kernel) == 6);
  CHECK(compiled("!(a b)").elements(kernel) == 1);
  CHECK(compiled("(1 + [bias]) c").elements(kernel) == 5);
  kernel.in[1].formal = 2;
  CHECK(compiled("(1 + [bias]) c").elements(kernel) == 10);
  CHECK(compiled("[y]").elements(kernel) == 1);
  kernel.out.clear();
  CHECK(compiled("[y]").elements(kernel) == 0);
  CHECK(compiled("accumulate").elements(kernel) == 0);
  kernel.accumulate = true;
  CHECK(compiled("accumulate").elements(kernel) == 1);
  CHECK(compiled("min(a + 1, c) 2").elements(kernel) == 6);
  CHECK(compiled("min(c, a)").value(kernel) == 2);
}

TEST_CASE("elements saturate where flops go on", "[core][ir]") {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  CHECK(compiled("a b").elements(sized(huge, 2, 0)) == huge);
  CHECK(compiled("a + b").elements(sized(huge, 2, 0)) == huge);
  CHECK(compiled("a b").value(sized(huge, 2, 0)) == 2 * static_cast<double>(huge));
}

TEST_CASE("a formula that breaks the grammar or names nothing is refused", "[core][ir]") {
  for (const char* text :
       {"d", "a +", "(a", "a)", "a/d", "a / (b)", "[z]", "min(a b)", "2a*b", "[x", "!", "a,b"}) {
    INFO(text);
    CHECK_THROWS_AS(compiled(text), std::logic_error);
  }
}
