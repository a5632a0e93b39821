// Subject: what a session runs, and what a program does not say of it.
#pragma once

#include <functional>
#include <string>

#include "core/base/non_finite.hpp"
#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/cluster/what_if.hpp"
#include "core/ir/program.hpp"
#include "core/run/straggler_watch.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// What is run, and what a program does not say: on which cluster, on which data, and what is kept
/// of the run.
struct Subject {
  std::function<Result<Program>()> program;
  ClusterSpec cluster;
  WhatIfSpec what_if;
  std::string dataset;
  std::string drive_folder;  // RunOptions::drive_folder
  CheckpointSpec checkpoint;
  ValidationSpec validation;  // with the path of its data
  NonFinite on_nonfinite = NonFinite::Stop;
  SpikeLimits spikes;
  std::string scenario;     // resolved text; empty if there is none
  std::string model_lacks;  // ModelSpec::why_only_simulated()
};

/// The subject of a scenario, which must outlive it.
Subject subject_of(const Scenario& scenario);

}  // namespace lockstep
