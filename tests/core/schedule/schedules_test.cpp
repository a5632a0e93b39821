// Tests orders of actions against published ones, and against the rules of each schedule for any
// shape.
#include "core/schedule/schedules.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <random>
#include <sstream>

#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

Scenario scenario_of(PipelineSchedule schedule, int p, int m, int v) {
  Scenario s;
  s.model.name = "synthetic";
  s.model.architecture = Architecture::Synthetic;
  s.costs = CostsSpec{{1}, {1}, {1}, 0};
  s.cluster.ranks_per_device = 64;
  s.strategy.pipeline_parallel_degree = p;
  s.strategy.pipeline_parallel_microbatches = m;
  s.strategy.pipeline_parallel_schedule = schedule;
  s.strategy.pipeline_parallel_virtual_stages = v;
  return s;
}

PipelineShape shape_of(const Scenario& s) {
  const StrategySpec& strategy = s.strategy;
  PipelineShape shape;
  shape.p = strategy.pipeline_parallel_degree;
  shape.v = strategy.pipeline_parallel_virtual_stages;
  shape.m = strategy.pipeline_parallel_microbatches;
  shape.group =
      interleave_group(strategy.pipeline_parallel_microbatch_group_size, shape.p, shape.m);
  const auto time = [](const std::vector<double>& given, int stage) {
    return given.size() == 1 ? given[0] : given[static_cast<std::size_t>(stage)];
  };
  for (int i = 0; i < shape.p * shape.v; ++i) {
    shape.times.push_back({time(s.costs->forward, i), time(s.costs->backward_input, i),
                           time(s.costs->backward_weight, i)});
  }
  shape.p2p = s.costs->p2p;
  return shape;
}

Schedule schedule_of(const Scenario& s) {
  return generate(rules_of(s.strategy.pipeline_parallel_schedule), shape_of(s));
}

/// The most (stage, microbatch) pairs that are alive at once on a rank, each from its F to its B or
/// W.
int peak(const Actions& actions) {
  int live = 0;
  int most = 0;
  for (const Action& action : actions) {
    if (action.phase == Phase::F) most = std::max(most, ++live);
    if (action.phase == Phase::B || action.phase == Phase::W) --live;
  }
  return most;
}

int most(const Schedule& schedule) {
  int result = 0;
  for (const Actions& actions : schedule.actions) result = std::max(result, peak(actions));
  return result;
}

}  // namespace

TEST_CASE("every published action order is ours", "[core][schedule]") {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/schedule_orders.txt");
  REQUIRE(file.good());
  int orders = 0;
  Schedule schedule;
  int microbatches = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word, name;
    words >> word;
    if (word == "##") {  // "## ZBV(torch static) p=4 m=8 v=2"
      schedule = {};
      int p = 0, m = 0;
      words >> name;
      name = name.substr(0, name.find('('));
      while (words >> word) {
        if (word.starts_with("p=")) p = std::stoi(word.substr(2));
        if (word.starts_with("m=")) m = std::stoi(word.substr(2));
      }
      if (name == "ZBV") name = "ZBVZeroBubble";
      for (const ScheduleRules& rules : kSchedules) {
        if (rules.name != name) continue;
        const int v = rules.most_virtual_stages > 1 ? 2 : 1;
        microbatches = m;
        schedule = schedule_of(scenario_of(rules.schedule, p, m, v));
        ++orders;
      }
    } else if (word.starts_with("r") && !schedule.empty()) {
      std::string ours = word;
      Actions actions = schedule.actions.at(static_cast<std::size_t>(std::stoi(word.substr(1))));
      for (Action& action : actions) {  // the second copy's are 1000 + stage, microbatches from 0
        if (action.stage < schedule.stages_per_copy()) continue;
        action.stage += 1000 - schedule.stages_per_copy();
        action.microbatch -= microbatches / 2;
      }
      for (const std::string& cell : to_cells(actions)) {
        ours += " " + cell.substr(0, cell.find("OVERLAP_F_B"));
      }
      INFO(name);
      CHECK(ours == line);
    }
  }
  CHECK(orders == 20);
}

TEST_CASE("every schedule is complete and free of circles for any shape it takes",
          "[core][schedule]") {
  int checked = 0;
  for (const ScheduleRules& rules : kSchedules) {
    for (int p : {1, 2, 3, 4, 7}) {
      for (int m : {1, 2, 3, 4, 5, 7, 8, 13, 16}) {
        for (int v : {1, 2, 3, 4}) {
          const Scenario s = scenario_of(rules.schedule, p, m, v);
          if (!validate(s).empty()) continue;
          INFO(rules.name << " p=" << p << " m=" << m << " v=" << v);
          const Schedule schedule = schedule_of(s);
          CHECK(check_schedule(schedule, p, p * v, m) == std::vector<std::string>{});
          ++checked;
        }
      }
    }
  }
  CHECK(checked > 600);
}

TEST_CASE("every schedule is free of circles for any times of its stages and messages",
          "[core][schedule]") {
  const unsigned seed = 20261129;
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  for (int shapes = 0; shapes < 3000;) {
    const ScheduleRules& rules = kSchedules[random() % kSchedules.size()];
    const int p = 1 + below(9);
    const int m = 1 + below(24);
    const Scenario s = scenario_of(rules.schedule, p, m, rules.least_virtual_stages);
    if (!validate(s).empty()) continue;
    PipelineShape shape = shape_of(s);
    for (StageTimes& times : shape.times) {
      times = {1.0 + below(8), 1.0 + below(8), below(8) + 0.5};
    }
    shape.p2p = 0.5 * below(4);
    shape.kept_after_input = (1 + below(4)) / 4.0;
    INFO("seed " << seed << ", shape " << shapes << ": " << rules.name << " p=" << p << " m=" << m);
    REQUIRE(check_schedule(generate(rules, shape), p, p * shape.v, m) ==
            std::vector<std::string>{});
    ++shapes;
  }
}

TEST_CASE("GPipe and LoopedBFS alone end all forwards before the first backward",
          "[core][schedule]") {
  for (const ScheduleRules& rules : kSchedules) {
    INFO(rules.name);
    const Schedule schedule =
        schedule_of(scenario_of(rules.schedule, 4, 16, rules.least_virtual_stages));
    bool forwards_first = true;
    for (const Actions& actions : schedule.actions) {
      const auto goes_back = [](const Action& action) { return action.phase != Phase::F; };
      const auto first_back = std::find_if(actions.begin(), actions.end(), goes_back);
      forwards_first = forwards_first && std::all_of(first_back, actions.end(), goes_back);
    }
    CHECK(forwards_first == rules.forwards_first);
  }
}

TEST_CASE("Interleaved1F1B is free of circles for every legal group size", "[core][schedule]") {
  for (int p : {1, 2, 3, 4, 5}) {
    for (int m = 1; m <= 17; ++m) {
      for (int group = 1; group <= m; ++group) {
        for (int v : {2, 3}) {
          Scenario s = scenario_of(PipelineSchedule::Interleaved1F1B, p, m, v);
          s.strategy.pipeline_parallel_microbatch_group_size = group;
          const bool legal = group >= std::min(p, m) && (m % group == 0 || m % group >= p);
          CHECK(validate(s).empty() == legal);
          if (!legal) continue;
          INFO("p=" << p << " m=" << m << " v=" << v << " group=" << group);
          CHECK(check_schedule(schedule_of(s), p, p * v, m) == std::vector<std::string>{});
        }
      }
    }
  }
}

TEST_CASE("peaks of activations follow the closed forms", "[core][schedule]") {
  for (int p : {1, 2, 3, 4, 7}) {
    for (int m : {1, 3, 4, 8, 14, 16}) {
      for (int v : {1, 2, 3}) {
        for (const ScheduleRules& rules : kSchedules) {
          const Scenario s = scenario_of(rules.schedule, p, m, v);
          if (!validate(s).empty()) continue;
          const int group = interleave_group(0, p, m);
          const Schedule schedule = schedule_of(s);
          for (int r = 0; r < p; ++r) {
            int expected = 0;
            switch (rules.schedule) {
              case PipelineSchedule::GPipe:
                expected = m;
                break;
              case PipelineSchedule::OneFOneB:
              case PipelineSchedule::PipeDream:
              case PipelineSchedule::PipeDream2bw:
                expected = std::min(m, p - r);
                break;
              case PipelineSchedule::Interleaved1F1B:
                expected = std::min(m * v, 2 * (p - 1 - r) + (v - 1) * group + 1);
                break;
              case PipelineSchedule::LoopedBFS:
                expected = m * v;
                break;
              case PipelineSchedule::ZbH1:
                expected = p;
                break;
              case PipelineSchedule::ZbH2:
                expected = 2 * p - 1;
                break;
              case PipelineSchedule::InterleavedZeroBubble:
                if (m % p != 0) continue;
                expected = v * p;
                break;
              case PipelineSchedule::ZbvZeroBubble:
                if (m < 2 * p) continue;
                expected = 2 * p;
                break;
              case PipelineSchedule::DualPipeV:
                expected = 2 * p + 1;
                break;
              case PipelineSchedule::DualPipe:
                expected = p + 1;
                break;
              case PipelineSchedule::VHalf:  // of the rank that holds most: p/2 + 1 stages' worth
                if (m < 2 * p || r > 0) continue;
                CHECK(most(schedule) == 2 * (p / 2 + 1));
                continue;
              case PipelineSchedule::VMin:  // (p+2)/3
                if (m < 2 * p || r > 0) continue;
                CHECK(most(schedule) == 2 * ((p + 4) / 3));
                continue;
              case PipelineSchedule::Zb1p:
              case PipelineSchedule::Zb2p:
              case PipelineSchedule::ZbV:
                continue;  // a limit, not a form
            }
            INFO(rules.name << " p=" << p << " m=" << m << " v=" << v << " rank " << r);
            CHECK(peak(schedule.actions[r]) == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("ZB-1p, ZB-2p and ZB-V keep at most p, 2p and p activations, whatever the times",
          "[core][schedule]") {
  for (int p : {1, 2, 3, 5, 8}) {
    for (int m : {1, 2, 7, 16, 40}) {
      for (const auto& [forward, input, weight] :
           {std::array{1.0, 1.0, 1.0}, {3.0, 5.0, 1.0}, {1.0, 2.0, 4.0}}) {
        for (PipelineSchedule name : {PipelineSchedule::Zb1p, PipelineSchedule::Zb2p}) {
          Scenario s = scenario_of(name, p, m, 1);
          s.costs = CostsSpec{{forward}, {input}, {weight}, 0.25};
          const int limit = name == PipelineSchedule::Zb1p ? p : 2 * p;
          for (const Actions& actions : schedule_of(s).actions) CHECK(peak(actions) <= limit);
        }
        Scenario v = scenario_of(PipelineSchedule::ZbV, p, m, 2);
        std::vector<double> uneven;  // by virtual stage
        for (int stage = 0; stage < 2 * p; ++stage) uneven.push_back(forward + stage % 3);
        for (const std::vector<double>& forwards : {std::vector<double>{forward}, uneven}) {
          v.costs = CostsSpec{forwards, {input}, {weight}, 0.25};
          const Schedule schedule = schedule_of(v);
          CHECK(check_schedule(schedule, p, 2 * p, m) == std::vector<std::string>{});
          for (const Actions& actions : schedule.actions) CHECK(peak(actions) <= 2 * p);
        }
      }
    }
  }
}
