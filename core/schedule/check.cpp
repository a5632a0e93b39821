// check_schedule: PyTorch's rules for a schedule, and a dry run that finds ranks in a circle.
#include <algorithm>

#include "core/base/index_vector.hpp"
#include "core/schedule/inputs.hpp"
#include "core/schedule/schedule.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kEnough = 10;  // messages; more would not help the user

class Check {
 public:
  Check(const Schedule& schedule, int p, int stages, int m)
      : schedule_(schedule), p_(p), per_copy_(stages), stages_(stages * schedule.copies), m_(m) {}

  std::vector<std::string> run() {
    if (schedule_.actions.size() != to_size(p_)) {
      add("it has " + std::to_string(schedule_.actions.size()) + " rows for " + std::to_string(p_) +
          " pipeline ranks");
    } else if (indices()) {
      placement();
      counts();
      if (faults_.empty()) dry_run();
    }
    return std::move(faults_);
  }

 private:
  void add(std::string fault) {
    if (faults_.size() < kEnough) faults_.push_back(std::move(fault));
  }
  std::size_t cell(const Action& a) const { return cell(a.stage, a.microbatch); }
  std::size_t cell(Stage s, Microbatch mb) const { return to_size(s) * to_size(m_) + to_size(mb); }
  bool shared(Stage s) const {
    return to_size(s) < schedule_.rank_of_stage.size() && schedule_.on_every_rank(s);
  }
  std::size_t cells() const { return to_size(stages_) * to_size(m_); }
  static std::string on(std::size_t rank) { return " on rank " + std::to_string(rank); }

  bool indices() {
    for (std::size_t r = 0; r < schedule_.actions.size(); ++r) {
      for (const Action& a : schedule_.actions[r]) {
        if (a.stage < 0 || a.stage >= stages_) {
          add(to_string(a) + on(r) + ": stages (pipeline ranks × virtual stages) go from 0 to " +
              std::to_string(stages_ - 1));
        }
        if (a.microbatch < 0 || a.microbatch >= m_) {
          add(to_string(a) + on(r) + ": microbatches go from 0 to " + std::to_string(m_ - 1));
        }
      }
    }
    return faults_.empty();
  }

  void placement() {
    IndexVector<Stage, int> rank_of(stages_, -1);
    for (std::size_t r = 0; r < schedule_.actions.size(); ++r) {
      for (const Action& a : schedule_.actions[r]) {
        if (shared(a.stage)) continue;
        int& rank = rank_of[a.stage];
        if (rank < 0) rank = static_cast<int>(r);
        if (rank != static_cast<int>(r)) {
          return add("stage " + std::to_string(a.stage) + " stands on rank " +
                     std::to_string(rank) + " and" + on(r).substr(3) +
                     ": a stage lives on one rank");
        }
      }
    }
  }

  void counts() {
    // For each (stage, microbatch), which of F, B, I and W have been seen, on every rank for
    // itself if all share the stage.
    std::vector<std::vector<IndexArray<Phase, bool, 4>>> seen_on(schedule_.actions.size());
    for (std::size_t r = 0; r < schedule_.actions.size(); ++r) {
      seen_on[r].resize(cells());
      for (const Action& a : schedule_.actions[r]) {
        auto& done = seen_on[shared(a.stage) ? r : 0][cell(a)];
        const auto has = [&](Phase phase) { return done[phase]; };
        if (has(a.phase)) add(to_string(a) + on(r) + " stands twice");
        if (a.phase != Phase::F && !has(Phase::F)) {
          add(to_string(a) + on(r) + " comes before its forward pass");
        }
        if (a.phase == Phase::W && !has(Phase::I)) {
          add(to_string(a) + on(r) + " comes before its I");
        }
        if ((a.phase == Phase::B && (has(Phase::I) || has(Phase::W))) ||
            (a.phase != Phase::F && a.phase != Phase::B && has(Phase::B))) {
          add(to_string(a) + on(r) + ": its backward pass is both whole (B) and split (I, W)");
        }
        done[a.phase] = true;
      }
    }
    const IndexVector<Microbatch, int> copy_of = copies();
    for (Stage s = 0; s < stages_; ++s) {
      for (Microbatch mb = 0; mb < m_; ++mb) {
        if (s / per_copy_ != copy_of[mb]) continue;
        for (std::size_t r = 0; r < (shared(s) ? seen_on.size() : 1); ++r) {
          const auto& done = seen_on[r][cell(s, mb)];
          const std::string place = std::to_string(s) + " microbatch " + std::to_string(mb) +
                                    (shared(s) ? on(r) : std::string{});
          if (!done[Phase::F]) add("stage " + place + " has no forward pass");
          const bool split = done[Phase::I] && done[Phase::W];
          if (!done[Phase::B] && !split) {
            add("stage " + place + " has no " +
                (done[Phase::I] ? "W" : "backward pass (B, or I and W)"));
          }
        }
      }
    }
  }

  /// For each microbatch, the copy of the model that it goes through; the first copy if no action
  /// has the microbatch.
  IndexVector<Microbatch, int> copies() const {
    IndexVector<Microbatch, int> copy_of(m_, 0);
    for (const Actions& actions : schedule_.actions) {
      for (const Action& a : actions) {
        copy_of[a.microbatch] = a.stage / per_copy_;
      }
    }
    return copy_of;
  }

  /// Runs actions until none can run. The order in which ranks get their turn does not matter,
  /// since an action that can run is never prevented by another that runs first.
  void dry_run() {
    Inputs inputs(schedule_);
    std::vector<std::size_t> at(schedule_.actions.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < at.size(); ++r) {
        const Actions& actions = schedule_.actions[r];
        while (at[r] < actions.size()) {
          const std::size_t count = actions[at[r]].overlaps_next ? 2 : 1;
          bool all = true;
          for (std::size_t i = 0; i < count; ++i) {
            all = all && inputs.ready(actions[at[r] + i]);
          }
          if (!all) break;
          for (std::size_t i = 0; i < count; ++i) inputs.run(actions[at[r]++]);
          moved = true;
        }
      }
    }
    std::string stuck;
    for (std::size_t r = 0; r < at.size(); ++r) {
      if (at[r] == schedule_.actions[r].size()) continue;
      stuck += (stuck.empty() ? "" : ", ") + to_string(schedule_.actions[r][at[r]]) + on(r);
    }
    if (!stuck.empty()) add("ranks wait for each other in a circle: nothing can follow " + stuck);
  }

  const Schedule& schedule_;
  const int p_, per_copy_, stages_, m_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check_schedule(const Schedule& schedule, int p, int stages, int m) {
  return Check(schedule, p, stages, m).run();
}

}  // namespace lockstep
