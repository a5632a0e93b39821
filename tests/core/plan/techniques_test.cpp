// Layouts of tasks with any technique: what bounds, estimates and searches say of them, beside
// their full simulation.
#include "tests/core/plan/techniques.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "core/plan/best_first.hpp"
#include "core/plan/bounds.hpp"
#include "core/plan/estimate/estimate.hpp"
#include "core/session/simulation.hpp"

using namespace lockstep;

namespace {

int from_environment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoi(value) : otherwise;
}

Bytes most(const Probe& probe) {
  Bytes needed;
  for (const Bytes bytes : probe.needed) needed = std::max(needed, bytes);
  return needed;
}

/// Judges so many layouts of the space of each of so many tasks.
void judge(int tasks, int layouts, unsigned seed, bool print) {
  std::mt19937 random(seed);
  std::vector<double> times;
  int judged = 0, refused = 0;
  while (tasks > 0) {
    std::string names;
    const std::string text = test::small_task_text(random);
    const std::optional<Scenario> task = test::with_techniques(text, random, names);
    if (!task) continue;
    --tasks;
    std::vector<LayoutPoint> points = layout_space(*task, {});
    if (points.empty()) continue;
    LayoutBounds bounds(*task);
    Estimator estimator(simulated_probe);
    for (int i = 0; i < layouts; ++i) {
      LayoutPoint point = points[random() % points.size()];
      if (random() % 4 == 0) {
        const auto others = other_schedules(point, *task, {});
        if (!others.empty()) point = others[random() % others.size()];
      }
      const std::optional<Scenario> layout = layout_of(*task, point);
      if (!layout) continue;
      INFO(names << " of\n"
                 << text << layout_name(*layout) << ", " << to_string(point.recomputation));
      const Result<Probe> full = simulated_probe(*layout);
      const Result<LayoutEstimate> estimate = estimator.estimate(*layout);
      if (!full) {
        ++refused;
        UNSCOPED_INFO(to_string(full.error()));
        CHECK(full.error().kind == ErrorKind::InvalidSpec);
        continue;
      }
      if (!estimate) FAIL(to_string(estimate.error()));
      ++judged;
      const LayoutBound bound = bounds.of(point);
      INFO("bounds " << bound.time.v << " s, " << bound.needed.v << " B; estimated "
                     << estimate->step_time.v << " s, " << estimate->needed.v << " B; simulated "
                     << full->step.v << " s, " << most(*full).v << " B");
      CHECK(bound.time.v <= full->step.v * (1 + 1e-9));
      CHECK(bound.needed <= most(*full));
      const double time = estimate->step_time.v / full->step.v - 1;
      const double memory =
          static_cast<double>(estimate->needed.v) / static_cast<double>(most(*full).v) - 1;
      if (estimate->unclaimed.empty()) {
        CHECK(std::abs(time) <= EstimateClaim::kWorstTime);
      }
      CHECK(memory >= -EstimateClaim::kMemoryUnder);
      times.push_back(std::abs(time));
      if (print) {
        std::cout << (estimate->unclaimed.empty() ? "" : "? ") << time * 100 << " %  memory "
                  << memory * 100 << " %  " << full->step.v << " s  " << names << ": "
                  << layout_name(*layout) << "\n";
      }
    }
  }
  std::sort(times.begin(), times.end());
  if (print) {
    const auto at = [&](double part) {
      return 100 * times[static_cast<std::size_t>(part * double(times.size() - 1))];
    };
    std::cout << judged << " layouts, " << refused << " refused when lowered: " << at(0.5)
              << " % median, " << at(0.9) << " % at 90, " << at(0.95) << " % at 95, " << at(0.99)
              << " % at 99, " << at(1) << " % at worst\n";
  }
}

/// By how much the first that a search finds is slower than the fastest of all layouts, and how
/// many of the front of time against memory it misses by more than a hundredth in both.
struct Lost {
  double time = 0;
  int of_front = 0;
};

Lost lost_by(const SpaceResult& few, const SpaceResult& all) {
  const auto seconds = [](const FoundLayout& f) { return f.figures.step_time.v; };
  const auto bytes = [](const FoundLayout& f) {
    return static_cast<double>(f.figures.memory.needed.v);
  };
  Lost lost{seconds(few.found.front()) / seconds(all.found.front()) - 1, 0};
  double least = std::numeric_limits<double>::infinity();
  for (const FoundLayout& best : all.found) {  // fastest first
    if (bytes(best) >= least) continue;
    least = bytes(best);
    lost.of_front += std::none_of(few.found.begin(), few.found.end(), [&](const FoundLayout& f) {
      return seconds(f) <= seconds(best) * 1.01 && bytes(f) <= bytes(best) * 1.01;
    });
  }
  return lost;
}

/// Searches the spaces of so many tasks with bounds and estimates, and without.
void search_both(int tasks, unsigned seed) {
  std::mt19937 random(seed);
  int lost = 0, of_front = 0, searched = 0;
  while (tasks > 0) {
    std::string names;
    std::string text = test::small_task_text(random, true);
    const std::optional<Scenario> task = test::with_techniques(text, random, names);
    if (!task) continue;
    --tasks;
    SpaceOptions options;
    options.settings = false;
    options.exhaustive = true;
    options.threads = 2;
    const auto all = search_space(*task, simulated_layout, simulated_probe, options);
    options.exhaustive = false;
    const auto few = search_space(*task, simulated_layout, simulated_probe, options);
    options.front = true;
    const auto front = search_space(*task, simulated_layout, simulated_probe, options);
    std::cout << names << " of " << search_task(*task) << ", "
              << task->cluster.device.memory.v / 1e9 << " GB, " << task->cluster.capacity()
              << " devices: ";
    INFO(names << " of\n" << text);
    CHECK(all.ok() == few.ok());
    CHECK(all.ok() == front.ok());
    if (!all || !few || !front) {
      std::cout << (all ? "some fit" : to_string(all.error()))
                << (few ? "" : to_string(few.error())) << "\n";
      continue;
    }
    ++searched;
    const Lost by = lost_by(*few, *all), more = lost_by(*front, *all);
    lost += by.time > 0.01;
    of_front += more.of_front;
    std::cout << all->counts.simulated << " simulated, " << few->counts.simulated << " and "
              << front->counts.simulated << " of these; slower by " << by.time * 100 << " %, front "
              << more.time * 100 << " %, " << more.of_front << " of the front missed; found "
              << layout_name(few->found.front().scenario) << ", best "
              << layout_name(all->found.front().scenario) << std::endl;
  }
  std::cout << searched << " tasks, " << lost << " winners lost by more than 1 %, " << of_front
            << " of fronts\n";
}

}  // namespace

TEST_CASE("bounds and claims hold for layouts with any technique", "[core][plan]") {
  judge(30, 6, 3, false);
}

namespace {

/// The first layout of the task that has the degrees, with its estimate, its bounds and its full
/// simulation.
struct Judged {
  Probe full;
  LayoutEstimate estimate;
  LayoutBound bound;
};
Judged judged(const Scenario& task, const std::vector<LayoutConstraints::Only>& only,
              bool keep_schedule = false) {
  LayoutConstraints constraints;
  constraints.only = only;
  constraints.keep_schedule = keep_schedule;
  for (const LayoutPoint& point : layout_space(task, constraints)) {
    const std::optional<Scenario> layout = layout_of(task, point);
    if (!layout) continue;
    Result<Probe> full = simulated_probe(*layout);
    const Result<LayoutEstimate> estimate = Estimator(simulated_probe).estimate(*layout);
    if (!full) FAIL(to_string(full.error()));
    if (!estimate) FAIL(to_string(estimate.error()));
    return {std::move(*full), *estimate, LayoutBounds(task).of(point)};
  }
  FAIL("the task has no such layout");
  return {};
}

Scenario decoder(const test::Overrides& overrides, int devices = 4) {
  const LoadedScenario loaded = parse_scenario(
      "[model]\narchitecture = \"llama\"\nname = \"m\"\nlayers = 8\nhidden = 2048\nheads = 16\n"
      "vocab = 32000\n[training]\nseq_len = 2048\nlocal_batch_size = 1\nglobal_batch_size = 16\n"
      "mixed_precision_param = \"bfloat16\"\n[cluster]\npreset = \"h100\"\nnodes = 1\n"
      "devices_per_node = " +
          std::to_string(devices) + "\n",
      "decoder", overrides);
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  return loaded.points.front().scenario;
}

}  // namespace

TEST_CASE("blocks that multiply in 16 bits at the ends are bounded and estimated as such",
          "[core][plan]") {
  const Scenario task = decoder({"training.fp8=hybrid", "training.num_layers_at_start_in_bf16=2",
                                 "training.num_layers_at_end_in_bf16=1"});
  for (const int stages : {1, 4}) {
    const Judged j = judged(task, {{"pp", stages}, {"tp", 1}, {"microbatch", 1}, {"v", 1}});
    CHECK(j.bound.time <= j.full.step);
    CHECK(j.bound.needed <= most(j.full));
    CHECK(std::abs(j.estimate.step_time.v / j.full.step.v - 1) < 0.03);
  }
}

TEST_CASE("a rank with both ends of a model that ties them is estimated with one table",
          "[core][plan]") {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::ZbvZeroBubble, PipelineSchedule::VHalf}) {
    Scenario task = decoder({"model.tied_embeddings=true", "model.vocab=128256"});
    task.strategy.pipeline_parallel_schedule = schedule;
    for (const int zero : {0, 1}) {
      const Judged j =
          judged(task, {{"pp", 2}, {"tp", 1}, {"zero", zero}, {"microbatch", 1}}, true);
      INFO(j.estimate.step_time.v << " for " << j.full.step.v << " s, " << j.estimate.needed.v
                                  << " for " << most(j.full).v << " B");
      CHECK(std::abs(j.estimate.step_time.v / j.full.step.v - 1) < 0.05);
      CHECK(j.estimate.needed < Bytes{most(j.full).v / 100 * 115});
      CHECK(j.estimate.needed > Bytes{most(j.full).v / 100 * 85});
    }
  }
}

TEST_CASE("a table whose gradient is set to zero once does not raise the bound of a step",
          "[core][plan]") {
  // Two ranks of a V schedule are busy nearly all the time, so that the bound is nearly reached.
  for (const PipelineSchedule schedule : {PipelineSchedule::ZbvZeroBubble, PipelineSchedule::ZbV}) {
    Scenario task = decoder({"model.vocab=128256", "model.hidden=1024", "model.layers=12",
                             "training.global_batch_size=32", "cluster.preset=a100-80"},
                            2);
    task.strategy.pipeline_parallel_schedule = schedule;
    const Judged j = judged(task, {{"pp", 2}, {"v", 2}, {"tp", 1}, {"microbatch", 1}}, true);
    INFO(j.bound.time.v << " for " << j.full.step.v << " s");
    CHECK(j.bound.time <= j.full.step);
    CHECK(j.bound.time.v > 0.97 * j.full.step.v);
  }
}

namespace {

/// A task whose ranks are threads of the two cores of so many CPUs.
Scenario on_cpus(int nodes, int ranks) {
  const LoadedScenario loaded = parse_scenario(
      "[model]\narchitecture = \"gpt2\"\nname = \"m\"\nlayers = 8\nhidden = 512\nheads = 8\n"
      "vocab = 5000\nmax_seq_len = 256\n[training]\nseq_len = 256\nlocal_batch_size = 1\n"
      "global_batch_size = 32\n[cluster]\npreset = \"cpu\"\nnodes = " +
          std::to_string(nodes) + "\nranks_per_device = " + std::to_string(ranks) + "\n",
      "threads", {});
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  return loaded.points.front().scenario;
}

}  // namespace

TEST_CASE("stages that share the cores of a device are estimated as slow as they are",
          "[core][plan]") {
  struct Case {
    int nodes, ranks, microbatch;
  };
  for (const Case& c : {Case{1, 4, 1}, Case{1, 4, 8}, Case{2, 4, 8}, Case{1, 8, 1}}) {
    for (const PipelineSchedule schedule :
         {PipelineSchedule::OneFOneB, PipelineSchedule::Interleaved1F1B,
          PipelineSchedule::ZbvZeroBubble}) {
      Scenario task = on_cpus(c.nodes, c.ranks);
      task.strategy.pipeline_parallel_schedule = schedule;
      const int chunks = schedule == PipelineSchedule::OneFOneB ? 1 : 2;
      const Judged j =
          judged(task, {{"pp", 4}, {"tp", 1}, {"v", chunks}, {"microbatch", c.microbatch}}, true);
      INFO(c.nodes << " CPUs of " << c.ranks << " ranks, microbatches of " << c.microbatch << ", "
                   << chunks << " chunks: " << j.estimate.step_time.v << " for " << j.full.step.v
                   << " s");
      CHECK(std::abs(j.estimate.step_time.v / j.full.step.v - 1) < 0.03);
    }
  }
}

TEST_CASE("ranks that wait in their messages are estimated as long as they wait", "[core][plan]") {
  // A slow link, of which a message is a large part of a pass.
  for (const char* posting : {"fused", "blocking"}) {
    for (const char* bandwidth : {"300.0", "5.0", "1.0"}) {
      for (const int chunks : {1, 2, 4}) {
        Scenario task = decoder({std::string("parallelism.pipeline_parallel_p2p=") + posting,
                                 "training.global_batch_size=32",
                                 std::string("cluster.intra_node.bandwidth_gb_s=") + bandwidth});
        if (chunks > 1) {
          task.strategy.pipeline_parallel_schedule = PipelineSchedule::Interleaved1F1B;
        }
        LayoutConstraints constraints;
        constraints.only = {{"pp", 4}, {"tp", 1}, {"v", chunks}, {"microbatch", 1}};
        constraints.keep_schedule = true;
        const std::vector<LayoutPoint> points = layout_space(task, constraints);
        if (points.empty()) continue;
        const std::optional<Scenario> layout = layout_of(task, points.front());
        REQUIRE(layout);
        const Result<Probe> full = simulated_probe(*layout);
        const Result<LayoutEstimate> estimate = Estimator(simulated_probe).estimate(*layout);
        INFO(layout_name(*layout) << ", " << posting << ", " << bandwidth << " GB/s");
        REQUIRE(full.ok() == estimate.ok());  // one that deadlocks is known without lowering
        if (!full) continue;
        INFO(estimate->step_time.v << " for " << full->step.v << " s");
        CHECK(std::abs(estimate->step_time.v / full->step.v - 1) < 0.03);
      }
    }
  }
}

TEST_CASE("where I passes free most of what F keeps, memory is estimated as it is",
          "[core][plan]") {
  // Attention that is not fused keeps its probabilities, which W does not need.
  Scenario task = decoder({"framework.preset=megatron-2023", "cluster.preset=a100-80"}, 8);
  for (const PipelineSchedule schedule : {PipelineSchedule::ZbH1, PipelineSchedule::Zb1p}) {
    task.strategy.pipeline_parallel_schedule = schedule;
    const Judged j =
        judged(task, {{"pp", 2}, {"tp", 2}, {"zero", 1}, {"microbatch", 2}, {"v", 1}}, true);
    INFO(j.estimate.needed.v << " for " << most(j.full).v << " B");
    CHECK(j.estimate.needed < Bytes{most(j.full).v / 100 * 110});
    CHECK(j.estimate.needed > Bytes{most(j.full).v / 100 * 90});
  }
}

TEST_CASE("ranks that divide heads within a ring are bounded by their own transfers",
          "[core][plan]") {
  const Scenario task = decoder({"parallelism.context_parallel_method=ring",
                                 "training.seq_len=16384", "parallelism.context_parallel_degree=2",
                                 "parallelism.context_parallel_ulysses_degree=2",
                                 "cluster.intra_node.bandwidth_gb_s=2.0"});
  const Judged j = judged(task, {{"cp", 4}, {"microbatch", 1}});
  CHECK(j.bound.time <= j.full.step);
  CHECK(j.bound.needed <= most(j.full));
}

TEST_CASE("where products are narrow, transfers of experts still take their time in bounds",
          "[core][plan]") {
  const Scenario task = decoder({"model.experts=8", "model.capacity_factor=0.0",
                                 "framework.fp8=block", "cluster.intra_node.bandwidth_gb_s=5.0"});
  const Judged j = judged(task, {{"ep", 4}, {"tp", 1}, {"microbatch", 1}});
  CHECK(j.bound.time <= j.full.step);
  CHECK(j.bound.needed <= most(j.full));
  CHECK(j.bound.time > 0.5 * j.full.step);
  CHECK(j.bound.needed > Bytes{most(j.full).v / 2});
}

TEST_CASE("a search of pipelines that share the vocabulary finds the best of all", "[core][plan]") {
  const Scenario task =
      decoder({"parallelism.vocabulary_parallel_pipeline=true", "training.local_batch_size=2",
               "parallelism.pipeline_parallel_degree=2",
               "parallelism.pipeline_parallel_microbatches=2", "model.layers=4"},
              2);
  SpaceOptions options;
  options.settings = false;
  const auto few = search_space(task, simulated_layout, simulated_probe, options);
  options.exhaustive = true;
  const auto all = search_space(task, simulated_layout, simulated_probe, options);
  if (!few) FAIL(to_string(few.error()));
  REQUIRE(all.ok());
  CHECK(few->found.front().figures.step_time == all->found.front().figures.step_time);
  CHECK(few->counts.simulated < all->counts.simulated);
}

TEST_CASE("layouts whose schedules deadlock are refused, and the others searched", "[core][plan]") {
  for (const char* posting : {"fused", "blocking"}) {
    const Scenario task =
        decoder({std::string("parallelism.pipeline_parallel_p2p=") + posting, "model.layers=12"});
    SpaceOptions options;
    options.settings = false;
    options.constraints.only = {{"pp", 4}};
    const auto few = search_space(task, simulated_layout, simulated_probe, options);
    if (!few) FAIL(to_string(few.error()));
    const SpaceCounts& c = few->counts;
    CHECK(c.refused > 0);
    CHECK(c.layouts == c.too_large + c.too_slow + c.refused + c.estimated + c.implied_large);
    options.exhaustive = true;
    const auto all = search_space(task, simulated_layout, simulated_probe, options);
    if (!all) FAIL(to_string(all.error()));
    CHECK(all->counts.layouts == all->counts.refused + all->counts.simulated);
    CHECK(few->found.front().figures.step_time.v <= all->found.front().figures.step_time.v * 1.01);
  }
}

TEST_CASE("what does not fit as simulated is among no estimates", "[core][plan]") {
  std::size_t large = 0;
  for (std::int64_t gigabytes = 6; gigabytes < 16; ++gigabytes) {
    Scenario task = decoder({"model.layers=12"}, 2);
    task.cluster.device.memory = Bytes{gigabytes * 1'000'000'000};
    SpaceOptions options;
    options.settings = false;
    const auto found = search_space(task, simulated_layout, simulated_probe, options);
    if (!found) continue;
    large += found->counts.simulated_large;
    std::size_t known = 0;
    for (const EstimatedLayout& e : found->estimated) {
      for (const FoundLayout& f : found->found) known += f.point == e.point;
    }
    CHECK(known == found->found.size());
    const SpaceCounts& c = found->counts;
    CHECK(found->estimated.size() == c.estimated - c.estimated_large - c.simulated_large);
  }
  CHECK(large > 0);
}

TEST_CASE("a search that is stopped before it found anything says so", "[core][plan]") {
  SpaceOptions options;
  options.stop = [] { return true; };
  const auto found = search_space(decoder({}), simulated_layout, simulated_probe, options);
  REQUIRE(!found.ok());
  CHECK_THAT(found.error().message, ContainsSubstring("in time"));
}

// LOCKSTEP_TASKS=300 LOCKSTEP_SEED=5 test_core_plan "[.techniques]" prints every layout.
TEST_CASE("layouts with any technique", "[.techniques]") {
  judge(from_environment("LOCKSTEP_TASKS", 100), 10,
        static_cast<unsigned>(from_environment("LOCKSTEP_SEED", 1)), true);
}

// Likewise with "[.searches]".
TEST_CASE("searches of tasks with any technique", "[.searches]") {
  search_both(from_environment("LOCKSTEP_TASKS", 20),
              static_cast<unsigned>(from_environment("LOCKSTEP_SEED", 1)));
}
