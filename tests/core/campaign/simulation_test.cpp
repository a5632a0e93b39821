#include "core/campaign/simulation.hpp"

#include <cmath>
#include <random>

#include "core/campaign/closed_forms.hpp"
#include "core/campaign/summary.hpp"
#include "tests/catch.hpp"
#include "tests/core/campaign/plans.hpp"

namespace lockstep {
namespace {

using test::plan_of_steps;
using test::seconds;

/// The same campaign second by second: the mean time of each part over `runs`.
std::array<double, kNumCampaignParts> second_by_second(int steps, int interval, int pause, int late,
                                                       int recovery, double mean, int runs) {
  std::array<double, kNumCampaignParts> sum{};
  std::mt19937_64 random(7);
  std::exponential_distribution<double> next(1 / mean);
  const auto at = [](CampaignPart part) { return to_size(part); };
  for (int run = 0; run < runs; ++run) {
    double failure = next(random), now = 0;
    int done = 0;
    while (done < steps) {
      const double begin = now;
      int kept = done, step = done;
      double saved_at = -1;  // when the newest save counts
      int saved = done;
      bool failed = false;
      const auto pass = [&](double time) {
        failed = failed || now + time > failure;
        now = failed ? failure : now + time;
      };
      while (step < steps && !failed) {
        pass(1);
        if (failed) break;
        ++step;
        if ((step - done) % interval != 0 && step < steps) continue;
        if (saved_at >= 0 && saved_at <= now) kept = saved;
        pass(pause);
        if (!failed) saved = step, saved_at = now + late;
      }
      if (failed && saved_at >= 0 && saved_at <= now) kept = saved;
      if (!failed) kept = steps;
      const double saves = std::ceil((kept - done) / double(interval));
      sum[at(CampaignPart::Training)] += kept - done;
      sum[at(CampaignPart::Saving)] += saves * pause;
      sum[at(CampaignPart::LostWork)] += now - begin - (kept - done) - saves * pause;
      done = kept;
      while (failed) {
        failure = now + next(random);
        const double begun = now;
        failed = false;
        pass(recovery);
        sum[at(CampaignPart::Restarting)] += now - begun;
      }
    }
  }
  for (double& part : sum) part /= runs;
  return sum;
}

TEST_CASE("a campaign is what it is second by second", "[core][campaign]") {
  constexpr int kRuns = 4000;
  for (const int late : {0, 13}) {
    INFO("a checkpoint counts " << late << " s after training goes on");
    CampaignPlan plan = plan_of_steps(1003, 40, 4, 25, 150);
    plan.phases.front().late = seconds(late);
    const auto oracle = second_by_second(1003, 40, 4, late, 25, 150, kRuns);
    std::array<double, kNumCampaignParts> mean{};
    for (int seed = 0; seed < kRuns; ++seed) {
      const CampaignRun run = simulate_campaign(plan, static_cast<std::uint64_t>(seed));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += to_seconds(run.parts[i]).v / kRuns;
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      INFO(to_string(from_index<CampaignPart>(i)));
      CHECK(mean[i] == Approx(oracle[i]).epsilon(0.03));
    }
  }
}

TEST_CASE("the parts of a campaign add up to the time of its phases", "[core][campaign]") {
  CampaignPlan plan = plan_of_steps(5000, 37, 3, 50, 400);
  plan.phases.front().slowed = seconds(0.017);
  plan.phases.front().evaluation = seconds(0.3);
  plan.phases.front().rates.rate[to_size(FailureCause::Node)] = 1 / 900.0;
  plan.detection = seconds(7);
  plan.swap = seconds(11);
  plan.repair = seconds(2000);
  plan.spare_nodes = 1;
  plan.phases.push_back(plan.phases.front());
  plan.phases.back().steps = 800;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const CampaignRun run = simulate_campaign(plan, seed);
    CHECK(run.phases[0] + run.phases[1] == run.total());
    CHECK(run.part(CampaignPart::Training) == seconds(5800));
    CHECK(run.part(CampaignPart::SlowRanks) == 5800 * seconds(0.017));
    CHECK(run.part(CampaignPart::Evaluation) == 5800 * seconds(0.3));
    CHECK(run.tokens == 58000);
    CHECK(run.part(CampaignPart::Waiting) > CampaignTime{0});
  }
}

TEST_CASE("goodput is that of renewal theory", "[core][campaign]") {
  struct Case {
    double pause, late, recovery, mean;
    std::int64_t interval;
  };
  for (const Case& c : {Case{10, 0, 300, 10000, 450}, Case{2, 60, 900, 3000, 110},
                        Case{100, 0, 100, 500, 300}, Case{5, 0, 1200, 800, 90}}) {
    INFO("interval " << c.interval << " mean time " << c.mean);
    CampaignPlan plan = plan_of_steps(2000000, c.interval, c.pause, c.recovery, c.mean);
    plan.phases.front().late = seconds(c.late);
    const CampaignSummary s = summarize_campaigns(plan, 1, 40);
    const double theory =
        renewal_goodput({{double(c.interval)}, {c.pause}, {c.late}, {c.recovery}, {c.mean}});
    CHECK(s.goodput.mean == Approx(theory).epsilon(0.005));
    CHECK(closed_goodput(plan, plan.phases.front()) == Approx(theory));
  }
}

TEST_CASE("equal seeds give equal campaigns, others do not", "[core][campaign]") {
  const CampaignPlan plan = plan_of_steps(5000, 40, 4, 25, 150);
  CHECK(simulate_campaign(plan, 3).parts == simulate_campaign(plan, 3).parts);
  CHECK(simulate_campaign(plan, 3).total() != simulate_campaign(plan, 4).total());
}

TEST_CASE("without failures a campaign is steps and saves", "[core][campaign]") {
  const CampaignRun run = simulate_campaign(plan_of_steps(1000, 300, 5, 60, 0), 1);
  CHECK(run.total() == seconds(1000 + 4 * 5));
  CHECK(run.interruptions() == 0);
}

TEST_CASE("a campaign of days ends when they are over and keeps whole steps", "[core][campaign]") {
  CampaignPlan plan = plan_of_steps(1000000, 300, 5, 60, 500);
  plan.deadline = seconds(86400);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const CampaignRun run = simulate_campaign(plan, seed);
    CHECK(run.total() == seconds(86400));
    CHECK(run.finished);
    CHECK(run.tokens == 10 * to_seconds(run.part(CampaignPart::Training)).v);
  }
}

TEST_CASE("a campaign that cannot reach its first checkpoint is given up", "[core][campaign]") {
  CHECK_FALSE(simulate_campaign(plan_of_steps(100000, 100000, 1, 10, 1000), 1).finished);
  CHECK_FALSE(simulate_campaign(plan_of_steps(20000, 10, 1, 1e6, 1000), 1).finished);
}

TEST_CASE("a node waits for a repair exactly if there is no spare", "[core][campaign]") {
  CampaignPlan plan = plan_of_steps(20000, 100, 1, 10, 0);
  plan.phases.front().rates.rate[to_size(FailureCause::Node)] = 1 / 2000.0;
  plan.swap = seconds(3);
  plan.repair = seconds(500);
  plan.spare_nodes = 0;
  const CampaignRun none = simulate_campaign(plan, 5);
  // Each failed node comes back after 500 s; what fails meanwhile waits for its own repair.
  CHECK(to_seconds(none.part(CampaignPart::Waiting)).v > 0.8 * 500 * none.interruptions());
  CHECK(to_seconds(none.part(CampaignPart::Waiting)).v <= 503.0 * none.interruptions());
  plan.spare_nodes = -1;
  const CampaignRun always = simulate_campaign(plan, 5);
  CHECK(to_seconds(always.part(CampaignPart::Waiting)).v <= 3.0 * always.interruptions());
  // As many as theory asks for are as good as any number.
  plan.spare_nodes = spares_needed(1 / 2000.0, {500});
  const CampaignSummary enough = summarize_campaigns(plan, 1, 200);
  plan.spare_nodes = -1;
  const CampaignSummary any = summarize_campaigns(plan, 1, 200);
  CHECK(enough.days.mean == Approx(any.days.mean).epsilon(0.005));
}

}  // namespace
}  // namespace lockstep
