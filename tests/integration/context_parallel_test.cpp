// Simulates long sequences, at the scale for which context parallelism is meant.
#include <algorithm>
#include <limits>
#include <set>

#include "core/cost/collective.hpp"
#include "core/cost/network.hpp"
#include "tests/integration/simulated.hpp"

using namespace lockstep;
using test::Simulated;

namespace {

Simulated simulate(const std::string& file) {
  return std::move(test::simulate_file(test::scenario_file("context-parallel/" + file)).front());
}

/// The bytes and the times, in ps, of the exchanges of a kind over an axis.
std::set<std::pair<std::int64_t, std::int64_t>> exchanges(const Simulated& s, OpKind kind,
                                                          const std::string& axis = "cp") {
  std::set<std::pair<std::int64_t, std::int64_t>> found;
  for (const Span& span : s.trace.spans) {
    const Role& role = s.program.role_of(span.rank);
    const Op& op = role.op(span.op);
    if (op.kind != kind || s.program.group(op.group()).name != axis) continue;
    found.emplace(payload_bytes(s.program, role, op).v, (span.end - span.active).count());
  }
  return found;
}

}  // namespace

TEST_CASE("slices of a sequence are exchanged over the links of the node that holds it",
          "[integration]") {
  const Simulated s = simulate("llama3-8b-128k-cp8-64xh100.toml");
  CHECK(s.program.mesh.world_size() == 64);
  CHECK(s.program.roles.size() == 1);
  // 16 K tokens a rank; 32 query heads and 8 key heads of 128, bfloat16.
  const std::int64_t result = std::int64_t{16384} * 32 * 128 * 2;
  const std::int64_t qkv = std::int64_t{16384} * (32 + 2 * 8) * 128 * 2;
  const auto found = exchanges(s, OpKind::AllToAll);
  REQUIRE(!found.empty());
  std::set<std::int64_t> sizes;
  for (const auto& [bytes, picoseconds] : found) {
    sizes.insert(bytes);
    const double seconds =
        collective_time(OpKind::AllToAll, Bytes{bytes}, 8,
                        group_links(s.scenario.cluster, {0, 1, 2, 3, 4, 5, 6, 7}),
                        s.scenario.cluster)
            .time.total()
            .v;
    CHECK(double(picoseconds) * 1e-12 >= seconds * (1 - 1e-6));
    // Computation beside it slows it down, and up to two gathers and scatters divide its ports.
    CHECK(double(picoseconds) * 1e-12 < 3 * 1.2 * seconds);
  }
  CHECK(sizes == std::set<std::int64_t>{result, qkv});
}

TEST_CASE("128 K tokens over sixteen nodes gather one key head of every rank", "[integration]") {
  const Simulated s = simulate("llama3-405b-128k-16384xh100.toml");
  CHECK(s.program.mesh.world_size() == 16384);
  CHECK(s.program.roles.size() == 16);
  const std::int64_t keys = std::int64_t{131072} * 2 * 128 * 2;  // of all tokens, bfloat16
  for (const OpKind kind : {OpKind::AllGather, OpKind::ReduceScatter}) {
    const auto found = exchanges(s, kind);
    REQUIRE(!found.empty());
    for (const auto& [bytes, picoseconds] : found) {
      CHECK(bytes == keys);
      CHECK(picoseconds > 0);
    }
  }
  CHECK(exchanges(s, OpKind::AllToAll).empty());
}

TEST_CASE("a million tokens go round 32 nodes, eight heads of keys beside each other",
          "[integration]") {
  const Simulated s = simulate("llama3-8b-1m-ring-256xh100.toml");
  CHECK(s.program.mesh.world_size() == 256);
  // 4 K tokens a rank; in its node eight times as many, of one of the eight key heads.
  const std::int64_t result = std::int64_t{4096} * 32 * 128 * 2;
  const std::int64_t keys = std::int64_t{8 * 4096} * 2 * 128 * 2;
  std::set<std::int64_t> exchanged;
  for (const auto& found : exchanges(s, OpKind::AllToAll, "cp_heads"))
    exchanged.insert(found.first);
  CHECK(exchanged == std::set<std::int64_t>{result, result + keys});
  const auto turns = exchanges(s, OpKind::Rotate, "cp_keys");
  REQUIRE(!turns.empty());
  const double message = p2p_time(Bytes{keys}, device_port(s.scenario.cluster)).transfer.v;
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& [bytes, picoseconds] : turns) {
    CHECK(bytes == keys);
    const double seconds = double(picoseconds) * 1e-12;
    CHECK(seconds >= message);  // each over a port of its own
    shortest = std::min(shortest, seconds);
  }
  CHECK(shortest < 2 * message);  // others share the port with gathers and sums of the weights
  // Forward, again for the backward pass, which recomputes it, and backward with the gradients.
  const Role& role = s.program.roles[0];
  const auto rotations = std::count_if(role.ops.begin(), role.ops.end(),
                                       [](const Op& op) { return op.kind == OpKind::Rotate; });
  CHECK(rotations == 32 * (31 + 31 + 2 * 31));
}
