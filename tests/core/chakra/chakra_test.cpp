#include "core/chakra/chakra.hpp"

#include <random>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

ChakraNode collective() {
  ChakraNode node;
  node.id = 1;
  node.name = "all_gather_4npus_1MB";
  node.type = ChakraType::Collective;
  node.collective = static_cast<std::int64_t>(ChakraCollective::AllGather);
  node.payload = 1 << 20;
  return node;
}

TEST_CASE("a node has the bytes that Python's protobuf writes for ASTRA-sim", "[core][chakra]") {
  // examples/workload/microbenchmarks/all_gather/4npus_1MB/all_gather.1.et of ASTRA-sim.
  const std::string theirs(
      "\x07\x0a\x05"
      "0.0.4"
      "J\x08\x01\x12\x14"
      "all_gather_4npus_1MB"
      "\x18\x07"
      "R\x0e\x0a\x09is_cpu_op\xd8\x01\0"
      "R\x0d\x0a\x09"
      "comm_typeH\x02"
      "R\x0f\x0a\x09"
      "comm_sizeH\x80\x80@",
      83);
  CHECK(chakra_bytes({collective()}) == theirs);
  const auto read = parse_chakra(theirs, "all_gather.1.et");
  REQUIRE(read.ok());
  CHECK(*read == std::vector<ChakraNode>{collective()});
}

TEST_CASE("nodes of every type come back from their bytes as they were", "[core][chakra]") {
  std::vector<ChakraNode> nodes = {collective()};
  nodes[0].group = "3";
  nodes[0].after_control = {0, 300};
  nodes[0].after_data = {7};
  ChakraNode call;
  call.id = 300;
  call.name = "block.F";
  call.type = ChakraType::Compute;
  call.start_us = 5;
  call.duration_us = 1234567;
  call.duration_ps = 1234567000001;
  call.flops = std::int64_t{1} << 50;
  call.bytes = 1 << 30;
  nodes.push_back(call);
  ChakraNode send;
  send.type = ChakraType::Send;
  send.source = 0;
  send.target = 3;
  send.tag = 2;
  send.payload = 4096;
  nodes.push_back(send);
  ChakraNode load;
  load.id = 7;
  load.type = ChakraType::MemoryLoad;
  load.bytes = 64;
  load.on_host = true;
  nodes.push_back(load);
  const auto back = parse_chakra(chakra_bytes(nodes), "a.0.et");
  REQUIRE(back.ok());
  CHECK(*back == nodes);
}

TEST_CASE("a file that ends anywhere but behind a node is refused, with the byte",
          "[core][chakra]") {
  const std::string bytes = chakra_bytes({collective(), ChakraNode{}});
  const std::size_t head = 8, first = bytes.size() - chakra_bytes({ChakraNode{}}).size() + head;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO(length);
    const auto cut = parse_chakra(bytes.substr(0, length), "a.0.et");
    CHECK(cut.ok() == (length == head || length == first));
    if (!cut) CHECK_THAT(cut.error().message, ContainsSubstring("at byte "));
  }
}

TEST_CASE("bytes that were changed at random are read or refused, and never more",
          "[core][chakra]") {
  const std::string bytes = chakra_bytes({collective(), ChakraNode{}});
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = bytes;
    for (int flips = 0; flips < 3; ++flips) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const auto read = parse_chakra(changed, "a.0.et");
    if (!read) CHECK(exit_code(read.error().kind) == 2);
  }
}

TEST_CASE("a folder of one program is read rank by rank, with its groups", "[core][chakra]") {
  const TemporaryFolder folder;
  ChakraNode node = collective();
  node.group = "1";
  for (int rank = 0; rank < 3; ++rank) {
    write_bytes(folder / ("a." + std::to_string(rank) + ".et"), chakra_bytes({node}));
  }
  write_bytes(folder / "a.json", groups_json({{"1", {0, 1, 2}}}));
  CHECK(is_chakra(folder / "a.1.et"));
  CHECK(is_chakra(folder / "a"));
  CHECK(is_chakra(folder.path.string()));
  for (const std::string& path :
       {std::string(folder / "a.1.et"), std::string(folder / "a"), folder.path.string()}) {
    const auto trace = read_chakra(path);
    REQUIRE(trace.ok());
    CHECK(trace->ranks.size() == 3);
    CHECK(trace->groups.at("1") == std::vector<Rank>{0, 1, 2});
  }
  write_bytes(folder / "a.json", R"({"1": [0, 5]})");
  CHECK_THAT(read_chakra(folder / "a").error().message,
             ContainsSubstring("group 1 has rank 5, and there are files of 3 ranks"));
  write_bytes(folder / "a.json", "[1]");
  CHECK(!read_chakra(folder / "a").ok());
  write_bytes(folder / "b.0.et", chakra_bytes({node}));
  CHECK_THAT(read_chakra(folder.path.string()).error().message,
             ContainsSubstring("several programs"));
  CHECK(!is_chakra(folder / "c"));
}

}  // namespace
}  // namespace lockstep
