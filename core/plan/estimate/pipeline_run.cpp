#include "core/plan/estimate/pipeline_run.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace lockstep {
namespace {

constexpr double kNotYet = -1;

class Runner {
 public:
  Runner(const Schedule& schedule, const PipelineCost& cost)
      : schedule_(schedule),
        cost_(cost),
        stages_(static_cast<int>(schedule.rank_of_stage.size())),
        next_(schedule.actions.size(), 0),
        free_(schedule.actions.size(), 0),
        layer_free_(schedule.actions.size(), 0) {
    Microbatch most = -1;
    for (const Actions& actions : schedule.actions) {
      for (const Action& action : actions) most = std::max(most, action.microbatch);
    }
    microbatches_ = most + 1;
    const auto cells = to_size(stages_) * to_size(microbatches_);
    arrived_forward_.assign(cells, kNotYet);
    arrived_backward_.assign(cells, kNotYet);
    done_.assign(cells, kNotYet);
    sent_forward_.assign(to_size(stages_), 0);
    sent_backward_.assign(to_size(stages_), 0);
  }

  PipelineRun run() {
    // A rank goes on until it waits for a message that has not been sent; then the others do.
    std::vector<int> ready;
    for (int r = static_cast<int>(free_.size()) - 1; r >= 0; --r) ready.push_back(r);
    while (!ready.empty()) {
      const int rank = ready.back();
      ready.pop_back();
      const Actions& actions = schedule_.actions[rank];
      for (int& i = next_[rank]; i < static_cast<int>(actions.size()); ++i) {
        const double at = input_of(actions[to_size(i)]);
        if (at < 0) break;
        if (const int woken = execute(actions[to_size(i)], rank, at); woken >= 0 && woken != rank) {
          ready.push_back(woken);
        }
      }
    }
    return result();
  }

  /// The same on shared devices: from one event to the next, which is the end of an action or the
  /// arrival of an input, every action progresses at its device's rate.
  PipelineRun run(const SharedDevices& shared) {
    struct Work {
      double left = 0;  // seconds at full rate
      bool runs = false, early = false;
    };
    IndexVector<int, Work> work(next_.size(), Work());
    const double never = std::numeric_limits<double>::infinity();
    for (double now = 0;;) {
      double event = never;
      for (const int r : work.ids()) event = std::min(event, begin_action(r, now, work[r]));
      std::map<int, double> load;
      for (const int r : work.ids()) {
        for (const SharedDevices::Part& part : shared.parts[r]) {
          if (work[r].runs) load[part.device] += part.ranks;
        }
      }
      IndexVector<int, double> rate(work.size(), 1);
      for (const int r : work.ids()) {
        for (const SharedDevices::Part& part : shared.parts[r]) {
          rate[r] = std::min(rate[r], shared.cores / std::max(shared.cores, load[part.device]));
        }
        if (work[r].runs) event = std::min(event, now + work[r].left / rate[r]);
      }
      if (event == never) return result();
      for (const int r : work.ids()) {
        if (!work[r].runs) continue;
        const bool ends = now + work[r].left / rate[r] <= event;
        work[r].left -= (event - now) * rate[r];
        if (ends) end_action(r, event, work[r]);
      }
      now = event;
    }
  }

 private:
  std::size_t cell(Stage s, Microbatch mb) const {
    return to_size(s) * to_size(microbatches_) + to_size(mb);
  }
  /// When the input of an action is there; negative: it is not known yet.
  double input_of(const Action& a) const {
    const std::size_t at = cell(a.stage, a.microbatch);
    switch (a.phase) {
      case Phase::F:
        return schedule_.is_first(a.stage) ? 0 : arrived_forward_[at];
      case Phase::W:
        return done_[at];
      default:
        return schedule_.is_last(a.stage) ? done_[at] : arrived_backward_[at];
    }
  }
  const ActionTime& time_of(const Action& a) const {
    return lockstep::time_of(cost_.stages[a.stage], a.phase);
  }
  /// Lets an idle rank compute, if what it needs is there. Returns when that will be; infinity if
  /// it is not known, or the rank computes.
  template <class Work>
  double begin_action(int rank, double now, Work& work) {
    const double never = std::numeric_limits<double>::infinity();
    const Actions& actions = schedule_.actions[rank];
    if (work.runs || next_[rank] == static_cast<int>(actions.size())) return never;
    const Action& a = actions[to_size(next_[rank])];
    const ActionTime& time = time_of(a);
    const double input = input_of(a);
    if (time.early > 0 && !work.early) {
      work = {time.early, true, true};
    } else if (input < 0) {
      return never;
    } else if (input > now) {
      return input;
    } else {
      work = {time.lead + time.busy, true, false};
    }
    return never;
  }
  template <class Work>
  void end_action(int rank, double now, Work& work) {
    work.runs = false;
    if (work.early) return;  // the rest of the action is to come
    const Action& a = schedule_.actions[rank][to_size(next_[rank]++)];
    const ActionTime& time = time_of(a);
    makespan_ = std::max(makespan_, now);
    finish(a, rank, now + std::max(0.0, time.result - time.busy));
  }

  PipelineRun result() const {
    PipelineRun result{makespan_, IndexVector<int, double>(free_.size(), 0)};
    for (const int rank : result.kept.ids())
      result.kept[rank] = most_kept(schedule_.actions[rank], cost_);
    return result;
  }

  /// Returns the rank that gets the result; -1 if none does.
  int execute(const Action& a, int rank, double input) {
    const ActionTime& time = time_of(a);
    const double led = time.lead > 0 ? std::max(input, layer_free_[rank]) + time.lead : input;
    const double begin = std::max(led, free_[rank] + time.early);
    if (time.layer > 0) layer_free_[rank] = begin + time.layer;
    const double end = begin + time.result;
    free_[rank] = begin + time.busy;
    makespan_ = std::max(makespan_, free_[rank]);
    return finish(a, rank, end);
  }
  /// The result of an action is there at `end`. Returns the rank that it is sent to; -1 if none is.
  int finish(const Action& a, int rank, double end) {
    makespan_ = std::max(makespan_, end);
    done_[cell(a.stage, a.microbatch)] = end;
    if (a.phase == Phase::W) return -1;
    const bool forward = a.phase == Phase::F;
    if (forward ? schedule_.is_last(a.stage) : schedule_.is_first(a.stage)) return -1;
    const Stage to = a.stage + (forward ? 1 : -1);
    const int receiver = schedule_.rank_of_stage[to];
    double& arrival = (forward ? arrived_forward_ : arrived_backward_)[cell(to, a.microbatch)];
    arrival = end;
    if (receiver == rank) return -1;
    const MessageTime& message = (forward ? cost_.forward : cost_.backward)[forward ? a.stage : to];
    double& sent = (forward ? sent_forward_ : sent_backward_)[to_size(rank)];
    const double sending = std::max(end, sent);
    sent = sending + message.busy;
    arrival = sending + message.arrival;
    return receiver;
  }
  const Schedule& schedule_;
  const PipelineCost& cost_;
  const int stages_;
  int microbatches_ = 0;
  IndexVector<int, int> next_;           // by rank: its next action
  IndexVector<int, double> free_;        // by rank: when it has ended the one before
  IndexVector<int, double> layer_free_;  // and when the collectives inside its layers have
  std::vector<double> arrived_forward_, arrived_backward_, done_;  // by cell(stage, microbatch)
  std::vector<double> sent_forward_, sent_backward_;  // by rank: when its stream is free
  double makespan_ = 0;
};

}  // namespace

const ActionTime& time_of(const StageCost& stage, Phase phase) {
  switch (phase) {
    case Phase::F:
      return stage.forward;
    case Phase::I:
      return stage.input;
    case Phase::W:
      return stage.weight;
    default:
      return stage.backward;
  }
}

double most_kept(const Actions& actions, const PipelineCost& cost) {
  double kept = 0, most = 0;
  for (const Action& a : actions) {
    const StageCost& stage = cost.stages[a.stage];
    if (a.phase == Phase::F) kept += stage.kept;
    if (a.phase == Phase::B) kept -= stage.kept;
    if (a.phase == Phase::I) kept += stage.pending - stage.kept;
    if (a.phase == Phase::W) kept -= stage.pending;
    most = std::max(most, kept);
  }
  return most;
}

PipelineRun run_pipeline(const Schedule& schedule, const PipelineCost& cost,
                         const SharedDevices* shared) {
  Runner runner(schedule, cost);
  return shared == nullptr ? runner.run() : runner.run(*shared);
}

}  // namespace lockstep
