#include "core/validation/hardware_words.hpp"

#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("cards are known by their published names", "[validation]") {
  CHECK(profile_of("A100-SXM4-40GB") == "a100-40");
  CHECK(profile_of("A100 40 GB") == "a100-40");
  CHECK(profile_of("A100-PCIE-40GB") == "a100-40-pcie");
  CHECK(profile_of("A100 PCIe 80GB") == "a100-80-pcie");
  CHECK(profile_of("H100 PCIe") == "h100-pcie");
  CHECK(profile_of("A100 (memory size not stated)") == "a100-80");
  CHECK(profile_of("A100-SXM4-80GB (DGX A800)") == "a800");
  CHECK(profile_of("H100-80GB-HBM3") == "h100");
  CHECK(profile_of("H200") == "h200");
  CHECK(profile_of("H20 96GB") == "h20");
  CHECK(profile_of("GH200") == "gh200");
  CHECK(profile_of("GB200 NVL72") == "gb200");
  CHECK(profile_of("B200 8x P6-B200 (NVLink5)") == "b200");
  CHECK(profile_of("HGX B300") == "b300");
  CHECK(profile_of("AMD Instinct MI325X") == "mi325x");
  CHECK(profile_of("AMD Instinct MI355X") == "mi355x");
  CHECK(profile_of("AMD Instinct MI325X or MI355X (blog covers both)").empty());
  CHECK(profile_of("TPU v5p").empty());
}

TEST_CASE("an NVLink domain is the rack's where the name or the card says so", "[validation]") {
  CHECK(nvlink_domain("GB200 NVL72", "") == 72);
  CHECK(nvlink_domain("GB300", "400 Gb/s per GPU") == 72);
  CHECK(nvlink_domain("GB200", "NVL36") == 36);
  CHECK(nvlink_domain("B200", "NVL72; 8x400Gb/s") == 72);
  CHECK(!nvlink_domain("H100 NVL", "NVLink4"));
  CHECK(!nvlink_domain("HGX B300 NVL16", ""));  // sixteen dies, eight GPUs
}

TEST_CASE("a network's line gives the rate of a GPU's share", "[validation]") {
  struct Line {
    const char* text;
    double gigabits;  // of a GPU
    long node = 8;
  };
  for (const Line& line : {Line{"NVLink3; 8x200Gb/s HDR IB", 200},
                           {"NVLink4; 8x400Gb/s IB per node (reference architecture)", 400},
                           {"1600Gb/s RoCE per node", 200},
                           {"800Gb/s per node (their config)", 100},
                           {"NVLink3; 4x100Gb/s Omni-Path per node", 50},
                           {"NVL72; 400 Gbit/s per GPU between domains", 400, 72},
                           {"400Gb/s per GPU", 400},
                           {"2x200Gb/s HDR InfiniBand per node (400Gb/s per node)", 100, 4},
                           {"8x400G IB", 400},
                           {"8 x 400 Gbps RoCEv2", 400},
                           {"IB NDR 400 per GPU", 400},
                           {"InfiniBand NDR", 400},
                           {"HDR100 InfiniBand", 100},
                           {"RoCE 200 Gbps x8", 200},
                           {"EFA 3200 Gbps", 400},
                           {"EFA 400 Gbps", 50},
                           {"3.2 Tb/s RDMA", 400},
                           {"InfiniBand HDR 200Gb/s, 4 NICs per node", 100},
                           {"100GbE", 12.5},
                           {"100Gb/s InfiniBand EDR per node", 12.5},
                           {"50 GB/s per GPU", 400},
                           {"8x400Gb/s IB per node (400 Gb/s per GPU)", 400},
                           {"8 GPUs per node; 400 Gb/s InfiniBand", 400},
                           {"NDR InfiniBand, 4 NICs per node", 200},
                           {"NVLink 900GB/s; ConnectX-7 400Gb/s", 400}}) {
    INFO(line.text);
    const auto gigabits = gpu_gigabits(line.text, line.node);
    REQUIRE(gigabits);
    CHECK(*gigabits == Approx(line.gigabits));
  }
  for (const char* text : {"", "NVLink only", "NVLink in node; RoCE between nodes", "NVLink5",
                           "NVLink 900GB/s", "InfiniBand between 64 nodes"}) {
    INFO(text);
    CHECK(!gpu_gigabits(text, 8));
  }
}
