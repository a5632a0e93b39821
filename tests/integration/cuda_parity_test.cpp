// Tests strategies on the CUDA backend without a GPU: the device, its events and the transfers
// between ranks on a fake GPU, which runs in random orders what events allow; then the kernels, run
// by fibers.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>

#include "backends/backends.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "backends/cuda/cuda_backend.hpp"
#include "core/lower/lower.hpp"
#include "tests/backends/cuda/cpu_kernels.hpp"
#include "tests/backends/cuda/emulated_gpu.hpp"
#include "tests/backends/cuda/fake_nccl.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"
#include "tests/integration/kernel_conformance.hpp"
#include "tests/integration/parity_table.hpp"

using namespace lockstep;
using cuda::test::cpu_kernels;
using test::lowered;
using test::parity_row;
using test::parity_scenario;
using test::ParityRow;

namespace {

/// A fake GPU that gives its log of calls away when it is destroyed.
struct LoggedGpu : cuda::test::FakeGpu {
  LoggedGpu(unsigned seed, const cuda::test::FakeKernels& kernels, std::vector<std::string>* to)
      : FakeGpu(seed, kernels), log_goes_to(to) {}
  ~LoggedGpu() override {
    if (log_goes_to != nullptr) *log_goes_to = std::move(log);
  }
  LoggedGpu(const LoggedGpu&) = delete;
  LoggedGpu& operator=(const LoggedGpu&) = delete;
  std::vector<std::string>* log_goes_to;
};

RunResult train(Backend& backend, const Program& program, const Scenario& s, int steps,
                RunOptions options = {}) {
  options.steps = steps;
  options.return_state = true;
  options.drive_folder = std::filesystem::temp_directory_path().string();
  auto run = backend.run(program, s.cluster, options);
  if (!run) FAIL(to_string(run.error()));
  return std::move(*run);
}

RunResult train_on_fake(const Program& program, const Scenario& s, int steps,
                        const cuda::test::FakeKernels& kernels, unsigned seed,
                        std::vector<std::string>* log = nullptr, const RunOptions& options = {},
                        bool graphs = false) {
  const CudaPlatform platform{[&]() -> Result<std::vector<std::unique_ptr<cuda::Driver>>> {
                                std::vector<std::unique_ptr<cuda::Driver>> gpus;
                                gpus.push_back(std::make_unique<LoggedGpu>(seed, kernels, log));
                                return gpus;
                              },
                              []() -> Result<std::unique_ptr<cuda::Nccl>> {
                                return Error{ErrorKind::Unsupported, "no NCCL here", std::nullopt};
                              },
                              cuda_platform().make_host};
  const auto backend =
      make_cuda_backend(platform, {.communicator = "local", .graphs = graphs}, {.poison = true});
  return train(*backend, program, s, steps, options);
}

}  // namespace

TEST_CASE("every strategy on the CUDA device equals the CPU's run to the last bit",
          "[integration][cuda]") {
  constexpr int kSteps = 3;
  unsigned seed = 1;
  const auto check = [&](Architecture kind, const ParityRow& row) {
    INFO(row.name);
    const Scenario s = parity_scenario(kind, row, DType::F32);
    const Program program = lowered(s);
    const auto cpu = make_cpu_backend();
    const RunResult expected = train(*cpu, program, s, kSteps);
    const RunResult run = train_on_fake(program, s, kSteps, cpu_kernels(), seed++);
    CHECK(run.state == expected.state);
    CHECK(run.trace.peak_memory == expected.trace.peak_memory);
    CHECK(run.trace.spans.size() == expected.trace.spans.size());
    for (std::size_t i = 0; i < kSteps; ++i) {
      CHECK(run.trace.steps[i].loss == expected.trace.steps[i].loss);
      const double norm = run.trace.steps[i].grad_norm, wanted = expected.trace.steps[i].grad_norm;
      CHECK((norm == wanted || (std::isnan(norm) && std::isnan(wanted))));  // where steps overflow
    }
  };
  for (const ParityRow& row : test::parity_rows()) {
    check(seed % 2 == 0 ? Architecture::Gpt2 : Architecture::Llama, row);
  }
  for (const ParityRow& row : test::image_rows()) check(Architecture::Resnet, row);
  for (const ParityRow& row : test::patch_rows()) check(Architecture::Vit, row);
}

TEST_CASE("NCCL between fake GPUs moves what the CPU's collectives move, issued and in graphs",
          "[integration][cuda]") {
  constexpr int kSteps = 3;
  constexpr const char* kCodes =
      "dp_shard=4 zero_quantized_weights=true zero_quantized_gradients=true "
      "zero_quantized_gradients_inner_degree=2 zero_quantized_block_size=4";
  constexpr const char* kDividedExperts =
      "ep=2 dp_shard=2 tp=2 enable_sequence_parallel=true expert_tensor_parallel_degree=2 "
      "model.experts=4 model.capacity_factor=0";
  unsigned seed = 1;
  for (const char* keys :
       {"dp_replicate=3", "dp_shard=2 zero_stage=1", "dp_shard=3 zero_stage=2", "dp_shard=3",
        "dp_replicate=2 dp_shard=2", "pp=3 mb=6", "pp=2 mb=4 schedule=ZBVZeroBubble v=2",
        "pp=2 mb=4 schedule=Interleaved1F1B v=2", "dp_shard=2 pp=2 mb=3", "tp=2 dp_shard=2",
        "tp=2 enable_sequence_parallel=true", "cp=2 dp_shard=2", kCodes,
        "dp_replicate=3 power_sgd.matrix_approximation_rank=2",
        "ep=2 dp_shard=2 model.experts=4 model.experts_per_token=2",
        "ep=2 dp_shard=2 model.experts=4 model.capacity_factor=0",
        "ep=3 dp_shard=3 model.experts=9 model.experts_per_token=1 model.capacity_factor=0",
        "tp=2 enable_sequence_parallel=true tensor_parallel_chunks=2", kDividedExperts}) {
    INFO(keys);
    const bool counts = std::string(keys).find("capacity_factor=0") != std::string::npos;
    const Scenario s = parity_scenario(seed % 2 == 0 ? Architecture::Gpt2 : Architecture::Llama,
                                       parity_row("row", keys), DType::F32);
    const Program program = lowered(s);
    const auto cpu = make_cpu_backend();
    const RunResult expected = train(*cpu, program, s, kSteps);
    // Where rows are counted the host must know how many go, so that there are no graphs. It waits
    // for that at other places on every rank and in every run; the order of calls must stay.
    const std::vector<bool> runs =
        counts ? std::vector<bool>(6, false) : std::vector<bool>{false, true};
    for (const bool graphs : runs) {
      const CudaPlatform platform{
          [&]() -> Result<std::vector<std::unique_ptr<cuda::Driver>>> {
            std::vector<std::unique_ptr<cuda::Driver>> gpus;
            for (int i = 0; i < program.mesh.world_size(); ++i) {
              gpus.push_back(std::make_unique<cuda::test::FakeGpu>(seed++, cpu_kernels()));
            }
            return gpus;
          },
          []() -> Result<std::unique_ptr<cuda::Nccl>> {
            return std::unique_ptr<cuda::Nccl>(std::make_unique<cuda::test::FakeNccl>());
          },
          {}};
      RunOptions options;
      options.trace_from = graphs ? kSteps : 1;
      const auto backend =
          make_cuda_backend(platform, {.communicator = "nccl", .graphs = graphs}, {.poison = true});
      const RunResult run = train(*backend, program, s, kSteps, options);
      CHECK(run.state == expected.state);
      for (std::size_t i = 0; i < kSteps; ++i) {
        CHECK(run.trace.steps[i].loss == expected.trace.steps[i].loss);
      }
    }
  }
}

TEST_CASE("the GPU has every kernel that the programs of the parity tables need",
          "[integration][cuda]") {
  const auto kernels = cuda::test::emulated_kernels();
  const auto check = [&](Architecture kind, const ParityRow& row) {
    const Program program = lowered(parity_scenario(kind, row, DType::F32));
    for (const Function& function : program.functions) {
      for (const Kernel& kernel : function.kernels) {
        INFO(row.name << ": " << info(kernel.kind).name << " in " << function.name);
        CHECK(kernels.supports(kernel));
      }
    }
  };
  for (const ParityRow& row : test::parity_rows()) {
    for (const Architecture kind : {Architecture::Gpt2, Architecture::Llama}) check(kind, row);
  }
  for (const ParityRow& row : test::image_rows()) check(Architecture::Resnet, row);
  for (const ParityRow& row : test::patch_rows()) check(Architecture::Vit, row);
}

TEST_CASE("products that take GELU or its gradient along change nothing", "[integration][cuda]") {
  unsigned seed = 1;
  for (const char* keys :
       {"", "pp=2 mb=4 schedule=ZBVZeroBubble v=2", "tp=2 dp_shard=2",
        "tp=2 enable_sequence_parallel=true activation_checkpoint.mode=full",
        "dp_shard=3 training.mixed_precision_param=bfloat16",
        "activation_checkpoint.mode=selective activation_checkpoint.selective_ac_option=op"}) {
    INFO(keys);
    const Scenario s = parity_scenario(Architecture::Gpt2, parity_row("row", keys), DType::F32);
    const Program program = lowered(s);
    const auto cpu = make_cpu_backend();
    const RunResult expected = train(*cpu, program, s, 2);
    auto kernels = cpu_kernels();
    kernels.fuses = true;
    std::vector<std::string> log;
    const RunResult run = train_on_fake(program, s, 2, kernels, seed++, &log);
    CHECK(run.state == expected.state);
    for (const char* kind : {"gelu_forward", "gelu_backward"}) {
      // If activation functions are computed twice, the first result takes the memory of what the
      // product reads, and the second has no product before it.
      const bool twice = std::string(keys).find("=op") != std::string::npos;
      if (twice && std::string(kind) == "gelu_forward") continue;
      CHECK(std::count(log.begin(), log.end(), std::string("launch fused ") + kind) > 0);
      CHECK(std::count(log.begin(), log.end(), std::string("launch ") + kind) == 0);
    }
  }
}

TEST_CASE("steps launched as graphs train as steps that are issued", "[integration][cuda]") {
  constexpr int kSteps = 7;
  RunOptions options;
  options.trace_from = 4;
  unsigned seed = 1;
  for (const char* keys :
       {"", "accumulation=3", "accumulation=2 optimizer.name=SGD optimizer.momentum=0.9",
        "activation_checkpoint.mode=full accumulation=3",
        "training.mixed_precision_param=bfloat16"}) {
    INFO(keys);
    const Scenario s = parity_scenario(seed % 2 == 0 ? Architecture::Gpt2 : Architecture::Llama,
                                       parity_row("row", keys), DType::F32);
    const Program program = lowered(s);
    const auto cpu = make_cpu_backend();
    const RunResult expected = train(*cpu, program, s, kSteps);
    std::vector<std::string> log;
    const RunResult run =
        train_on_fake(program, s, kSteps, cpu_kernels(), seed++, &log, options, true);
    CHECK(run.state == expected.state);
    CHECK(run.trace.spans.size() == program.roles[0].ops.size());
    for (std::size_t i = 0; i < kSteps; ++i) {
      CHECK(run.trace.steps[i].loss == expected.trace.steps[i].loss);
      const double norm = run.trace.steps[i].grad_norm, wanted = expected.trace.steps[i].grad_norm;
      CHECK((norm == wanted || (std::isnan(norm) && std::isnan(wanted))));  // where steps overflow
    }
    // The first step and the traced one are issued; one step is recorded; a graph is launched in
    // the other five.
    std::string order;
    for (const std::string& call : log) {
      if (call == "begin_capture") order += "[";
      if (call == "end_capture") order += "]";
      if (call == "launch graph") order += "g";
      if (call == "launch cross_entropy" && order.back() != 'i') order += "i";
      if (order.empty()) order = " ";
    }
    CHECK(order == " i[i]gggigg");
  }
}

TEST_CASE("a graph's launches give its kernels the numbers of their step", "[integration][cuda]") {
  RunOptions options;
  options.trace_from = 0;
  for (const char* keys :
       {"", "optimizer.name=SGD optimizer.momentum=0.9", "optimizer.state_dtype=uint8"}) {
    INFO(keys);
    const Scenario s = parity_scenario(Architecture::Gpt2, parity_row("row", keys), DType::F64);
    const Program program = lowered(s);
    const RunResult issued = train_on_fake(program, s, 5, cuda::test::emulated_kernels(), 1);
    const RunResult run =
        train_on_fake(program, s, 5, cuda::test::emulated_kernels(), 2, nullptr, options, true);
    CHECK(run.state == issued.state);
  }
}

TEST_CASE("the GPU rounds weights at random as the CPU does", "[integration][cuda]") {
  constexpr std::size_t kElements = 4000;
  std::mt19937 random(3);
  test::ConformanceCase c{.kind = KernelKind::AdamW,
                          .dims = {static_cast<std::int64_t>(kElements)},
                          .scalars = {0.9, 0.95, 1e-8, 0.1},
                          .context = {3, 1e-3}};
  const auto numbers = [&](double from) {
    test::Numbers values(kElements);
    for (double& x : values) x = from + static_cast<double>(random() % 10000) / 10000;
    return values;
  };
  c.in = {numbers(-0.5), {}};
  c.initial = {numbers(1), numbers(-0.5), numbers(0.1)};
  const auto weights = [&](const cuda::test::FakeKernels& kernels, bool stochastic) {
    c.stochastic = stochastic;
    cuda::test::FakeGpu gpu(1, kernels);
    return test::ConformanceRun(c, DType::BF16).run(gpu, 0)[0];
  };
  const auto differing = [](const test::Numbers& a, const test::Numbers& b) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < kElements; ++i) n += a[i] != b[i] ? 1 : 0;
    return n;
  };
  const auto on_cpu = weights(cpu_kernels(), true);
  // Arithmetic in float32 may differ in the last bit, which hardly ever decides.
  CHECK(differing(weights(cuda::test::emulated_kernels(), true), on_cpu) <= kElements / 500);
  CHECK(differing(weights(cpu_kernels(), false), on_cpu) >= kElements / 20);
}

TEST_CASE("graphs are refused where the host takes part in a step, cuDNN where there is none",
          "[integration][cuda]") {
  const auto message = [](const std::string& keys, bool graphs) {
    const Scenario s = parity_scenario(Architecture::Gpt2, parity_row("row", keys), DType::F32);
    const CudaPlatform platform{[]() -> Result<std::vector<std::unique_ptr<cuda::Driver>>> {
                                  std::vector<std::unique_ptr<cuda::Driver>> gpus;
                                  gpus.push_back(std::make_unique<cuda::test::FakeGpu>());
                                  return gpus;
                                },
                                nullptr, cuda_platform().make_host};
    const CudaOptions options{.communicator = "local", .graphs = graphs, .cudnn = !graphs};
    const auto run = make_cuda_backend(platform, options)->run(lowered(s), s.cluster, {});
    return run ? std::string() : run.error().message;
  };
  CHECK_THAT(message("offload=optimizer", true),
             ContainsSubstring("the host computes in every step"));
  CHECK_THAT(message("dp_shard=2", true), ContainsSubstring("logical ranks on one GPU"));
  CHECK_THAT(message("", false), ContainsSubstring("has no cuDNN"));
}

TEST_CASE("training with the GPU's kernels equals the CPU's in float64 to 1e-11",
          "[integration][cuda]") {
  const auto kernels = cuda::test::emulated_kernels();
  const auto check = [&](Architecture kind, const std::string& keys) {
    INFO(keys);
    const Scenario s = parity_scenario(kind, parity_row("row", keys), DType::F64);
    const Program program = lowered(s);
    const auto cpu = make_cpu_backend();
    const RunResult expected = train(*cpu, program, s, 3);
    const RunResult run = train_on_fake(program, s, 3, kernels, 5);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(run.trace.steps[i].loss == Approx(expected.trace.steps[i].loss).epsilon(1e-11));
      CHECK(run.trace.steps[i].grad_norm ==
            Approx(expected.trace.steps[i].grad_norm).epsilon(1e-10));
    }
  };
  for (const Architecture kind : {Architecture::Gpt2, Architecture::Llama}) {
    for (const char* keys : {"",
                             "dp_shard=2 pp=2 mb=3",
                             "tp=2 dp_shard=2",
                             "cp=2 zero_stage=0",
                             "dp_shard=4 zero_quantized_gradients_inner_degree=2 "
                             "zero_quantized_gradients=true zero_quantized_weights=true "
                             "zero_quantized_block_size=4",
                             "dp_replicate=2 power_sgd.matrix_approximation_rank=2",
                             "cp=3 context_parallel_method=allgather training.seq_len=12",
                             "cp=4 context_parallel_method=ring context_parallel_ulysses_degree=2",
                             "tp=3 enable_sequence_parallel=true model.heads=6 model.kv_heads=3 "
                             "model.ffn_hidden=48",
                             "tp=2 enable_sequence_parallel=true tensor_parallel_chunks=3",
                             "dp_shard=2 expert_parallel_degree=2 model.experts=4 "
                             "model.router_aux_loss_coef=0.01",
                             "dp_shard=2 accumulation=2 model.experts=4 "
                             "model.router_bias_update_rate=0.01",
                             "dp_shard=2 expert_parallel_degree=2 model.experts=4 "
                             "model.capacity_factor=0 model.router_aux_loss_coef=0.01",
                             "tp=2 enable_sequence_parallel=true model.experts=4 "
                             "expert_tensor_parallel_degree=2 model.capacity_factor=0 "
                             "model.router_bias_update_rate=0.01",
                             "dp_shard=2 ep=2 tp=2 enable_sequence_parallel=true model.experts=4 "
                             "expert_tensor_parallel_degree=2 model.capacity_factor=0",
                             "fp8-delayed dp_shard=2 tp=2",
                             "fp8 latent lora.rank=3 tp=2",
                             "fp8-experts dp_shard=2 ep=2",
                             "fp8-dropless dp_shard=2 ep=2",
                             "dp_shard=2 ep=2 model.experts=4 model.capacity_factor=0 lora.rank=3 "
                             "lora.target_modules=[\"linear_fc1\",\"linear_fc2\"]",
                             "tp=2 enable_sequence_parallel=true lora.rank=3 lora.dropout=0.2"}) {
      check(kind, keys);
    }
  }
  check(Architecture::Llama,
        "fp8-delayed dp_shard=2 ep=2 model.experts=4 model.capacity_factor=0 batch=2");
  // Encoders of both kinds, and groups of two of four ranks that divide each expert.
  check(Architecture::Gpt2, "bert tp=2 enable_sequence_parallel=true dp_shard=2 batch=2");
  check(Architecture::Llama,
        "bert documents cp=2 context_parallel_method=ring training.seq_len=12 batch=2");
  check(Architecture::Llama,
        "tp=4 enable_sequence_parallel=true model.kv_heads=4 expert_tensor_parallel_degree=2 ep=2 "
        "expert_parallel_folding=true model.experts=4 model.capacity_factor=0 batch=2");
}

TEST_CASE("residual networks with the GPU's kernels equal the CPU's to 1e-10, in bfloat16 to 2e-3",
          "[integration][cuda]") {
  const auto kernels = cuda::test::emulated_kernels();
  const auto check = [&](const std::string& keys, DType dtype, double tolerance) {
    INFO(keys);
    const Scenario s = parity_scenario(Architecture::Resnet, parity_row("row", keys), dtype);
    const Program program = lowered(s);
    const auto cpu = make_cpu_backend();
    const RunResult expected = train(*cpu, program, s, 2);
    const RunResult run = train_on_fake(program, s, 2, kernels, 5);
    for (std::size_t i = 0; i < 2; ++i) {
      const StepResult &a = run.trace.steps[i], &b = expected.trace.steps[i];
      CHECK(a.loss == Approx(b.loss).epsilon(tolerance));
      CHECK(a.grad_norm == Approx(b.grad_norm).epsilon(10 * tolerance));
    }
  };
  for (const char* keys :
       {"model.small_stem=false model.image_size=24", "dp_replicate=2 sync_batch_norm=true",
        "dp_shard=2 zero_stage=1", "dp_shard=2 accumulate_sharded_gradients=always mb=2",
        "pp=2 mb=2 schedule=GPipe", "dp_replicate=2 pp=2 mb=2 sync_batch_norm=true"}) {
    check(keys, DType::F64, 1e-10);
  }
  for (const char* keys : {"dp_replicate=2 sync_batch_norm=true", "dp_shard=2", "tp=2",
                           "pp=2 mb=2 training.mixed_precision_reduce=bfloat16 "
                           "training.mixed_precision_buffer=bfloat16"}) {
    check(std::string(keys) + " training.mixed_precision_param=bfloat16", DType::F32, 2e-3);
  }
}

TEST_CASE(
    "vision transformers with the GPU's kernels equal the CPU's to 1e-10, in bfloat16 to 2e-3",
    "[integration][cuda]") {
  const auto kernels = cuda::test::emulated_kernels();
  const auto check = [&](const std::string& keys, DType dtype, double tolerance) {
    INFO(keys);
    const Scenario s = parity_scenario(Architecture::Vit, parity_row("row", keys), dtype);
    const Program program = lowered(s);
    const auto cpu = make_cpu_backend();
    const RunResult expected = train(*cpu, program, s, 2);
    const RunResult run = train_on_fake(program, s, 2, kernels, 5);
    for (std::size_t i = 0; i < 2; ++i) {
      const StepResult &a = run.trace.steps[i], &b = expected.trace.steps[i];
      CHECK(a.loss == Approx(b.loss).epsilon(tolerance));
      CHECK(a.grad_norm == Approx(b.grad_norm).epsilon(10 * tolerance));
    }
  };
  check("dp_shard=2", DType::F64, 1e-10);
  check("tp=2 pp=2 mb=2", DType::F64, 1e-10);
  // Heads of 64, which take the way of tensor cores in bfloat16.
  check("model.head_dim=64 training.mixed_precision_param=bfloat16", DType::F32, 2e-3);
}

TEST_CASE("the CUDA backend refuses what it cannot run, and says what can", "[integration][cuda]") {
  const Scenario s = parity_scenario(Architecture::Gpt2, parity_row("", "dp_shard=2"), DType::F32);
  const auto run_scenario = [](const Scenario& scenario, const std::string& communicator,
                               bool gpu) {
    const CudaPlatform platform{
        [=]() -> Result<std::vector<std::unique_ptr<cuda::Driver>>> {
          if (!gpu) return Error{ErrorKind::Device, "no GPU to run on", std::nullopt};
          std::vector<std::unique_ptr<cuda::Driver>> gpus;
          gpus.push_back(std::make_unique<cuda::test::FakeGpu>());
          return gpus;
        },
        []() -> Result<std::unique_ptr<cuda::Nccl>> {
          return Error{ErrorKind::Unsupported, "no NCCL here", std::nullopt};
        },
        nullptr};
    return make_cuda_backend(platform, {.communicator = communicator})
        ->run(lowered(scenario), scenario.cluster, {});
  };
  const auto run = [&](const std::string& communicator, bool gpu) {
    return run_scenario(s, communicator, gpu);
  };
  const auto few = run("nccl", true);
  REQUIRE_FALSE(few.ok());
  CHECK(few.error().kind == ErrorKind::Unsupported);
  CHECK_THAT(few.error().message, ContainsSubstring("2 ranks and 1 GPU(s)"));
  CHECK_THAT(few.error().message, ContainsSubstring("--communicator local"));
  const Scenario offloading =
      parity_scenario(Architecture::Gpt2, parity_row("", "offload=optimizer"), DType::F32);
  const auto nowhere = run_scenario(offloading, "local", true);
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().kind == ErrorKind::Unsupported);
  CHECK_THAT(nowhere.error().message, ContainsSubstring("host memory"));
  const auto unknown = run("ncl", true);
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().kind == ErrorKind::InvalidSpec);
  const auto none = run("local", false);
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().kind == ErrorKind::Device);
}
