#include "cli/recommend_simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/backends.hpp"
#include "core/lower/lower.hpp"
#include "core/run/backend.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

constexpr int kGpusPerNode = 8;
constexpr int kSequencesPerGpu = 8;
constexpr int kHeadDim = 128;
constexpr double kVocab = 50257;

struct Degrees {
  int replicate = 1, shard = 1, tensor = 1, pipeline = 1;
  int data() const { return replicate * shard; }
};

std::string name_of(const Degrees& d) {
  std::string name;
  const auto add = [&](const char* what, int degree) {
    if (degree > 1) name += fmt::format("{}{} {}", name.empty() ? "" : " + ", what, degree);
  };
  add("TP", d.tensor);
  add("PP", d.pipeline);
  add("DDP", d.replicate);
  add("FSDP", d.shard);
  return name.empty() ? "one GPU" : name;
}

/// Divisors of the GPUs, as the rules name them; each once.
std::vector<Degrees> candidates(int gpus) {
  const auto largest_divisor = [&](int n, int most) {
    int best = 1;
    for (int d = 1; d <= most; d *= 2) {
      if (n % d == 0) best = d;
    }
    return best;
  };
  const int tensor = largest_divisor(gpus, kGpusPerNode);
  const int pipeline = largest_divisor(gpus, 4);
  const int both = largest_divisor(gpus / tensor, 4);
  std::vector<Degrees> list = {{gpus, 1, 1, 1}, {1, gpus, 1, 1}};
  for (const int t : {2, 4, 8}) {
    if (t <= tensor) list.push_back({1, gpus / t, t, 1});
  }
  list.push_back({1, gpus / pipeline, 1, pipeline});
  list.push_back({1, gpus / tensor / both, tensor, both});
  std::vector<Degrees> distinct;
  for (const Degrees& d : list) {
    const bool known = std::any_of(distinct.begin(), distinct.end(), [&](const Degrees& other) {
      return name_of(other) == name_of(d);
    });
    if (!known) distinct.push_back(d);
  }
  return distinct;
}

std::string model_text(double parameters) {
  // 12 L C² of the blocks and V C of the embedding, with C = 128 L where the size allows.
  const double ideal = std::cbrt(kHeadDim * parameters / 12);
  const auto hidden =
      std::max<std::int64_t>(kHeadDim * 8, std::llround(ideal / (kHeadDim * 8)) * kHeadDim * 8);
  const double width = static_cast<double>(hidden);
  const auto layers =
      std::max<std::int64_t>(1, std::llround((parameters - kVocab * width) / (12 * width * width)));
  return fmt::format(
      "[model]\narchitecture = \"gpt2\"\nname = \"decoder\"\nlayers = {}\nhidden = {}\n"
      "heads = {}\nvocab = 50257\nmax_seq_len = 2048\n",
      layers, hidden, hidden / kHeadDim);
}

std::string cluster_text(const RuleQuestion& q) {
  const bool alone = q.interconnect == Interconnect::InfiniBand;  // a node of its own for each GPU
  return fmt::format(
      "[cluster]\npreset = \"{}\"\nnodes = {}\ndevices_per_node = {}\n[cluster.device]\n"
      "memory_gb = {}\n",
      q.interconnect == Interconnect::Pcie ? "a100-80-pcie" : "a100-80",
      alone ? q.gpus : (q.gpus + kGpusPerNode - 1) / kGpusPerNode, alone ? 1 : kGpusPerNode,
      q.gpu_memory_gb);
}

std::string scenario_text(const RuleQuestion& q, const Degrees& d) {
  // A pipeline takes its share of the batch as microbatches, the others as accumulation.
  const int microbatches = d.pipeline > 1 ? kSequencesPerGpu * q.gpus / d.data() : 1;
  return model_text(q.parameters) +
         fmt::format(
             "[training]\nseq_len = 2048\nlocal_batch_size = {}\nglobal_batch_size = {}\n"
             "dtype = \"bfloat16\"\n[parallelism]\ndata_parallel_replicate_degree = {}\n"
             "data_parallel_shard_degree = {}\ntensor_parallel_degree = {}\n"
             "pipeline_parallel_degree = {}\npipeline_parallel_microbatches = {}\n",
             microbatches, kSequencesPerGpu * q.gpus, d.replicate, d.shard, d.tensor, d.pipeline,
             microbatches) +
         cluster_text(q);
}

SimulatedChoice simulate(const RuleQuestion& q, const Degrees& d) {
  SimulatedChoice choice{name_of(d), std::nullopt, ""};
  const LoadedScenario loaded = parse_scenario(scenario_text(q, d), choice.strategy, {});
  if (!loaded.ok()) {
    choice.failure = loaded.errors.front().message;
    return choice;
  }
  const Scenario& scenario = loaded.points.front().scenario;
  const Result<Program> program = lower(scenario);
  if (!program) {
    choice.failure =
        program.error().kind == ErrorKind::OutOfMemory ? "does not fit" : program.error().message;
    return choice;
  }
  Result<std::unique_ptr<Backend>> backend = make_backend("sim");
  if (!backend) {
    choice.failure = backend.error().message;
    return choice;
  }
  const Result<RunResult> ran = (*backend)->run(*program, scenario, {});
  if (!ran) {
    choice.failure = ran.error().message;
    return choice;
  }
  choice.report = analyze(ran->trace, *program, scenario);
  return choice;
}

}  // namespace

std::vector<SimulatedChoice> simulate_choices(const RuleQuestion& question) {
  std::vector<SimulatedChoice> choices;
  for (const Degrees& d : candidates(question.gpus)) choices.push_back(simulate(question, d));
  return choices;
}

const SimulatedChoice* fastest(const std::vector<SimulatedChoice>& choices) {
  const SimulatedChoice* best = nullptr;
  for (const SimulatedChoice& choice : choices) {
    if (!choice.report) continue;
    if (best == nullptr || choice.report->tokens_per_s > best->report->tokens_per_s) best = &choice;
  }
  return best;
}

}  // namespace lockstep
