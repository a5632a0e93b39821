#include "core/plan/families.hpp"

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

LayoutPoint point(int tensor, int shard, int zero) {
  LayoutPoint p;
  p.tensor = tensor, p.shard = shard, p.zero = zero;
  return p;
}
LayoutBound bound(double seconds, std::int64_t bytes) {
  LayoutBound b;
  b.time = Seconds{seconds}, b.needed = Bytes{bytes};
  return b;
}
EstimatedLayout estimated(const LayoutPoint& p, double seconds, std::int64_t bytes) {
  EstimatedLayout e;
  e.point = p;
  e.estimate.step_time = Seconds{seconds}, e.estimate.needed = Bytes{bytes};
  return e;
}

}  // namespace

TEST_CASE("a family names kinds of parallelism, not degrees", "[core][plan]") {
  CHECK(family_of(point(1, 1, 0)) == "one rank");
  CHECK(family_of(point(8, 1, 0)) == "tp");
  CHECK(family_of(point(8, 4, 1)) == family_of(point(2, 64, 1)));
  CHECK(family_of(point(8, 4, 1)) == "tp + ZeRO 1");
  CHECK(family_of(point(1, 4, 3)) == "FSDP");
  LayoutPoint hybrid = point(1, 4, 3);
  hybrid.replicate = 2;
  CHECK(family_of(hybrid) == "HSDP");
}

TEST_CASE("the fastest that may fit stands for a family, else the smallest", "[core][plan]") {
  std::vector<LostFamily> families;
  const std::vector<LayoutPoint> points = {point(2, 1, 0), point(4, 1, 0), point(8, 1, 0),
                                           point(1, 2, 3), point(1, 4, 3)};
  const std::vector<LayoutBound> bounds = {bound(1, 200), bound(3, 90), bound(2, 80),
                                           bound(1.5, 150), bound(2, 120)};
  note_families(points, bounds, 100, families);
  REQUIRE(families.size() == 2);
  CHECK(families[0].name == "tp");  // fits, so that it comes first
  CHECK(families[0].layouts == 3);
  CHECK(families[0].point == points[2]);
  CHECK(families[1].name == "FSDP");
  CHECK(families[1].point == points[4]);
  // Without a limit all fit, and the fastest of each is taken.
  families.clear();
  note_families(points, bounds, 0, families);
  CHECK(families[0].point == points[0]);
  CHECK(families[1].point == points[3]);
  // What is noted later is sorted among the former.
  note_families({point(1, 1, 0)}, {bound(0.5, 1)}, 0, families);
  REQUIRE(families.size() == 3);
  CHECK(families[0].name == "one rank");
}

TEST_CASE("the front has what no faster layout needs less memory than", "[core][plan]") {
  const std::vector<EstimatedLayout> layouts = {
      estimated(point(2, 1, 0), 3, 50), estimated(point(4, 1, 0), 1, 100),
      estimated(point(1, 2, 3), 2, 100), estimated(point(1, 4, 3), 4, 20)};
  const std::vector<EstimatedLayout> front = front_of(layouts);
  REQUIRE(front.size() == 3);
  CHECK(front[0].point == layouts[1].point);
  CHECK(front[1].point == layouts[0].point);  // the third is slower than what needs as much
  CHECK(front[2].point == layouts[3].point);
  const std::vector<EstimatedLayout> best = best_of_families(layouts);
  REQUIRE(best.size() == 2);
  CHECK(best[0].point == layouts[0].point);
  CHECK(best[1].point == layouts[2].point);
}
