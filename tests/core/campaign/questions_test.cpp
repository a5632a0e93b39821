#include "core/campaign/questions.hpp"

#include "core/campaign/closed_forms.hpp"
#include "tests/catch.hpp"
#include "tests/core/campaign/plans.hpp"

namespace lockstep {
namespace {

using test::plan_of_steps;

TEST_CASE("the interval that the simulation finds best is Daly's within 5 %", "[core][campaign]") {
  struct Case {
    double save, recovery, mean;
  };
  for (const Case& c : {Case{10, 300, 10000}, Case{60, 600, 20000}, Case{30, 100, 2000}}) {
    INFO("save " << c.save << " mean time " << c.mean);
    const CampaignPlan plan = plan_of_steps(3000000, 100, c.save, c.recovery, c.mean);
    const IntervalAnswer answer = interval_answer(plan, 0, 1, 60);
    CHECK(answer.daly.v == daly_interval({c.save}, {c.mean}).v);
    CHECK(answer.simulated.v == Approx(answer.daly.v).epsilon(0.05));
    CHECK(answer.best_goodput > answer.goodput);
  }
}

TEST_CASE("without failures there is no best interval", "[core][campaign]") {
  const IntervalAnswer answer = interval_answer(plan_of_steps(1000, 100, 5, 60, 0), 0, 1, 5);
  CHECK(answer.simulated.v == 0);
  CHECK(answer.goodput == Approx(100.0 / 105));
}

}  // namespace
}  // namespace lockstep
