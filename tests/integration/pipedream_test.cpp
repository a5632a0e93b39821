// Compares pipelines that update weights under way with one rank that is told how old its weights
// are.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "backends/backends.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "core/analysis/report.hpp"
#include "core/analysis/staleness.hpp"
#include "core/ir/text/text.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

constexpr int kSteps = 2;

struct Case {
  PipelineSchedule schedule = PipelineSchedule::PipeDream;
  int p = 2, m = 6, every = 0, replicas = 1;
  bool recompute = false;
  int tensor = 1, context = 1;
};

Scenario base() {
  Scenario s = test::tiny_scenario(Architecture::Llama, {});
  s.training.dtype = DType::F64;
  s.training.max_norm = 0;
  s.training.steps = kSteps;
  s.optimizer.lr = 1e-2;
  return s;
}

Scenario scenario_of(const Case& c) {
  Scenario s = base();
  s.training.local_batch_size = c.m;
  s.training.global_batch_size = c.m * c.replicas;
  s.strategy.data_parallel_replicate_degree = c.replicas;
  s.strategy.pipeline_parallel_degree = c.p;
  s.strategy.pipeline_parallel_microbatches = c.m;
  s.strategy.pipeline_parallel_schedule = c.schedule;
  s.strategy.pipeline_parallel_update_every = c.every;
  s.strategy.tensor_parallel_degree = c.tensor;
  s.strategy.enable_sequence_parallel = c.tensor > 1 && c.recompute;
  s.strategy.context_parallel_degree = c.context;
  s.strategy.context_parallel_method = ContextParallelMethod::Ring;
  s.strategy.zero_stage = 0;
  if (c.recompute) s.activation_checkpoint.mode = ActivationCheckpoint::Full;
  return s;
}

Program lowered(const Scenario& s) {
  const auto faults = validate(s);
  if (!faults.empty()) FAIL(faults.front().error.message);
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

RunResult train(const Program& program, const Scenario& s, int steps, const TrainingState* from) {
  const auto backend = make_cpu_backend({.poison = true});
  RunOptions options;
  options.steps = steps;
  options.return_state = true;
  options.initial_state = from;
  auto run = backend->run(program, s.cluster, options);
  if (!run) FAIL(to_string(run.error()));
  return std::move(*run);
}

using Values = std::vector<double>;
using Weights = std::map<std::string, Values>;  // by parameter

Weights weights_of(const TrainingState& state, const std::string& prefix) {
  Weights result;
  for (const auto& [name, tensor] : state.tensors) {
    const bool moment = name.rfind("adam_", 0) == 0;
    if (prefix.empty() ? moment : name.rfind(prefix, 0) != 0) continue;
    Values& values = result[name.substr(prefix.size())];
    values.resize(tensor.data.size() / sizeof(double));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  }
  return result;
}

/// Trains on one rank with weights of any age. Gradients of one sequence at given weights come from
/// the single-rank program, whose first moment after one step is (1 - beta1) g; all else is
/// computed here.
class DelayedTraining {
 public:
  explicit DelayedTraining(const Case& c) : case_(c), single_(base()), program_(lowered(single_)) {
    const Program pipeline = lowered(scenario_of(c));
    for (int s = 0; s < c.p; ++s) {
      const Rank rank = pipeline.mesh.with_coordinate(0, pipeline.mesh.index_of("pp"), s);
      for (const Unit& unit : pipeline.role_of(rank).units) {
        for (const UnitParameter& part : unit.parameters) {
          stage_of_[pipeline.parameters[part.parameter].name] = s;
        }
      }
    }
    template_ = train(program_, single_, 1, nullptr).state;
    latest_ = initial();
    for (const auto& [name, values] : latest_) {
      first_[name].assign(values.size(), 0);
      second_[name].assign(values.size(), 0);
    }
  }

  /// Trains one step of the pipeline and returns its loss.
  double step(int index) {
    versions_ = {latest_};
    const int every = scenario_of(case_).microbatches_per_update();
    double loss = 0;
    Weights sum;
    for (int j = 0; j < case_.m; ++j) {
      Weights seen;
      for (const auto& [name, stage] : stage_of_) {
        seen[name] = versions_[version(stage, j, every)].at(name);
      }
      for (int d = 0; d < case_.replicas; ++d) {
        const int sequence = index * case_.m * case_.replicas + d * case_.m + j;
        const RunResult one = gradient_run(seen, sequence);
        loss += one.trace.steps.front().loss / (case_.m * case_.replicas);
        for (const auto& [name, moment] : weights_of(one.state, "adam_m.")) {
          Values& total = sum[name];
          total.resize(moment.size());
          const double scale = 1 / ((1 - single_.optimizer.beta1) * every * case_.replicas);
          for (std::size_t i = 0; i < moment.size(); ++i) total[i] += scale * moment[i];
        }
      }
      if ((j + 1) % every == 0) {
        update(sum);
        sum.clear();
      }
    }
    return loss;
  }
  const Weights& latest() const { return latest_; }

 private:
  /// The version that a stage reads by the papers: stage s of PipeDream reads weights that lack
  /// p-1-s updates; all stages of 2BW read those before the latest.
  int version(int stage, int microbatch, int every) const {
    if (case_.schedule == PipelineSchedule::PipeDream2bw) {
      return std::max(0, microbatch / every - 1);
    }
    return std::max(0, microbatch - (case_.p - 1 - stage)) / every;
  }

  Weights initial() const {
    // A step with lr = 0 and no decay leaves the weights as the seed gave them.
    Scenario s = single_;
    s.optimizer.lr = 0;
    s.optimizer.weight_decay = 0;
    return weights_of(train(lowered(s), s, 1, nullptr).state, "");
  }

  RunResult gradient_run(const Weights& at, int sequence) {
    TrainingState state;
    state.step = sequence;
    for (const auto& [name, values] : at) {
      Tensor tensor = template_.tensors.at(name);
      std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
      state.tensors[name] = std::move(tensor);
    }
    return train(program_, single_, 1, &state);
  }

  /// AdamW (Loshchilov and Hutter 2019).
  void update(const Weights& gradient) {
    const OptimizerSpec& o = single_.optimizer;
    const double t = ++updates_;
    for (auto& [name, w] : latest_) {
      const Values& g = gradient.at(name);
      Values& m = first_[name];
      Values& v = second_[name];
      for (std::size_t i = 0; i < w.size(); ++i) {
        m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
        v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
        const double mean = m[i] / (1 - std::pow(o.beta1, t));
        const double square = v[i] / (1 - std::pow(o.beta2, t));
        w[i] -= o.lr * (o.weight_decay * w[i] + mean / (std::sqrt(square) + o.eps));
      }
    }
    versions_.push_back(latest_);
  }

  const Case case_;
  const Scenario single_;
  const Program program_;
  std::map<std::string, int> stage_of_;  // by parameter
  TrainingState template_;
  Weights latest_, first_, second_;
  std::vector<Weights> versions_;  // of this step
  int updates_ = 0;
};

double distance(const Weights& a, const Weights& b) {
  double difference = 0, norm = 0;
  REQUIRE(a.size() == b.size());
  for (const auto& [name, x] : a) {
    const Values& y = b.at(name);
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += y[i] * y[i];
    }
  }
  return std::sqrt(difference / norm);
}

/// The most copies of one unit's weights that are alive at once.
int most_copies(const Role& role) {
  int most = 0;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    std::map<int, int> alive;  // by layer
    const OpId op{static_cast<std::int32_t>(i)};
    for (const Buffer& b : role.buffers) {
      if (b.kind != BufferKind::ParamVersion || op < b.first() || b.last() < op) continue;
      most = std::max(most, ++alive[b.layer]);
    }
  }
  return most;
}

}  // namespace

TEST_CASE("PipeDream and PipeDream-2BW train as one rank does with weights of their age",
          "[integration]") {
  for (const Case& c : {Case{PipelineSchedule::PipeDream, 1, 3},
                        {PipelineSchedule::PipeDream, 2, 5},
                        {PipelineSchedule::PipeDream, 3, 7},
                        {PipelineSchedule::PipeDream, 4, 6},
                        {PipelineSchedule::PipeDream, 2, 4, 0, 2},
                        {PipelineSchedule::PipeDream, 3, 5, 0, 1, true},
                        {PipelineSchedule::PipeDream, 2, 4, 0, 1, false, 2},
                        {PipelineSchedule::PipeDream, 3, 5, 0, 2, true, 2},  // by rows
                        {PipelineSchedule::PipeDream, 2, 5, 0, 2, false, 1, 2},
                        {PipelineSchedule::PipeDream2bw, 2, 4, 0, 1, false, 2, 2},
                        {PipelineSchedule::PipeDream2bw, 2, 6},
                        {PipelineSchedule::PipeDream2bw, 3, 12, 4},
                        {PipelineSchedule::PipeDream2bw, 2, 4, 0, 2}}) {
    INFO(rules_of(c.schedule).name << " p=" << c.p << " m=" << c.m << " dp=" << c.replicas
                                   << " tp=" << c.tensor << " cp=" << c.context);
    const Scenario s = scenario_of(c);
    const RunResult run = train(lowered(s), s, kSteps, nullptr);
    DelayedTraining reference(c);
    for (int step = 0; step < kSteps; ++step) {
      const double loss = run.trace.steps[step].loss;
      CHECK(loss == Approx(reference.step(step)).epsilon(1e-11));
    }
    CHECK(distance(weights_of(run.state, ""), reference.latest()) <= 1e-11);
  }
}

TEST_CASE("PipeDream in bfloat16 keeps versions of what is read, not of the master copy",
          "[integration]") {
  Scenario s = scenario_of({PipelineSchedule::PipeDream, 3, 6});
  s.training.dtype = DType::F32;
  const double whole = train(lowered(s), s, kSteps, nullptr).trace.steps.back().loss;
  s.training.mixed_precision_param = PartDType::BF16;
  const Program program = lowered(s);
  for (const Buffer& b : program.roles[0].buffers) {
    if (b.kind == BufferKind::ParamVersion) CHECK(b.dtype == DType::BF16);
  }
  const double rounded = train(program, s, kSteps, nullptr).trace.steps.back().loss;
  CHECK(rounded == Approx(whole).epsilon(2e-2));
  CHECK(rounded != whole);
}

TEST_CASE(
    "a backward pass reads the version that its forward pass did, as late as the stage is early",
    "[integration]") {
  constexpr int kStages = 3, kMicrobatches = 9;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::PipeDream, PipelineSchedule::PipeDream2bw}) {
    const Program program = lowered(scenario_of({schedule, kStages, kMicrobatches}));
    for (int r = 0; r < kStages; ++r) {
      INFO(rules_of(schedule).name << " rank " << r);
      const Role& role = program.roles[r];
      const std::vector<WeightsRead> read = weights_read(program, role);
      REQUIRE(read.size() == role.ops.size());
      int passes = 0;
      for (std::size_t i = 0; i < read.size(); ++i) {
        const Op& op = role.ops[i];
        if (read[i].updates < 0) continue;
        // PipeDream updates with every microbatch, 2BW with groups of three.
        const bool each = schedule == PipelineSchedule::PipeDream;
        const int due = each ? op.microbatch : op.microbatch / kStages;
        const int missed = std::min(due, each ? kStages - 1 - r : 1);
        CHECK(read[i] == WeightsRead{due - missed, missed});
        passes += op.phase == Phase::F || op.phase == Phase::B;
      }
      CHECK(passes >= 2 * kMicrobatches);
    }
  }
  const Program drained = lowered(scenario_of({PipelineSchedule::OneFOneB, kStages, 9}));
  CHECK(weights_read(drained, drained.roles[0]).empty());
}

TEST_CASE("the report tells how old weights are, and memory holds the versions", "[integration]") {
  for (const int p : {1, 2, 3, 4}) {
    for (const PipelineSchedule schedule :
         {PipelineSchedule::PipeDream, PipelineSchedule::PipeDream2bw,
          PipelineSchedule::OneFOneB}) {
      INFO(rules_of(schedule).name << " p=" << p);
      const Scenario s = scenario_of({schedule, p, 4 * p});
      const Program program = lowered(s);
      auto backend = make_backend("sim");
      auto run = (*backend)->run(program, s.cluster, {});
      if (!run) FAIL(to_string(run.error()));
      const Report report = analyze(run->trace, program, s.cluster);
      for (int r = 0; r < p; ++r) {
        const auto rank = static_cast<std::size_t>(r);
        int staleness = 0;
        if (schedule == PipelineSchedule::PipeDream) staleness = p - 1 - r;
        if (schedule == PipelineSchedule::PipeDream2bw) staleness = 1;
        CHECK(report.ranks[rank].weight_staleness == staleness);
        CHECK(most_copies(program.roles[rank]) == staleness);  // beside the latest
      }
      CHECK(program.updates_per_step == (schedule == PipelineSchedule::OneFOneB       ? 1
                                         : schedule == PipelineSchedule::PipeDream2bw ? 4
                                                                                      : 4 * p));
      const auto parsed = parse_program(print(program));
      if (!parsed) FAIL(to_string(parsed.error()));
      CHECK(*parsed == program);
    }
  }
}
