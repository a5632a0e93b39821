#include "cli/recommend_simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/simulated_step.hpp"
#include "core/plan/layouts.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

constexpr int kGpusPerNode = 8;
constexpr int kSequencesPerGpu = 8;
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

/// The strategies that the rules of thumb name, with degrees that are powers of two and divide the
/// GPUs; each once.
std::vector<Degrees> candidates(int gpus) {
  // The largest degrees: of tensor and of pipeline parallelism alone, and of the latter with
  // `tensor`.
  int tensor = 1, pipeline = 1, both = 1;
  for (const RankDegrees& d : divide_ranks(gpus, {kGpusPerNode, 1, 4})) {
    const auto power_of_two = [](int n) { return (n & (n - 1)) == 0; };
    if (!power_of_two(d.tensor) || !power_of_two(d.pipeline)) continue;
    if (d.tensor > tensor) both = 1;
    tensor = std::max(tensor, d.tensor);
    both = std::max(both, d.pipeline);
    if (d.tensor == 1) pipeline = std::max(pipeline, d.pipeline);
  }
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

/// Parameters of a model of this width: 12 L C² in the blocks and V C in the embedding, with L = C
/// / `width_per_layer`.
double parameters_of(double width, double width_per_layer) {
  return 12 / width_per_layer * width * width * width + kVocab * width;
}

/// A model of about that many parameters. Below 1 B it has GPT-2's proportions (heads of 64, and a
/// width of 64 per layer, as 768 and 12); above, those of GPT-3 (128 of each, and a number of heads
/// that tensor parallelism can divide).
std::string model_text(double parameters) {
  const bool small = parameters < 1e9;
  const int head_dim = small ? 64 : 128;
  const double step = small ? 64 : 128 * kGpusPerNode;
  double width = step;
  while (parameters_of(width + step / 2, head_dim) < parameters) width += step;
  const auto hidden = std::llround(width);
  const auto layers =
      std::max<std::int64_t>(1, std::llround((parameters - kVocab * width) / (12 * width * width)));
  return fmt::format(
      "[model]\narchitecture = \"gpt2\"\nname = \"decoder\"\nlayers = {}\nhidden = {}\n"
      "heads = {}\nvocab = 50257\nmax_seq_len = 2048\n",
      layers, hidden, hidden / head_dim);
}

std::string cluster_text(const RuleQuestion& q) {
  const bool alone = q.interconnect == Interconnect::InfiniBand;  // each GPU is a node
  return fmt::format(
      "[cluster]\npreset = \"{}\"\nnodes = {}\ndevices_per_node = {}\n[cluster.device]\n"
      "memory_gb = {}\n",
      q.interconnect == Interconnect::Pcie ? "a100-80-pcie" : "a100-80",
      alone ? q.gpus : (q.gpus + kGpusPerNode - 1) / kGpusPerNode, alone ? 1 : kGpusPerNode,
      q.gpu_memory_gb);
}

std::string scenario_text(const RuleQuestion& q, const Degrees& d, bool recompute) {
  // A microbatch has a sequence for every rank that shares its activations. A pipeline cuts its
  // share of the batch into microbatches; the other strategies accumulate gradients over as many
  // passes.
  const int microbatches = d.pipeline > 1 ? kSequencesPerGpu * d.pipeline : 1;
  return model_text(q.parameters) +
         fmt::format(
             "[training]\nseq_len = 2048\nlocal_batch_size = {}\nglobal_batch_size = {}\n"
             "mixed_precision_param = \"bfloat16\"\n[parallelism]\ndata_parallel_replicate_degree "
             "= {}\n"
             "data_parallel_shard_degree = {}\n"
             "tensor_parallel_degree = {}\nenable_sequence_parallel = {}\n"
             "pipeline_parallel_degree = {}\npipeline_parallel_microbatches = {}\n"
             "[activation_checkpoint]\nmode = \"{}\"\n",
             microbatches * d.tensor, kSequencesPerGpu * q.gpus, d.replicate, d.shard, d.tensor,
             d.tensor > 1, d.pipeline, microbatches, recompute ? "full" : "none") +
         cluster_text(q);
}

/// Simulates a strategy, with recomputation only if it does not fit without.
SimulatedChoice simulate(const RuleQuestion& q, const Degrees& d) {
  SimulatedChoice choice{name_of(d), std::nullopt, ""};
  for (const bool recompute : {false, true}) {
    const LoadedScenario loaded =
        parse_scenario(scenario_text(q, d, recompute), choice.strategy, {});
    if (!loaded.ok()) {
      choice.failure = loaded.errors.front().message;
      return choice;
    }
    Result<Report> report = simulated_step(loaded.points.front().scenario);
    if (report) {
      if (recompute) choice.strategy += ", full recomputation";
      choice.report = std::move(*report);
      return choice;
    }
    const bool too_large = report.error().kind == ErrorKind::OutOfMemory;
    choice.failure = too_large ? "does not fit" : report.error().message;
    if (!too_large) return choice;
  }
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
