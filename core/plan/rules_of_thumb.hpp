// Rules of thumb for choosing a strategy: pure arithmetic, no simulation. They disagree with each
// other and sometimes with physics; each is named, so that it can stand beside a simulated answer.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

enum class Interconnect { NvLink, InfiniBand, Pcie };

struct RuleQuestion {
  double parameters = 0;     // count
  double gpu_memory_gb = 0;  // GB of 10^9 bytes
  int gpus = 1;
  Interconnect interconnect = Interconnect::NvLink;
};

/// One rule's answer, with the figures it was made from.
struct RuleAnswer {
  std::string rule;      // "decision function"
  std::string strategy;  // "FSDP2 (ZeRO-3)"; empty: the rule does not cover the case
  std::string because;   // "12 bytes per parameter are 84 GB; ..."
};

/// Source of the rules: practitioners' course material, restated; memory is in GB of 10^9 bytes.
/// Static memory 12 bytes per parameter; largest layer 2·4·P/32 bytes; sharded = static / GPUs.
/// 1. static < 0.15 M: DDP. 2. static < 0.25 M: DDP + activation checkpointing. 3. largest layer <
/// 0.5 M and sharded < 0.7 M: FSDP2 (ZeRO-3). 4. NVLink: TP in the node + FSDP across replicas.
/// 5. otherwise TP + PP + FSDP.
RuleAnswer decision_function(const RuleQuestion& question);
/// Fits one GPU (12 bytes per parameter): DDP; else a fast interconnect (NVLink, InfiniBand): FSDP;
/// else pipeline.
RuleAnswer flow_chart(const RuleQuestion& question);
/// Rows: under 1 B on 1-8 GPUs, 1-13 B on 4-8, 13-70 B on 8-64, 70 B and more on 64-512, 200 B and
/// more on 512 and more.
RuleAnswer by_size_and_gpus(const RuleQuestion& question);
/// Rows: under 1 B with 40 GB, 1-3 B with 40 GB, 3-7 B with 40 GB, 7-13 B with 80 GB, 13 B and
/// more.
RuleAnswer by_size_and_memory(const RuleQuestion& question);
/// The four above, in that order.
std::vector<RuleAnswer> rules_of_thumb(const RuleQuestion& question);

}  // namespace lockstep
