#include "core/cluster/certainty.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace lockstep {
namespace {

// From here on the host, not the device, is what small kernels wait for.
constexpr Seconds kSlowLaunch{10e-6};

// Quantiles 0.1 and 0.9 of measured / simulated, every family with the same weight; the test of
// this file computes them again from validation/residuals.csv.
constexpr LikelyFactors kFewLaunches{0.827, 1.145};
constexpr LikelyFactors kManyLaunches{0.854, 1.625};
constexpr LikelyFactors kMemory{0.848, 1.254};

// The software and the cards of published runs in validation/.
constexpr std::string_view kSoftware[] = {
    "bigscience-2022", "deepspeed-2021", "deepspeed-2022", "fsdp-eager",    "llm-foundry",
    "llm.c",           "maxtext",        "megatron-2020",  "megatron-2021", "megatron-2023",
    "megatron-2024",   "megatron-core",  "megatron-tests", "paxml",         "torchtitan"};
constexpr std::string_view kCards[] = {
    "AMD Instinct MI350X-288GB", "AMD Instinct MI355X-288GB", "NVIDIA A100-SXM4-40GB",
    "NVIDIA A100-SXM4-80GB",     "NVIDIA A800-SXM4-80GB",     "NVIDIA B200-SXM6-180GB",
    "NVIDIA GB200-186GB",        "NVIDIA GB300-288GB",        "NVIDIA H100-SXM5-80GB",
    "NVIDIA H200-SXM5-141GB",    "NVIDIA H800-SXM5-80GB",     "NVIDIA V100-SXM2-32GB"};

template <class List>
bool has(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

std::optional<Certainty> certainty_of(const ClusterSpec& cluster) {
  const std::string software = software_of(cluster);
  if (software.empty() || software == FrameworkSpec{}.preset) return std::nullopt;
  if (has(kSoftware, software) && has(kCards, cluster.device.name)) {
    const bool many = cluster.framework.host_kernel >= kSlowLaunch;
    return Certainty{many ? kManyLaunches : kFewLaunches, kMemory};
  }
  return Certainty{{std::min(kFewLaunches.least, kManyLaunches.least),
                    std::max(kFewLaunches.most, kManyLaunches.most)},
                   kMemory};
}

}  // namespace lockstep
