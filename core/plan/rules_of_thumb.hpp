// Rules of thumb for choosing a strategy, by arithmetic without simulation. They disagree with each
// other and sometimes with physics. Each has a name by which reports show it beside a simulated
// answer.
#pragma once

#include <string>
#include <vector>

#include "core/plan/space.hpp"

namespace lockstep {

enum class Interconnect { NvLink, InfiniBand, Pcie };

struct RuleQuestion {
  double parameters = 0;     // count
  double gpu_memory_gb = 0;  // GB of 10^9 bytes
  int gpus = 1;
  Interconnect interconnect = Interconnect::NvLink;
};

/// What a strategy of the rules uses.
struct StrategyShape {
  bool tensor = false, pipeline = false;
  int least_zero = 0, most_zero = 0;  // stages of ZeRO
  bool recomputes = false;            // all blocks
  /// Whether a layout is of that shape. It may recompute even if the rule does not say so, and it
  /// has no context parallelism, of which the rules do not speak.
  bool has(const LayoutPoint& point) const;
  bool operator==(const StrategyShape&) const = default;
};

/// One rule's answer, with the figures it was made from.
struct RuleAnswer {
  std::string rule;      // "decision function"
  std::string strategy;  // "FSDP2 (ZeRO-3)"; empty: the rule does not cover the case
  std::string because;   // "12 bytes per parameter are 84 GB; ..."
  StrategyShape shape = {};
};

/// The source of all four rules is practitioners' course material, restated; memory is in GB of
/// 10^9 bytes. This rule takes the first of the following that holds, where M is a GPU's memory,
/// static memory is 12 bytes per parameter, the largest layer is 2·4·P/32 bytes for P parameters,
/// and sharded memory is static / GPUs.
/// 1. static < 0.15 M: DDP.
/// 2. static < 0.25 M: DDP + activation checkpointing.
/// 3. largest layer < 0.5 M and sharded < 0.7 M: FSDP2 (ZeRO-3).
/// 4. NVLink: TP in the node + FSDP across replicas.
/// 5. otherwise: TP + PP + FSDP.
RuleAnswer decision_function(const RuleQuestion& question);
/// DDP if the model fits one GPU (12 bytes per parameter); else FSDP if the interconnect is fast
/// (NVLink, InfiniBand); else a pipeline.
RuleAnswer flow_chart(const RuleQuestion& question);
/// A table by billions of parameters (B) and GPUs. Its rows: under 1 B on 1-8 GPUs, 1-13 B on 4-8,
/// 13-70 B on 8-64, 70 B and more on 64-512, 200 B and more on 512 and more.
RuleAnswer by_size_and_gpus(const RuleQuestion& question);
/// A table by billions of parameters and memory of a GPU. Its rows: under 1 B with 40 GB, 1-3 B
/// with 40 GB, 3-7 B with 40 GB, 7-13 B with 80 GB, 13 B and more.
RuleAnswer by_size_and_memory(const RuleQuestion& question);
/// The answers of the four rules above, in that order.
std::vector<RuleAnswer> rules_of_thumb(const RuleQuestion& question);

}  // namespace lockstep
