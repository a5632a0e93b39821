// Failures: how often the parts of a cluster fail, as their operators have published it, and how
// often a job that needs all of them is interrupted.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/base/index_vector.hpp"
#include "core/spec/campaign.hpp"

namespace lockstep {

/// What fails. A GPU or a node that fails is taken out and another has its place; after the others
/// the job starts again on the same nodes.
enum class FailureCause { Gpu, Node, Switch, Job };
inline constexpr std::size_t kNumCauses = 4;
std::string_view to_string(FailureCause cause);
constexpr bool takes_node(FailureCause cause) {
  return cause == FailureCause::Gpu || cause == FailureCause::Node;
}

/// Mean times between failures of one part; 0: it never fails.
struct PublishedFailures {
  FailureSource source = FailureSource::None;
  Seconds gpu, node, network_switch, job;
  std::string_view where;  // what was counted, and where it is published
};
const PublishedFailures& published_failures(FailureSource source);

/// How many parts of each kind a job needs.
struct JobSize {
  int gpus = 1, nodes = 1, switches = 1;
};
JobSize job_size(const CampaignSpec& spec, int gpus, int nodes);

/// Failures of a job in a second, by cause. Failures of parts are independent and have no memory,
/// so that their rates add up.
struct FailureRates {
  std::array<double, kNumCauses> rate{};
  double of(FailureCause cause) const { return rate[to_size(cause)]; }
  double total() const;
  /// The part of the failures that take a node out.
  double node_share() const;
  Seconds mean_time() const;  // between interruptions of the job; 0: there are none
  bool operator==(const FailureRates&) const = default;
};
/// The mean time between failures of one part: what `spec` gives, or else its source; 0: none.
Seconds mean_time_of(const CampaignSpec& spec, FailureCause cause);
FailureRates failure_rates(const CampaignSpec& spec, const JobSize& size);

}  // namespace lockstep
