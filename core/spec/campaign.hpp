// CampaignSpec: a training of weeks on machines that fail: how much is trained, what fails how
// often, and what a failure costs. docs/scenario/campaign.md gives the source of each default.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace lockstep {

/// Whose failures are taken (core/campaign/failures.hpp has the figures and their sources).
enum class FailureSource { None, Llama3, Rsc1, Rsc2, Opt175b, Bloom, B200 };

/// Whether training stands still until a checkpoint is written, or only until it is copied to the
/// host's memory.
enum class SaveMode { Blocking, Background };

/// Where checkpoints go: to storage that all nodes share, or to the drives of each node.
enum class SaveTo { Storage, Drives };

/// A part of a campaign with a step of its own. What is 0 or empty is that of the scenario.
struct CampaignPhaseSpec {
  std::string name;
  std::string scenario;       // another scenario, with its model, layout and cluster
  double tokens = 0;          // trained in this phase; 0: share, or what other phases leave
  double share = 0;           // of CampaignSpec::tokens, instead
  int seq_len = 0;            // tokens of a sequence
  int global_batch_size = 0;  // sequences of a step
  bool operator==(const CampaignPhaseSpec&) const = default;
};

struct CampaignSpec {
  double tokens = 0;  // (images) to train; 0: training.total_tokens, or as many as `days` allow
  double days = 0;    // to train for, instead of a number of tokens
  FailureSource failures = FailureSource::None;
  // Mean times between failures of one GPU, node and switch, and of the job as a whole, whatever
  // its size. 0: the source's, and never without one.
  Seconds gpu_mtbf, node_mtbf, switch_mtbf, job_mtbf;
  int gpus_per_switch = 16;
  Seconds detection{600};        // until somebody knows of a failure
  Seconds requeue;               // until the job's processes may start again
  Seconds swap;                  // until a spare node has the failed one's place
  int spare_nodes = -1;          // beside those that train; -1: there is always one
  Seconds repair{24 * 3600.0};   // until a failed node is a spare
  Seconds load{300};             // of programs, up to the first collective
  Seconds communicator_per_gpu;  // what each GPU adds to that
  Seconds warmup;                // what the first steps take longer
  int evaluation_interval = 0;   // steps from one evaluation to the next; 0: none
  Seconds evaluation;            // that training stands still for one
  SaveMode save = SaveMode::Blocking;
  SaveTo save_to = SaveTo::Storage;
  BytesPerSecond storage_per_node{1e9};  // of the shared storage, each way
  double straggler_share = 0;            // of GPUs that are slow at a time
  double straggler_slowdown = 1;         // of a step that waits for one of them
  double pue = 1;  // energy of the site over that of its devices (power usage effectiveness)
  double carbon_g_per_kwh = 0;            // grams of CO2 equivalent; 0: unknown
  std::vector<CampaignPhaseSpec> phases;  // empty: the scenario is the only one
  bool operator==(const CampaignSpec&) const = default;
};

}  // namespace lockstep
