// Compares what llm.c allocates for GPT-2 1558M (by its log: 8 GPUs, ZeRO-1, B=16, T=1024,
// bfloat16, flash attention), tensor by tensor, with the buffers of the lowered program.
#include <cmath>
#include <map>
#include <stdexcept>
#include <vector>

#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr std::int64_t kLayers = 48, kC = 1600, kHeads = 25, kVocab = 50304, kBatch = 16,
                       kSeq = 1024, kRows = kBatch * kSeq;
constexpr std::int64_t kBtc = 2 * kRows * kC;  // bytes
constexpr double kMiB = 1024.0 * 1024;
constexpr std::int64_t kParameters = 1'557'686'400;

constexpr const char* kText = R"([model]
preset = "gpt2-1.5b"
vocab = 50304
[training]
seq_len = 1024
local_batch_size = 16
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "bfloat16"
[parallelism]
data_parallel_shard_degree = 8
zero_stage = 1
[cluster]
preset = "a100-80"
[framework]
preset = "lockstep"
)";

Program lowered(const std::vector<std::string>& overrides = {}) {
  const LoadedScenario loaded = parse_scenario(kText, "llm.c", overrides);
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  auto program = lower(loaded.points.front().scenario);
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

const Function& function(const Program& program, const std::string& name) {
  for (const Function& f : program.functions) {
    if (f.name == name) return f;
  }
  throw std::runtime_error("no function " + name);
}

/// The bytes of what `f` leaves for backward or the next layer. The key names the kernel that
/// writes it, how many kernels of its kind come before it, and which of its results it is.
std::map<std::string, std::int64_t> kept_results(const Function& f) {
  std::map<std::string, std::int64_t> results;
  std::map<KernelKind, int> before;
  for (const Kernel& kernel : f.kernels) {
    const std::string label =
        std::string(info(kernel.kind).name) + " " + std::to_string(before[kernel.kind]++);
    for (std::size_t i = 0; i < kernel.out.size(); ++i) {
      if (!kernel.out[i].present()) continue;
      const std::string& formal = f.formals[kernel.out[i].formal].name;
      if (formal != "saved" && formal != "y") continue;
      results[label + "." + std::to_string(i)] =
          output_elements(kernel, i) * size_of(kernel.out[i].dtype);
    }
  }
  return results;
}

/// The bytes of the activation buffers that are alive at an op.
std::int64_t activations_at(const Role& role, std::size_t op) {
  const OpId at{static_cast<std::int32_t>(op)};
  std::int64_t bytes = 0;
  for (const Buffer& b : role.buffers) {
    const bool alive = !b.is_view() && b.first() <= at && at <= b.last();
    if (b.kind == BufferKind::Activation && alive) bytes += b.bytes.v;
  }
  return bytes;
}

std::size_t last_op(const Role& role, Phase phase) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    if (role.ops[i].phase == phase && role.ops[i].kind == OpKind::Call) last = i;
  }
  return last;
}
std::size_t first_op(const Role& role, Phase phase) {
  std::size_t i = 0;
  while (role.ops[i].phase != phase) ++i;
  return i;
}

}  // namespace

TEST_CASE("llm.c's parameters, gradients and optimizer states of GPT-2 1558M", "[integration]") {
  const Program program = lowered();
  const Role& role = program.roles[0];
  std::map<BufferKind, double> mib;
  std::int64_t parameters = 0;
  for (const Unit& unit : role.units) parameters += unit.elements;
  CHECK(parameters == kParameters);
  for (const Buffer& b : role.buffers) {
    const bool whole = b.kind == BufferKind::Grad && !b.is_view();
    if (b.persistent() || whole) mib[b.kind] += static_cast<double>(b.bytes.v) / kMiB;
  }
  // The log, in MiB: params 2971, grads 2971; m, v and master 742 each, an eighth of 4 bytes.
  CHECK(std::floor(mib[BufferKind::Param]) == 2971);
  CHECK(std::floor(mib[BufferKind::Grad]) == 2971);
  CHECK(std::floor(mib[BufferKind::Master]) == 742);
  CHECK(std::floor(mib[BufferKind::Optimizer] / 2) == 742);
}

TEST_CASE("llm.c's activation tensors of GPT-2 1558M, one by one", "[integration]") {
  const Program program = lowered();
  const std::int64_t statistics = 2 * 4 * kRows;  // mean and rstd, float32
  CHECK(kept_results(function(program, "embed.F")) ==
        std::map<std::string, std::int64_t>{{"embedding_forward 0.0", kBtc}});  // encoded
  CHECK(kept_results(function(program, "block.F")) ==
        std::map<std::string, std::int64_t>{
            {"layer_norm_forward 0.0", kBtc},                       // ln1
            {"layer_norm_forward 0.1", statistics},                 // ln1_mean, ln1_rstd
            {"gemm 0.0", 3 * kBtc},                                 // qkvr
            {"attention_forward 0.0", kBtc},                        // atty
            {"attention_forward 0.1", 4 * kBatch * kHeads * kSeq},  // att (statistics)
            {"gemm 1.0", kBtc},                                     // residual2
            {"layer_norm_forward 1.0", kBtc},                       // ln2
            {"layer_norm_forward 1.1", statistics},                 // ln2_mean, ln2_rstd
            {"gemm 2.0", 4 * kBtc},                                 // fch
            {"gelu_forward 0.0", 4 * kBtc},                         // fch_gelu
            {"gemm 3.0", kBtc}});                                   // residual3
  CHECK(kept_results(function(program, "head.F")) ==
        std::map<std::string, std::int64_t>{
            {"layer_norm_forward 0.0", kBtc},             // lnf
            {"layer_norm_forward 0.1", statistics},       // lnf_mean, lnf_rstd
            {"gemm 0.0", 2 * kRows * kVocab},             // output, in the end its own gradient
            {"cross_entropy 0.0", 2 * kRows * kVocab}});  // the same memory
}

TEST_CASE("llm.c's activations add up to the log's 40409 MiB, and less with recomputation",
          "[integration]") {
  // Of llm.c's list a program here lacks the losses by row (they are added up at once), and has
  // the two scratch buffers, 4 BTC and BTC, as the functions' own workspace.
  const double apart = (4.0 * kRows + 5.0 * kBtc) / kMiB;
  const auto at_end_of_forward = [](const std::vector<std::string>& overrides) {
    const Program program = lowered(overrides);
    const Role& role = program.roles[0];
    return static_cast<double>(activations_at(role, last_op(role, Phase::F))) / kMiB;
  };
  CHECK(at_end_of_forward({}) + apart == Approx(40409.19).margin(0.005));
  // -r 1: one buffer for GELU's results instead of one per layer; here it exists in backward only.
  const double gelu = 4.0 * kBtc / kMiB;
  const std::string selective = "activation_checkpoint.mode=selective";
  CHECK(at_end_of_forward({selective, "activation_checkpoint.selective_ac_option=activation"}) +
            gelu + apart ==
        Approx(31009.19).margin(0.005));
  // -r 2: the norms' results, too. llm.c keeps their statistics and has no buffer for one layer's
  // results; here these come back with them.
  const double statistics = kLayers * 2.0 * 2 * 4 * kRows / kMiB;
  CHECK(at_end_of_forward({selective, "activation_checkpoint.selective_ac_option=op"}) +
            statistics + gelu + apart ==
        Approx(26209.19).margin(0.005));
}

TEST_CASE("only a block's input is kept under full recomputation, and one block comes back",
          "[integration]") {
  const Program program = lowered({"activation_checkpoint.mode=full"});
  const Role& role = program.roles[0];
  const std::int64_t head = kBtc + 2 * 4 * kRows + 2 * kRows * kVocab;
  // Korthikanti et al. 2022: 2sbh a layer; the last block's output is the head's input.
  CHECK(activations_at(role, last_op(role, Phase::F)) == (kLayers + 1) * kBtc + head);
  const std::int64_t block = 15 * kBtc + 2 * 2 * 4 * kRows + 4 * kBatch * kHeads * kSeq;
  CHECK(activations_at(role, first_op(role, Phase::R)) == kLayers * kBtc + block);
}
