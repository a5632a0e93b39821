// Simulates tensor parallelism at the scale for which it is meant: links, roles, and what folding
// saves.
#include <set>

#include "backends/backends.hpp"
#include "core/cost/collective.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

struct Simulated {
  Scenario scenario;
  Program program;
  RunResult run;
};

Simulated simulate(const std::string& file, const std::vector<std::string>& overrides = {}) {
  const LoadedScenario loaded = load_scenario(
      std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/tensor-parallel/" + file, overrides);
  REQUIRE(loaded.ok());
  Simulated s;
  s.scenario = loaded.points.front().scenario;
  auto program = lower(s.scenario);
  if (!program) FAIL(to_string(program.error()));
  s.program = std::move(*program);
  auto backend = make_backend("sim");
  REQUIRE(backend.ok());
  auto run = (*backend)->run(s.program, s.scenario.cluster, {});
  if (!run) FAIL(to_string(run.error()));
  s.run = std::move(*run);
  return s;
}

/// The bytes and transfer times of a kind of collective on the stream "layer".
std::set<std::pair<std::int64_t, std::int64_t>> tp_transfers(const Simulated& s, OpKind kind) {
  std::set<std::pair<std::int64_t, std::int64_t>> found;
  for (const Span& span : s.run.trace.spans) {
    const Role& role = s.program.role_of(span.rank);
    const Op& op = role.op(span.op);
    if (op.kind != kind || op.stream != Stream::Layer) continue;
    found.emplace(payload_bytes(s.program, role, op).v, (span.end - span.active).count());
  }
  return found;
}

}  // namespace

TEST_CASE("tensor parallel groups inside a node use the node's links, wider ones the network",
          "[integration]") {
  for (const int per_node : {8, 4}) {
    const Simulated s = simulate("llama2-70b-tp8-pp4-dp2-64xh100.toml",
                                 {"parallelism.enable_sequence_parallel=false",
                                  "cluster.devices_per_node=" + std::to_string(per_node),
                                  "cluster.nodes=" + std::to_string(64 / per_node)});
    const ClusterSpec& cluster = s.scenario.cluster;
    const GroupLinks links = group_links(cluster, {0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(links.nodes == 8 / per_node);
    // Two nodes: a ring through each of four ports, (n-1)/(k-1) = 7 of them.
    CHECK(links.ring.bandwidth.v == Approx(per_node == 8 ? cluster.intra_node.bandwidth.v
                                                         : 7 * cluster.inter_node.bandwidth.v));
    const auto found = tp_transfers(s, OpKind::AllReduce);
    REQUIRE(!found.empty());
    const std::int64_t rows = std::int64_t{4096} * 8192 * 2;  // bytes
    const double seconds =
        collective_time(OpKind::AllReduce, Bytes{rows}, 8, links, cluster).time.total().v;
    CHECK(double(found.begin()->second) * 1e-12 == Approx(seconds).epsilon(1e-6));
    for (const auto& [bytes, picoseconds] : found) {  // computation beside it slows it down
      CHECK(bytes == rows);
      CHECK(double(picoseconds) * 1e-12 < 1.2 * seconds);
    }
  }
}

TEST_CASE("ranks of equal role are simulated once, however many there are", "[integration]") {
  const Simulated s = simulate("llama3-405b-16384xh100.toml");
  CHECK(s.program.mesh.world_size() == 16384);
  CHECK(s.program.roles.size() == 16);
  std::set<Rank> shown(s.run.trace.same_as.begin(), s.run.trace.same_as.end());
  CHECK(shown.size() == 16);
}
