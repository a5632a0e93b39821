#include "core/validation/collectives.hpp"

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// Two nodes of four devices, with links of 100 GB/s and 1 us inside a node, and for each device a
/// port of 10 GB/s and 5 us outside.
ClusterSpec two_nodes() {
  ClusterSpec c;
  c.nodes = 2;
  c.devices_per_node = 4;
  c.intra_node = {{100e9}, {1e-6}};
  c.inter_node = {{10e9}, {5e-6}};
  return c;
}

}  // namespace

TEST_CASE("bandwidths are nccl-tests' of the time", "[validation]") {
  const CollectiveEstimate e =
      estimate_collective(two_nodes(), OpKind::AllReduce, {400'000'000}, 4);
  // A ring of four: six steps of 1 us and 100 MB at 100 GB/s.
  CHECK(e.time.v == Approx(6 * (1e-6 + 1e-3)));
  CHECK(e.algorithm_bandwidth.v == Approx(4e8 / e.time.v));
  CHECK(e.bus_bandwidth.v == Approx(4e8 / e.time.v * 1.5));
  CHECK(e.link == two_nodes().intra_node);
  CHECK(e.over == "links inside a node");
}

TEST_CASE("over nodes the bus bandwidth nears that of all ports of a node", "[validation]") {
  const CollectiveEstimate e =
      estimate_collective(two_nodes(), OpKind::AllReduce, {std::int64_t{1} << 40}, 8);
  // (n-1)/(k-1) = 7 of a port's rate for two equal nodes of four
  CHECK(e.bus_bandwidth.v == Approx(70e9).epsilon(1e-3));
  CHECK(e.link.latency.v == 5e-6);
}

TEST_CASE("bus factors are those of a ring", "[validation]") {
  CHECK(bus_factor(OpKind::AllReduce, 8) == 1.75);
  CHECK(bus_factor(OpKind::AllGather, 8) == 0.875);
  CHECK(bus_factor(OpKind::AllToAll, 2) == 0.5);
  CHECK(bus_factor(OpKind::Broadcast, 8) == 1);
  for (const std::string& name : collective_names()) {
    CHECK(to_string(*collective_named(name)) == name);
  }
  CHECK(!collective_named("all_reduced"));
}

TEST_CASE("measured collectives are scored by size, and what has no card says so", "[validation]") {
  const auto table = parse_csv(
      "source,hw,nodes,ranks,collective,algorithm,payload_bytes,busbw_GBps,time_ms,notes\n"
      "s,H200 8x node,1,8,all_reduce,Ring,8589934592,365.6,41.117,\n"
      "s,H200 8x node,1,8,all_reduce,Ring,65536,1,0.05,\n"
      "s,not stated,1,8,all_reduce,Ring,65536,1,0.05,\n"
      "s,H200,1,8,p2p,NCCL,65536,1,0.05,\n"
      "s,H200,1,9,all_reduce,NCCL,65536,1,0.05,\n"
      "s,H200,1,8,all_reduce,NCCL,65536,1,,\n",
      "collectives.csv");
  REQUIRE(table.ok());
  const CollectiveRows read = read_collective_rows(*table);
  REQUIRE(read.errors.empty());
  const auto rows = validate_collectives(read.rows);
  REQUIRE(rows.size() == 6);
  CHECK(rows[2].reason == "no profile of the card");
  CHECK(rows[3].reason == "not a collective");
  CHECK(rows[4].reason == "more ranks than the nodes have");
  CHECK(rows[5].reason == "size or time not given");
  const auto classes = by_size(rows);
  REQUIRE(classes.size() == 6);
  CHECK(classes[0].time.count == 0);
  CHECK(classes[1].time.count == 1);
  CHECK(classes[4].time.count == 1);
  // the profile's bandwidth is that of this very measurement (hardware/h200.toml)
  CHECK(classes[4].time.median < 0.01);
  CHECK(classes[5].time.count == 2);
  REQUIRE(by_kind(rows).size() == 1);
  CHECK(by_kind(rows)[0].name == "all_reduce");
  REQUIRE(by_machine(rows).size() == 1);
  CHECK(by_machine(rows)[0].name == "H200 8x node");
  CHECK(rows[0].estimate->chosen.algorithm == CollectiveAlgorithm::Ring);  // as its row says
}
