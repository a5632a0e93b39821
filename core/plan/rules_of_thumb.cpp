#include "core/plan/rules_of_thumb.hpp"

#include <limits>
#include <sstream>

namespace lockstep {
namespace {

constexpr double kBillion = 1e9;
constexpr double kStaticBytesPerParameter = 12;
constexpr double kAnySize = std::numeric_limits<double>::infinity();

std::string figure(double value) {
  std::ostringstream out;
  out.precision(4);
  out << value;
  return out.str();
}

double static_gb(const RuleQuestion& q) {
  return kStaticBytesPerParameter * q.parameters / kBillion;
}

std::string size_text(const RuleQuestion& q) {
  return figure(q.parameters / kBillion) + " B parameters";
}

constexpr StrategyShape kDdp = {};
constexpr StrategyShape kDdpRecomputed = {.recomputes = true};
constexpr StrategyShape kFsdp = {.least_zero = 3, .most_zero = 3};
constexpr StrategyShape kGradientsOrFull = {.least_zero = 2, .most_zero = 3};
constexpr StrategyShape kTensorFsdp = {.tensor = true, .least_zero = 3, .most_zero = 3};
constexpr StrategyShape kPipeline = {.pipeline = true, .most_zero = 3};
constexpr StrategyShape kAll = {.tensor = true, .pipeline = true, .most_zero = 3};
constexpr StrategyShape kAllFsdp = {
    .tensor = true, .pipeline = true, .least_zero = 3, .most_zero = 3};

}  // namespace

bool StrategyShape::has(const LayoutPoint& p) const {
  const bool shared = p.replicate * p.shard > 1;  // without data parallelism there is no stage
  return (p.tensor > 1) == tensor && (p.pipeline > 1) == pipeline && p.context == 1 &&
         (!shared || (least_zero <= p.zero && p.zero <= most_zero)) &&
         (!recomputes || p.recomputation == Recomputation::Blocks);
}

RuleAnswer decision_function(const RuleQuestion& q) {
  const double states = static_gb(q), memory = q.gpu_memory_gb;
  const double largest_layer = 2 * 4 * (q.parameters / kBillion) / 32;
  const double sharded = states / q.gpus;
  RuleAnswer answer{.rule = "decision function", .strategy = "", .because = ""};
  const std::string whole = "12 bytes per parameter are " + figure(states) + " GB";
  if (states < 0.15 * memory) {
    answer.strategy = "DDP";
    answer.because = whole + ", under 0.15 of " + figure(memory) + " GB";
  } else if (states < 0.25 * memory) {
    answer.strategy = "DDP + activation checkpointing";
    answer.shape = kDdpRecomputed;
    answer.because = whole + ", under 0.25 of " + figure(memory) + " GB";
  } else if (largest_layer < 0.5 * memory && sharded < 0.7 * memory) {
    answer.strategy = "FSDP2 (ZeRO-3)";
    answer.shape = kFsdp;
    answer.because = whole + "; sharded " + figure(sharded) + " GB, under 0.7 of " +
                     figure(memory) + " GB; largest layer " + figure(largest_layer) +
                     " GB, under half";
  } else {
    const bool nvlink = q.interconnect == Interconnect::NvLink;
    answer.shape = nvlink ? kTensorFsdp : kAllFsdp;
    answer.strategy = nvlink ? "TP inside the node + FSDP across replicas" : "3D: TP + PP + FSDP";
    answer.because = whole + "; even sharded, " + figure(sharded) + " GB and a largest layer of " +
                     figure(largest_layer) + " GB are too much for " + figure(memory) + " GB; " +
                     (nvlink ? "NVLink carries TP" : "no NVLink");
  }
  return answer;
}

RuleAnswer flow_chart(const RuleQuestion& q) {
  const double states = static_gb(q);
  const std::string need = "12 bytes per parameter are " + figure(states) + " GB";
  if (states < q.gpu_memory_gb) {
    return {"flow chart", "DDP", need + ", which fits " + figure(q.gpu_memory_gb) + " GB", kDdp};
  }
  const std::string too_much = need + ", more than " + figure(q.gpu_memory_gb) + " GB; ";
  if (q.interconnect == Interconnect::Pcie) {
    return {"flow chart", "pipeline parallel", too_much + "PCIe is slow for gathering parameters",
            kPipeline};
  }
  return {"flow chart", "FSDP", too_much + "the interconnect is fast", kFsdp};
}

RuleAnswer by_size_and_gpus(const RuleQuestion& q) {
  struct Row {
    double from, to;  // billions of parameters, [from, to)
    int min_gpus, max_gpus;
    const char* strategy;
    StrategyShape shape;
  };
  static constexpr int kManyGpus = std::numeric_limits<int>::max();
  static constexpr Row kRows[] = {
      {0, 1, 1, 8, "DDP", kDdp},
      {1, 13, 4, 8, "FSDP (ZeRO-3)", kFsdp},
      {13, 70, 8, 64, "FSDP + TP inside the node", kTensorFsdp},
      {70, kAnySize, 64, 512, "TP + PP + DP", kAll},
      {200, kAnySize, 512, kManyGpus, "3D + sequence + expert parallel", kAll},
  };
  RuleAnswer answer{.rule = "by size and GPUs", .strategy = "", .because = ""};
  const double billions = q.parameters / kBillion;
  std::string covered;
  for (const Row& row : kRows) {
    if (billions < row.from || billions >= row.to) continue;
    const std::string range = row.max_gpus == kManyGpus ? std::to_string(row.min_gpus) + " and more"
                                                        : std::to_string(row.min_gpus) + "-" +
                                                              std::to_string(row.max_gpus);
    covered += (covered.empty() ? "" : ", ") + range;
    if (q.gpus < row.min_gpus || q.gpus > row.max_gpus) continue;
    answer.shape = row.shape;
    answer.strategy = row.strategy;  // a later row wins, because it is for larger models
    answer.because = size_text(q) + " on " + range + " GPUs";
  }
  if (answer.strategy.empty()) {
    answer.because = "the rule covers " + size_text(q) + " on " + covered + " GPUs only";
  }
  return answer;
}

RuleAnswer by_size_and_memory(const RuleQuestion& q) {
  struct Row {
    double to;             // billions of parameters, exclusive
    double min_memory_gb;  // 0: any
    const char* strategy;
    StrategyShape shape;
  };
  static constexpr Row kRows[] = {
      {1, 40, "DDP", kDdp},
      {3, 40, "DDP + activation checkpointing", kDdpRecomputed},
      {7, 40, "FSDP (SHARD_GRAD_OP or FULL_SHARD)", kGradientsOrFull},
      {13, 80, "FSDP (FULL_SHARD)", kFsdp},
      {kAnySize, 0, "FSDP + CPU offload, or TP", kTensorFsdp},
  };
  RuleAnswer answer{.rule = "by size and memory", .strategy = "", .because = ""};
  for (const Row& row : kRows) {
    if (q.parameters / kBillion >= row.to) continue;
    const std::string need = figure(row.min_memory_gb) + " GB";
    if (q.gpu_memory_gb >= row.min_memory_gb) {
      answer.shape = row.shape;
      answer.strategy = row.strategy;
      answer.because = size_text(q) + (row.min_memory_gb > 0 ? " with at least " + need : "");
    } else {
      answer.because = "the rule covers " + size_text(q) + " with at least " + need + " only";
    }
    break;
  }
  return answer;
}

std::vector<RuleAnswer> rules_of_thumb(const RuleQuestion& q) {
  return {decision_function(q), flow_chart(q), by_size_and_gpus(q), by_size_and_memory(q)};
}

}  // namespace lockstep
