#include "core/format/format.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("figures keep four digits and a unit that fits", "[core][format]") {
  CHECK(time_text(Seconds{0}) == "0 s");
  CHECK(time_text(Seconds{33}) == "33 s");
  CHECK(time_text(Seconds{0.0123456}) == "12.35 ms");
  CHECK(time_text(Seconds{-2.5e-6}) == "-2.5 us");
  CHECK(time_text(Seconds{3e-10}) == "0.3 ns");
  CHECK(bytes_text(Bytes{0}) == "0 B");
  CHECK(bytes_text(Bytes{1500}) == "1.5 kB");
  CHECK(bytes_text(Bytes{80'000'000'000}) == "80 GB");
  CHECK(flops_text(Flops{34816}) == "34.82 kFLOP");
  CHECK(flops_text(Flops{1.5e15}) == "1.5 PFLOP");
  CHECK(count_text(124439808) == "124,439,808");
  CHECK(count_text(999) == "999");
  CHECK(count_text(-1000) == "-1,000");
  CHECK(percent_text(0.2727) == "27.3 %");
  CHECK(change_text(2, 3) == "+50.0 %");
  CHECK(change_text(0, 3) == "-");
}

TEST_CASE("words are joined by separators between them only", "[core][format]") {
  CHECK(joined({}).empty());
  CHECK(joined({"a"}) == "a");
  CHECK(joined({"", "b", ""}) == ", b, ");
  CHECK(joined({"a", "b"}, "; ") == "a; b");
}

}  // namespace
}  // namespace lockstep
