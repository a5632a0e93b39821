// What a process keeps on its device beside the program's arena: closed forms of every term.
#include "core/memory/device_memory.hpp"

#include <algorithm>

#include "core/lower/capacity.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// hidden 64, 4 layers, so that a block's four weights have 12 x 64² elements.
constexpr const char* kModel = R"([model]
architecture = "gpt2"
layers = 4
hidden = 64
heads = 4
vocab = 256
[training]
seq_len = 32
local_batch_size = 64
mixed_precision_param = "bfloat16"
[cluster]
preset = "h100"
)";

Scenario scenario(const std::string& sections) {
  const LoadedScenario loaded =
      parse_scenario(kModel + sections, "memory", {}, kOverrideFile, Software::Own);
  for (const Error& error : loaded.errors) FAIL_CHECK(to_string(error));
  REQUIRE(loaded.ok());
  return loaded.points.front().scenario;
}

Program program_of(const Scenario& s) {
  Result<Program> program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

DeviceMemory memory_of(const std::string& sections) {
  const Scenario s = scenario(sections);
  const Program program = program_of(s);
  return device_memory(program, program.roles.front(), s.cluster);
}

std::int64_t term(const DeviceMemory& memory, const std::string& name) {
  const auto found = std::find_if(memory.terms.begin(), memory.terms.end(),
                                  [&](const MemoryTerm& t) { return t.name == name; });
  return found == memory.terms.end() ? 0 : found->bytes.v;
}

const char* const kTwoByData = "[parallelism]\ndata_parallel_replicate_degree = 2\n";

}  // namespace

TEST_CASE("a device that is its own host keeps nothing beside the arena", "[core][memory]") {
  Scenario s = scenario("");
  s.cluster.device.host_memory_bandwidth = {};
  const Program program = program_of(s);
  const DeviceMemory memory = device_memory(program, program.roles.front(), s.cluster);
  CHECK(memory.terms.empty());
  CHECK(memory.figures() ==
        MemoryFigures{program.roles[0].arena, program.roles[0].arena, program.roles[0].arena});
}

TEST_CASE("the sums of memory differ by the places of their terms", "[core][memory]") {
  const DeviceMemory memory{{1000},
                            {{"tensor", {10}, "", MemoryPlace::Tensors},
                             {"fewer", {-3}, "", MemoryPlace::Tensors},
                             {"lost", {100}, "", MemoryPlace::Blocks},
                             {"free", {7000}, "", MemoryPlace::Blocks, true},
                             {"driver", {20000}, "", MemoryPlace::Process}}};
  CHECK(memory.figures() == MemoryFigures{{1007}, {28107}, {21107}});
}

TEST_CASE("context and workspaces are what the framework's keys and the card say",
          "[core][memory]") {
  const std::string framework = "[framework]\ncontext_mb = 100.0\nworkspaces = 3\n";
  CHECK(term(memory_of(framework), "driver's context") == 100 * kMebibyte);
  CHECK(term(memory_of(framework), "workspaces of cuBLAS") == 3 * 32 * kMebibyte);
  const std::string older = framework + "[cluster.device]\ncompute_capability = 8.0\n";
  CHECK(term(memory_of(older), "workspaces of cuBLAS") == 3 * 8519680);  // PyTorch's own number
}

TEST_CASE("every communicator has the buffers of its channels", "[core][memory]") {
  // Gradients are reduced over two ranks: two connections a channel, 16 channels, 12 MiB each.
  CHECK(term(memory_of(""), "buffers of NCCL") == 0);
  CHECK(term(memory_of(kTwoByData), "buffers of NCCL") == 2 * 16 * 12 * kMebibyte);
  const std::string more = std::string(kTwoByData) + "[framework]\ncommunicators = 3\n";
  CHECK(term(memory_of(more), "buffers of NCCL") == 4 * 2 * 16 * 12 * kMebibyte);
  const std::string other = std::string(kTwoByData) + "[cluster.network]\nlibrary = \"ring\"\n";
  CHECK(term(memory_of(other), "buffers of NCCL") == 0);
  // 24 channels of four A100s took 688 MB (NVIDIA/nccl, issue 964).
  const std::string four =
      "[parallelism]\ndata_parallel_replicate_degree = 4\n[cluster.network]\nchannels = 24\n";
  CHECK(static_cast<double>(term(memory_of(four), "buffers of NCCL")) ==
        Approx(688.0 * kMebibyte).epsilon(0.06));
}

TEST_CASE("placeholders of gradients count each shape of weight once", "[core][memory]") {
  const std::string on = "[framework]\ngradient_placeholders = true\n";
  CHECK(term(memory_of(on), "placeholders of gradients") == 2 * 12 * 64 * 64);
  CHECK(term(memory_of(on + "fused_gradient_accumulation = false\n"),
             "placeholders of gradients") == 0);
}

TEST_CASE("copies of gradients stand beside float32 sums only", "[core][memory]") {
  const std::string on = "[framework]\ngradient_copies = true\n";
  const Program program = program_of(scenario(""));
  std::int64_t elements = 0;
  for (const Unit& unit : program.roles[0].units) elements += unit.elements;
  CHECK(term(memory_of(on), "gradients in 16 bits") == 2 * elements);
  CHECK(term(memory_of(on + "gradients_as_parameters = true\n"), "gradients in 16 bits") == 0);
}

TEST_CASE("an optimizer may keep fewer bytes of a parameter than a master and two moments",
          "[core][memory]") {
  const Program program = program_of(scenario(""));
  std::int64_t elements = 0;
  for (const Unit& unit : program.roles[0].units) elements += unit.shard_elements;
  const std::string four = "[framework]\noptimizer_bytes = 4.0\n";
  CHECK(term(memory_of(four), "optimizer's states") == -8 * elements);
  CHECK(term(memory_of(""), "optimizer's states") == 0);
  // Two ranks that share the states save half each.
  const std::string zero = "[parallelism]\ndata_parallel_shard_degree = 2\nzero_stage = 1\n";
  CHECK(term(memory_of(four + zero), "optimizer's states") == -8 * elements / 2);
}

TEST_CASE("parameters that move one by one are whole one at a time", "[core][memory]") {
  const char* const name = "parameters and gradients one by one";
  const std::string zero = "[parallelism]\ndata_parallel_shard_degree = 2\nzero_stage = 3\n";
  const std::string one = zero + "[framework]\nparameter_part_us = 20.0\n";
  const Program program = program_of(scenario(zero));
  const Role& role = program.roles[0];
  std::int64_t units = 0;
  int kinds = 0;
  for (const BufferKind kind : {BufferKind::ParamFull, BufferKind::Grad}) {
    std::int64_t whole = 0;
    for (const Buffer& b : role.buffers) {
      const bool block = b.name >= 0 && program.names[to_size(b.name)].starts_with("blocks.");
      if (b.kind == kind && block && !b.persistent() && is_alive(b, fullest_op(role))) {
        whole += b.bytes.v;
      }
    }
    units += whole;
    kinds += whole > 0 ? 1 : 0;
  }
  REQUIRE(kinds > 0);
  // A block's largest weight has 4 x 64² elements of two bytes.
  CHECK(term(memory_of(one), name) == kinds * 4 * 64 * 64 * 2 - units);
  CHECK(term(memory_of(zero), name) == 0);
  CHECK(term(memory_of("[framework]\nparameter_part_us = 20.0\n"), name) == 0);
}

TEST_CASE("what an engine keeps of the logits lies in the arena", "[core][memory]") {
  // 64 x 32 rows and a vocabulary of 256, where the head is fullest.
  const auto alive = [](const std::string& keys) {
    return most_alive(program_of(scenario(keys)).roles[0]).v;
  };
  const std::int64_t logits = 64 * 32 * 256;
  const std::int64_t with = alive("[framework]\nfloat32_logits = 40\n");
  CHECK(alive("[framework]\nfloat32_logits = 41\n") - with == 4 * logits);
  CHECK(alive("[framework]\nfloat32_logits = 40\nkept_logits = 1\n") - with == 2 * logits);
}

TEST_CASE("blocks lose and hold a part of what is not persistent", "[core][memory]") {
  const Program program = program_of(scenario(""));
  const std::int64_t alive = most_alive(program.roles[0]).v;
  std::int64_t transient = alive;
  for (const Buffer& b : program.roles[0].buffers) {
    if (b.persistent()) transient -= b.bytes.v;
  }
  const DeviceMemory memory =
      memory_of("[framework]\ncaching_allocator = true\nfragments = 0.25\ncached = 0.5\n");
  CHECK(term(memory, "gaps of the arena") == alive - program.roles[0].arena.v);
  CHECK(alive <= program.roles[0].arena.v);
  CHECK(term(memory, "lost between blocks") == transient / 4);
  CHECK(term(memory, "held by the allocator") == transient / 2);
  CHECK(memory.figures().process - memory.figures().needed == Bytes{transient / 2});
}

TEST_CASE("fp8 keeps the weights of blocks twice more, unless parameters are in 8 bits",
          "[core][memory]") {
  const std::string on = "[framework]\nfp8 = \"delayed\"\n";
  const char* const weights = "weights in 8 bits, and transposed";
  CHECK(term(memory_of(""), weights) == 0);
  CHECK(term(memory_of(on), weights) == 4 * 2 * 12 * 64 * 64);  // of 4 blocks
  CHECK(term(memory_of(on + "fp8_parameters = true\n"), weights) == 0);
  CHECK(term(memory_of(on + "[cluster.device]\nfp8_tflops = 0.0\n"), weights) == 0);
  const std::string fsdp = "[parallelism]\ndata_parallel_shard_degree = 2\nzero_stage = 3\n";
  CHECK(term(memory_of(on + fsdp), weights) == 0);  // cast whenever they are gathered
}

TEST_CASE("fp8 keeps the inputs of products in half of the bytes", "[core][memory]") {
  // When most is alive, all four blocks keep 64 x 32 rows of two norms' results and of the
  // activation's, 2 x 64 + 256 elements, in one byte of two; attention's result is in both types.
  const DeviceMemory memory = memory_of("[framework]\nfp8 = \"delayed\"\n");
  CHECK(term(memory, "inputs of products in 8 bits") == -4 * 64 * 32 * (2 * 64 + 256 - 64));
}

TEST_CASE("NVFP4 keeps weights twice and inputs once in 4.5 bits", "[core][memory]") {
  const DeviceMemory memory =
      memory_of("[framework]\nfp4 = \"nvfp4\"\n[cluster.device]\nfp4_tflops = 4000.0\n");
  CHECK(term(memory, "weights in 4 bits, and transposed") == 4 * 2 * 12 * 64 * 64 * 9 / 16);
  // As in 8 bits: of 2 bytes 23/16 are saved, and attention's result is kept in both types.
  CHECK(term(memory, "inputs of products in 4 bits") ==
        -4 * 64 * 32 * ((2 * 64 + 256) * 23 - 64 * 9) / 16);
}

TEST_CASE("a refusal names what is needed beside the program", "[core][memory]") {
  Scenario s = scenario("[framework]\ncontext_mb = 5000.0\n");
  s.cluster.device.memory = {4'000'000'000};
  const Result<void> fits = check_capacity(program_of(s), s.cluster);
  REQUIRE(!fits);
  CHECK(fits.error().kind == ErrorKind::OutOfMemory);
  CHECK(fits.error().message.find("driver's context 5.2 GB") != std::string::npos);
  CHECK(fits.error().message.find("its device has 4.0 GB") != std::string::npos);
  s.cluster.device.memory = {6'000'000'000};
  CHECK(check_capacity(program_of(s), s.cluster));
}
