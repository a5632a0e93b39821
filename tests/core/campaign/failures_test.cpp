#include "core/campaign/failures.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

constexpr double kHour = 3600, kDay = 24 * kHour;

CampaignSpec spec_of(FailureSource source) {
  CampaignSpec spec;
  spec.failures = source;
  return spec;
}

TEST_CASE("the rates of Llama 3 give its 419 interruptions in 54 days", "[core][campaign]") {
  const CampaignSpec spec = spec_of(FailureSource::Llama3);
  const FailureRates rates = failure_rates(spec, job_size(spec, 16384, 2048));
  CHECK(rates.total() * 54 * kDay == Approx(419));
  CHECK(rates.of(FailureCause::Gpu) * 54 * kDay == Approx(268));
  CHECK(rates.of(FailureCause::Switch) * 54 * kDay == Approx(35));
  CHECK(rates.mean_time().v / kHour == Approx(3.09).epsilon(0.01));
  CHECK(rates.node_share() == Approx((268 + 53) / 419.0));
}

TEST_CASE("the rate of RSC-1 gives the mean times that its operators project", "[core][campaign]") {
  // arXiv 2410.21680: 1.8 hours for jobs of 16,384 GPUs, 0.23 hours for 131,072.
  const CampaignSpec spec = spec_of(FailureSource::Rsc1);
  const auto hours = [&](int gpus) {
    return failure_rates(spec, job_size(spec, gpus, gpus / 8)).mean_time().v / kHour;
  };
  CHECK(hours(16384) == Approx(1.8).epsilon(0.01));
  CHECK(hours(131072) == Approx(0.23).epsilon(0.03));
}

TEST_CASE("a mean time that is given goes before that of the source", "[core][campaign]") {
  CampaignSpec spec = spec_of(FailureSource::Llama3);
  spec.gpu_mtbf = {1000 * kHour};
  const FailureRates rates = failure_rates(spec, job_size(spec, 500, 63));
  CHECK(rates.of(FailureCause::Gpu) == Approx(0.5 / kHour));
  CHECK(rates.of(FailureCause::Job) == Approx(63 / (54 * kDay)));  // whatever the size
  CHECK(failure_rates(spec_of(FailureSource::None), {}).total() == 0);
  CHECK(failure_rates(spec_of(FailureSource::None), {}).mean_time().v == 0);
}

TEST_CASE("a switch that is not full counts as one", "[core][campaign]") {
  CHECK(job_size({}, 17, 3).switches == 2);
  CHECK(job_size({}, 16, 2).switches == 1);
}

}  // namespace
}  // namespace lockstep
