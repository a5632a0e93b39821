// lockstep collective: prints what the cost model says of a collective, in the form of nccl-tests.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/validation/collective_question.hpp"

namespace lockstep {
namespace {

std::string rate_text(BytesPerSecond rate) { return fmt::format("{:.2f}", rate.v / 1e9); }

}  // namespace

int collective_command(const CollectiveArguments& arguments, const Console& console) {
  const Result<CollectiveAnswer> answered = answer(arguments);
  if (!answered) return report_error(console, answered.error());
  if (arguments.json) {
    console.out << collective_json(*answered);
    return 0;
  }
  TextTable table(
      {"size", "time (us)", "algbw (GB/s)", "busbw (GB/s)", {"algorithm", 2}, {"protocol", 1}}, 0);
  for (const auto& [bytes, estimate] : answered->sizes) {
    table.add({std::to_string(bytes.v), fmt::format("{:.2f}", estimate.time.v * 1e6),
               rate_text(estimate.algorithm_bandwidth), rate_text(estimate.bus_bandwidth),
               std::string(to_string(estimate.chosen.algorithm)),
               std::string(to_string(estimate.chosen.protocol))});
  }
  const ClusterSpec& cluster = answered->cluster;
  const CollectiveEstimate& last = answered->sizes.back().estimate;
  const std::string head =
      fmt::format("{} of {} ranks on {} {} of {}\n", arguments.kind, answered->ranks, cluster.nodes,
                  cluster.nodes == 1 ? "node" : "nodes", cluster.device.name) +
      (cluster.network.library == CollectiveLibrary::Ring
           ? fmt::format("{}, n = {}, α = {}, B = {} GB/s ({})\n\n", last.formula, answered->ranks,
                         time_text(last.link.latency), rate_text(last.link.bandwidth), last.over)
           : fmt::format("as NCCL chooses; {} of {} GB/s\n\n", last.over,
                         rate_text(last.link.bandwidth)));
  console.out << wrapped(head, console.screen(), 2) << table.text(console.screen());
  return 0;
}

}  // namespace lockstep
