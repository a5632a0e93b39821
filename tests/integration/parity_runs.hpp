// Parity runs: trains layouts, and measures how far they are from the single rank.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "backends/cpu/cpu_backend.hpp"
#include "core/lower/lower.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/integration/kernel_conformance.hpp"
#include "tests/integration/parity_table.hpp"

namespace lockstep::test {

struct Outcome {
  Program program;
  RunResult run;
};

/// Trains on `backend`, or on the CPU's without one.
inline Outcome train(const Scenario& s, int steps = kParitySteps,
                     const TrainingState* from = nullptr, Backend* backend = nullptr) {
  for (const Fault& fault : validate(s)) FAIL(fault.error.message);
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  // Arenas are poisoned, so that what is read before it is written is NaN, and so is all that
  // follows.
  const auto cpu = make_cpu_backend({.poison = true});
  if (backend == nullptr) backend = cpu.get();
  RunOptions options;
  options.steps = steps;
  options.dataset = s.dataset_path();
  options.drive_folder = std::filesystem::temp_directory_path().string();
  options.initial_state = from;
  options.return_state = true;
  auto run = backend->run(*program, s.cluster, options);
  if (!run) FAIL(to_string(run.error()));
  REQUIRE(run->trace.steps.size() == static_cast<std::size_t>(steps));
  return {std::move(*program), std::move(*run)};
}

/// The ops of a rank's first traced step in their order, by stream.
inline std::vector<std::vector<OpId>> ops_in_order(const Trace& trace, Rank rank) {
  std::vector<std::vector<OpId>> streams(kNumStreams);
  const Rank shown = trace.same_as[rank];
  const auto role = static_cast<std::size_t>(trace.role_of_rank[shown]);
  int step = -1;
  for (const Span& span : trace.spans) {
    if (span.rank != shown) continue;
    if (step < 0) step = span.step;
    if (span.step != step) continue;
    const TraceOp& op = trace.roles[role].ops[span.op];
    streams[op.stream].push_back(span.op);
  }
  return streams;
}

/// Checks that program, memory and the order of every rank's ops are the same; times may differ.
inline void check_same_shape(const Trace& a, const Trace& b) {
  CHECK(a.program_hash == b.program_hash);
  CHECK(a.peak_memory == b.peak_memory);
  CHECK(a.roles == b.roles);
  for (Rank rank = 0; rank < static_cast<Rank>(a.role_of_rank.size()); ++rank) {
    CHECK(ops_in_order(a, rank) == ops_in_order(b, rank));
  }
}

inline bool is_running_statistic(const std::string& name) {
  return name.find(".running_") != std::string::npos;
}

/// What low-rank products keep: each rank its own share of what they leave out, and factors.
inline bool is_of_products(const std::string& name) {
  return name.starts_with("feedback") || name.starts_with("sketch.");
}

/// |a - b| / |b| of the norms, over all weights together, or over all running statistics.
inline double state_distance(const TrainingState& a, const TrainingState& b,
                             bool statistics = false) {
  const auto tensors = [](const TrainingState& state) {
    return std::count_if(state.tensors.begin(), state.tensors.end(),
                         [](const auto& tensor) { return !is_of_products(tensor.first); });
  };
  REQUIRE(tensors(a) == tensors(b));
  double difference = 0;
  double norm = 0;
  for (const auto& [name, tensor] : b.tensors) {
    if (is_of_products(name)) continue;
    REQUIRE(a.tensors.count(name) == 1);
    if (name.starts_with("adam_") || is_running_statistic(name) != statistics) continue;
    const Tensor& mine = a.tensors.at(name);
    const Numbers x = decoded(mine.data, mine.dtype), y = decoded(tensor.data, tensor.dtype);
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += y[i] * y[i];
    }
  }
  return norm > 0 ? std::sqrt(difference / norm) : 0;
}

/// How far a run is from the single rank: the largest relative difference of a loss and of a norm
/// over the steps, and those of weights and running statistics after them.
struct Distance {
  double loss = 0, norm = 0, weights = 0, statistics = 0;
};

inline Distance distance(const Outcome& mine, const Outcome& reference) {
  Distance d;
  for (std::size_t step = 0; step < kParitySteps; ++step) {
    const StepResult& a = mine.run.trace.steps[step];
    const StepResult& b = reference.run.trace.steps[step];
    CHECK(a.lr == b.lr);
    if (b.loss_scale > 0) {
      CHECK(a.loss_scale == b.loss_scale);
      CHECK(a.skipped_steps == b.skipped_steps);
    }
    d.loss = std::max(d.loss, std::abs(a.loss - b.loss) / std::abs(b.loss));
    if (!std::isfinite(b.grad_norm)) continue;  // and a step is skipped
    d.norm = std::max(d.norm, std::abs(a.grad_norm - b.grad_norm) / b.grad_norm);
  }
  d.weights = state_distance(mine.run.state, reference.run.state);
  d.statistics = state_distance(mine.run.state, reference.run.state, true);
  return d;
}

/// Trains the single rank that each row is compared with, once.
class References {
 public:
  References(Architecture architecture, DType dtype) : architecture_(architecture), dtype_(dtype) {}
  const Outcome& of(const ParityRow& row) {
    const ParityRow single = row.single_rank();
    const auto found = trained_.find(single.keys);
    if (found != trained_.end()) return found->second;
    const Scenario scenario = parity_scenario(architecture_, single, dtype_);
    Outcome outcome = train(scenario);
    // Ten steps are too few to learn what a masked token of a random walk was.
    if (!scenario.model.is_encoder())
      CHECK(outcome.run.trace.steps.back().loss < outcome.run.trace.steps.front().loss);
    return trained_.emplace(single.keys, std::move(outcome)).first->second;
  }

 private:
  Architecture architecture_;
  DType dtype_;
  std::map<std::string, Outcome> trained_;
};

/// Checks that losses, norms and the whole training state are equal to the last bit.
inline void check_same_bits(const Outcome& a, const Outcome& b) {
  CHECK(a.run.state == b.run.state);
  for (std::size_t step = 0; step < kParitySteps; ++step) {
    CHECK(a.run.trace.steps[step].loss == b.run.trace.steps[step].loss);
    CHECK(a.run.trace.steps[step].grad_norm == b.run.trace.steps[step].grad_norm);
  }
}

}  // namespace lockstep::test
