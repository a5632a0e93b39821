#include "core/campaign/failures.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {
namespace {

constexpr double kHour = 3600, kDay = 24 * kHour;

/// The mean time between failures of one of `parts`, of which so many failed in so many days.
constexpr Seconds mean_time(double parts, double days, double failures) {
  return {parts * days * kDay / failures};
}

// Table 5 of arXiv 2407.21783: 419 unexpected interruptions in 54 days on 16,384 H100s. GPUs:
// faulty GPU 148, HBM3 72, SRAM 19, system processor 17, silent data corruption 6, thermal
// interface 6. Nodes: unplanned maintenance 32, NIC 7, SSD 3, power 3, chassis 2, expansion board
// 2, CPU 2, memory 2. Switches and cables 35. Software 54, watchdog timeouts 7, dependencies 2.
constexpr double kLlamaGpus = 16384, kLlamaDays = 54;
constexpr double kLlamaGpu = 148 + 72 + 19 + 17 + 6 + 6,
                 kLlamaNode = 32 + 7 + 3 + 3 + 2 + 2 + 2 + 2, kLlamaSwitch = 35,
                 kLlamaJob = 54 + 7 + 2;
static_assert(kLlamaGpu + kLlamaNode + kLlamaSwitch + kLlamaJob == 419);

constexpr std::array kPublished = {
    PublishedFailures{FailureSource::None, {}, {}, {}, {}, "nothing fails"},
    PublishedFailures{FailureSource::Llama3, mean_time(kLlamaGpus, kLlamaDays, kLlamaGpu),
                      mean_time(kLlamaGpus / 8, kLlamaDays, kLlamaNode),
                      mean_time(kLlamaGpus / 16, kLlamaDays, kLlamaSwitch),
                      mean_time(1, kLlamaDays, kLlamaJob),
                      "419 interruptions in 54 days on 16,384 H100s (arXiv 2407.21783, table 5)"},
    PublishedFailures{FailureSource::Rsc1,
                      {},
                      mean_time(1000, 1, 6.50),
                      {},
                      {},
                      "6.50 failures in 1,000 node-days of 8 A100s, RSC-1 (arXiv 2410.21680)"},
    PublishedFailures{FailureSource::Rsc2,
                      {},
                      mean_time(1000, 1, 2.34),
                      {},
                      {},
                      "2.34 failures in 1,000 node-days of 8 A100s, RSC-2 (arXiv 2410.21680)"},
    PublishedFailures{FailureSource::Opt175b,
                      {},
                      mean_time(128, 1, 2),
                      {},
                      {},
                      "about 2 of 128 machines of 8 A100s go down every day "
                      "(metaseq, projects/OPT/chronicles/final_update.md)"},
    PublishedFailures{FailureSource::Bloom,
                      mean_time(400, 7, 1.5),
                      {},
                      {},
                      {},
                      "1 to 2 GPUs in a week, of about 400 A100s "
                      "(huggingface.co/blog/bloom-megatron-deepspeed)"},
    PublishedFailures{FailureSource::B200,
                      mean_time(504, 55, 10),
                      {},
                      {},
                      {},
                      "10 failures with an XID in 55 days of 504 B200s, of GPUs alone "
                      "(arXiv 2605.09370)"},
};

}  // namespace

std::string_view to_string(FailureCause cause) {
  constexpr std::array<std::string_view, kNumCauses> kNames = {"GPU", "node", "switch", "job"};
  return kNames[to_size(cause)];
}

const PublishedFailures& published_failures(FailureSource source) {
  return *std::find_if(kPublished.begin(), kPublished.end(),
                       [&](const PublishedFailures& p) { return p.source == source; });
}

JobSize job_size(const CampaignSpec& spec, int gpus, int nodes) {
  return {gpus, nodes, (gpus + spec.gpus_per_switch - 1) / spec.gpus_per_switch};
}

double FailureRates::total() const { return std::accumulate(rate.begin(), rate.end(), 0.0); }

double FailureRates::node_share() const {
  const double all = total();
  return all > 0 ? (of(FailureCause::Gpu) + of(FailureCause::Node)) / all : 0;
}

Seconds FailureRates::mean_time() const {
  const double all = total();
  return {all > 0 ? 1 / all : 0};
}

Seconds mean_time_of(const CampaignSpec& spec, FailureCause cause) {
  const PublishedFailures& published = published_failures(spec.failures);
  const std::array<Seconds, kNumCauses> given = {spec.gpu_mtbf, spec.node_mtbf, spec.switch_mtbf,
                                                 spec.job_mtbf};
  const std::array<Seconds, kNumCauses> source = {published.gpu, published.node,
                                                  published.network_switch, published.job};
  const std::size_t i = to_size(cause);
  return given[i].v > 0 ? given[i] : source[i];
}

FailureRates failure_rates(const CampaignSpec& spec, const JobSize& size) {
  const std::array<int, kNumCauses> parts = {size.gpus, size.nodes, size.switches, 1};
  FailureRates rates;
  for (const auto cause : Indices<FailureCause>(kNumCauses)) {
    const Seconds mean = mean_time_of(spec, cause);
    if (mean.v > 0) rates.rate[to_size(cause)] = parts[to_size(cause)] / mean.v;
  }
  return rates;
}

}  // namespace lockstep
