#include "core/advice/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "core/base/nearest.hpp"
#include "core/model/model.hpp"
#include "core/plan/layouts.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

constexpr int kGpusPerNode = 8;
constexpr double kVocab = 50257;
constexpr int kTokensPerGpu = 16384;
constexpr int kLongestSequence = 8192;
constexpr std::int64_t kPatch = 16;  // the width of the pieces of an image that count as tokens
constexpr std::int64_t kMostImages = 256;  // of a GPU and step

/// Parses a count of parameters: "125M", "7B", "1.3e9".
std::optional<double> parse_count(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string suffix(end);
  double factor = 1;
  if (suffix == "K" || suffix == "k") {
    factor = 1e3;
  } else if (suffix == "M" || suffix == "m") {
    factor = 1e6;
  } else if (suffix == "B" || suffix == "b") {
    factor = 1e9;
  } else if (suffix == "T" || suffix == "t") {
    factor = 1e12;
  } else if (!suffix.empty()) {
    return std::nullopt;
  }
  if (end == text.c_str() || !(value * factor >= 1) || !(value * factor < 1e18))
    return std::nullopt;
  return value * factor;
}

/// Parameters of a model of this width: 12 L C² in the blocks and V C in the embedding, with L = C
/// / `width_per_layer`.
double parameters_of(double width, double width_per_layer) {
  return 12 / width_per_layer * width * width * width + kVocab * width;
}

/// A model of about that many parameters. Below 1 B it has GPT-2's proportions (heads of 64, and a
/// width of 64 per layer, as 768 and 12); above, those of GPT-3 (128 of each, and a number of heads
/// that tensor parallelism can divide).
std::string model_text(double parameters, int seq_len) {
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
      "heads = {}\nvocab = 50257\nmax_seq_len = {}\n",
      layers, hidden, hidden / head_dim, seq_len);
}

std::string cluster_text(const RuleQuestion& q) {
  const bool alone = q.interconnect == Interconnect::InfiniBand;  // each GPU is a node
  const int inside = divisors(q.gpus, kGpusPerNode).back();
  return fmt::format(
      "[cluster]\npreset = \"{}\"\nnodes = {}\ndevices_per_node = {}\n[cluster.device]\n"
      "memory_gb = {}\n",
      q.interconnect == Interconnect::Pcie ? "a100-80-pcie" : "a100-80",
      alone ? q.gpus : q.gpus / inside, alone ? 1 : inside, q.gpu_memory_gb);
}

/// Of which 16 bits products are made: bfloat16, unless the device has float16 alone, as a V100
/// has.
std::string type_of_products(const DeviceSpec& device) {
  const auto has = [&](DType type) {
    return std::any_of(device.peaks.begin(), device.peaks.end(),
                       [&](const PeakRate& peak) { return peak.dtype == type; });
  };
  return has(DType::F16) && !has(DType::BF16) ? "float16" : "bfloat16";
}

std::string training_text(int seq_len, int lora, const std::string& type) {
  const std::string adapters = lora == 0 ? "" : fmt::format("[lora]\nrank = {}\n", lora);
  return adapters + fmt::format(
                        "[training]\nseq_len = {}\nlocal_batch_size = 1\nglobal_batch_size = 1\n"
                        "mixed_precision_param = \"{}\"\n",
                        seq_len, type);
}

std::string framework_text(const RecommendQuestion& a) {
  return a.framework.empty() ? "" : fmt::format("[framework]\npreset = \"{}\"\n", a.framework);
}

/// How many samples of a step a GPU has, if nobody says it: about so many tokens; of images, a
/// power of two.
int samples_of_gpu(const ModelSpec& model, int seq_len) {
  if (!model.is_vision()) return std::max(1, kTokensPerGpu / seq_len);
  const std::int64_t patch = model.has_batch_norm() ? kPatch : model.patch_size;
  const std::int64_t tokens = (model.image_size / patch) * (model.image_size / patch);
  int images = 1;
  while (2 * images * tokens <= kTokensPerGpu && 2 * images <= kMostImages) images *= 2;
  return images;
}

/// Reads a scenario of these parts. The layout that it names is one of many, so that a batch that
/// its data parallelism does not divide is no fault.
Result<Scenario> read(const std::string& text, std::vector<Error>* warnings = nullptr) {
  LoadedScenario loaded = parse_scenario(text, "recommend", {});
  if (!loaded.ok()) return invalid(loaded.errors.front().message);
  if (warnings != nullptr) *warnings = std::move(loaded.warnings);
  return loaded.points.front().scenario;
}

Result<Interconnect> interconnect_of(const std::string& name) {
  static const std::vector<std::string> names = {"nvlink", "infiniband", "pcie"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<Interconnect>(found - names.begin());
  const std::string near = nearest(name, names);
  return invalid(
      "--interconnect '" + name + "' is not known" +
      (near.empty() ? ": nvlink, infiniband or pcie" : "; did you mean '" + near + "'?"));
}

/// By the links of the cluster: the slowest NVLink has 150 GB/s, the fastest PCIe 64.
Interconnect interconnect_of(const ClusterSpec& cluster) {
  constexpr BytesPerSecond kBetween{100e9};
  if (cluster.devices_per_node == 1) return Interconnect::InfiniBand;
  return cluster.intra_node.bandwidth >= kBetween ? Interconnect::NvLink : Interconnect::Pcie;
}

Result<Recommendation> by_name(const RecommendQuestion& a) {
  if (a.cluster.empty()) return invalid("--model needs --cluster: a preset such as h100");
  std::error_code ignored;
  const bool file = a.model.ends_with(".json") || std::filesystem::is_directory(a.model, ignored);
  const std::string path = file ? std::filesystem::absolute(a.model).string() : a.model;
  const std::string model =
      fmt::format("[model]\n{} = \"{}\"\n", file ? "hf_config" : "preset", path);
  const bool profile = a.cluster.ends_with(".toml");
  const std::string cluster =
      fmt::format("[cluster]\n{} = \"{}\"\nnodes = {}\n", profile ? "profile" : "preset",
                  profile ? std::filesystem::absolute(a.cluster).string() : a.cluster, a.nodes);
  // What the model and the cluster are says how long a sequence and how large a batch is.
  const Result<Scenario> plain = read(model + cluster);
  if (!plain) return plain.error();
  const int gpus = plain->cluster.capacity();
  const std::int64_t longest = plain->model.is_vision() ? 1 : plain->model.max_seq_len;
  if (longest == 0 && a.seq_len == 0) {
    return invalid(a.model +
                   " does not say how long a sequence may be (max_position_embeddings): give "
                   "--seq-len, such as --seq-len 4096");
  }
  const int seq_len = a.seq_len > 0
                          ? a.seq_len
                          : static_cast<int>(std::min<std::int64_t>(kLongestSequence, longest));
  const int batch = a.batch > 0 ? a.batch : samples_of_gpu(plain->model, seq_len) * gpus;
  const std::string type = type_of_products(plain->cluster.device);
  std::vector<Error> warnings;
  Result<Scenario> scenario =
      read(model + training_text(seq_len, a.lora, type) + cluster + framework_text(a), &warnings);
  if (!scenario) return scenario.error();
  scenario->training.global_batch_size = batch;
  RuleQuestion question;
  question.parameters = static_cast<double>(build_layers(scenario->model, {}).parameter_count());
  question.gpu_memory_gb = static_cast<double>(scenario->cluster.device.memory.v) / 1e9;
  question.gpus = gpus;
  question.interconnect = interconnect_of(scenario->cluster);
  return Recommendation{std::move(*scenario), question, std::move(warnings)};
}

Result<Recommendation> by_size(const RecommendQuestion& a) {
  RuleQuestion q;
  const std::optional<double> parameters = parse_count(a.params);
  if (!parameters) {
    return invalid("--params '" + a.params +
                   "' is not a count of parameters: write 125M, 7B or 1.3e9");
  }
  if (a.gpu_mem <= 0 || a.gpus < 1) return invalid("--params needs --gpu-mem and --gpus");
  const Result<Interconnect> interconnect = interconnect_of(a.interconnect);
  if (!interconnect) return interconnect.error();
  q.parameters = *parameters;
  q.gpu_memory_gb = a.gpu_mem;
  q.gpus = a.gpus;
  q.interconnect = *interconnect;
  const int seq_len = a.seq_len > 0 ? a.seq_len : 2048;
  Result<Scenario> scenario =
      read(model_text(*parameters, seq_len) + training_text(seq_len, a.lora, "bfloat16") +
           cluster_text(q) + framework_text(a));
  if (!scenario) return scenario.error();
  scenario->training.global_batch_size =
      a.batch > 0 ? a.batch : std::max(1, kTokensPerGpu / seq_len) * q.gpus;
  return Recommendation{std::move(*scenario), q, {}};
}

}  // namespace

Result<Recommendation> recommendation_of(const RecommendQuestion& question) {
  if (!question.model.empty() && !question.params.empty()) {
    return invalid("give --model or --params, not both");
  }
  if (question.model.empty() && question.params.empty()) {
    return invalid("recommend needs --model and --cluster, or --params, --gpu-mem and --gpus");
  }
  return question.model.empty() ? by_size(question) : by_name(question);
}

}  // namespace lockstep
