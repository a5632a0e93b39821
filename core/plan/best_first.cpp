#include "core/plan/best_first.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/base/thread_team.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/too_large.hpp"

namespace lockstep {
namespace {

/// How many layouts are estimated before the best of them is looked at again. It does not depend on
/// the number of threads, so that the result does not either.
constexpr std::size_t kBatch = 16;
/// After so many batches that brought nothing better, the best is simulated, because what a
/// simulation found is a stricter limit for the bounds of others than an estimate, which may be
/// wrong.
constexpr int kSettled = 4;
/// Of how many layouts the other schedules are looked at.
constexpr int kOtherSchedules = 8;
/// How many layouts of whose estimates nothing is claimed are simulated beside the finalists.
constexpr int kMostUnclaimed = 1;
/// How many more are simulated where finalists are slower than the estimates of others.
constexpr std::size_t kMostInstead = 4;

/// By what part a layout must be better with another setting for the setting to be worth it.
constexpr double kWorthSetting = 1e-3;
/// And by how much a layout may be worse than the best, with what they save by estimate, for its
/// settings to be chosen, too.
constexpr double kNearBySettings = 1e-2;

/// Whether lowering says that there is no such layout, of which validate() does not know, such as
/// one whose schedule deadlocks where ranks wait for their messages.
bool refuses(const Error& error) {
  return error.kind == ErrorKind::InvalidSpec || error.kind == ErrorKind::Unsupported;
}

struct Outcome {
  std::optional<EstimatedLayout> layout;
  std::optional<Error> error;
  std::optional<Error> refusal;
};

class SpaceSearch {
 public:
  SpaceSearch(const Scenario& base, const LayoutOracle& oracle, const Prober& prober,
              const SpaceOptions& options)
      : base_(base),
        oracle_(oracle),
        prober_(prober),
        options_(options),
        estimator_(prober),
        bounds_(base),
        team_(std::max(1, options.threads)) {
    capacity_ = static_cast<double>(memory_per_rank(base.cluster, ranks_to_divide(base)).v);
    if (options.most_memory.v > 0) {
      const auto most = static_cast<double>(options.most_memory.v);
      capacity_ = capacity_ > 0 ? std::min(capacity_, most) : most;
    }
  }

  Result<SpaceResult> run() {
    std::vector<LayoutPoint> points = layout_space(base_, options_.constraints);
    // Estimates repeat a few blocks, which are not all alike where some are frozen.
    if (options_.exhaustive || base_.model.has_batch_norm() || !base_.model.frozen.empty()) {
      std::vector<LayoutPoint> others;
      for (const LayoutPoint& point : points) add_other_schedules(point, others);
      points.insert(points.end(), others.begin(), others.end());
      result_.counts.layouts = points.size();
      const bool all = options_.exhaustive || options_.front || !base_.model.has_batch_norm();
      const auto done = all ? simulate_all(points) : simulate_promising(points);
      if (!done) return done.error();
    } else {
      if (const auto done = search_among(points); !done) return done.error();
      if (const auto done = search_among(other_schedules_of_best()); !done) return done.error();
      if (options_.finalists > 0) {
        if (const auto done = simulate_finalists(); !done) return done.error();
      }
      summarize();
    }
    result_.counts.probes = estimator_.probes();
    result_.capacity = Bytes{static_cast<std::int64_t>(capacity_)};
    sort_found();
    if (result_.found.empty()) return nothing_fits();
    if (options_.settings) {
      if (const auto done = choose_settings(); !done) return done.error();
      sort_found();
    }
    return std::move(result_);
  }

 private:
  /// Adds the other schedules of a point, unless they are among `others`.
  void add_other_schedules(const LayoutPoint& point, std::vector<LayoutPoint>& others) const {
    for (const LayoutPoint& other : other_schedules(point, base_, options_.constraints)) {
      const bool known = std::find(others.rbegin(), others.rend(), other) != others.rend();
      if (!known) others.push_back(other);
    }
  }
  /// Those of the best layouts with pipelines; of all that may be on the front, if that is asked
  /// for.
  std::vector<LayoutPoint> other_schedules_of_best() const {
    std::vector<LayoutPoint> others;
    int pipelines = 0;
    for (const EstimatedLayout& e : result_.estimated) {
      if (e.point.pipeline == 1 || (options_.front && dominated(e))) continue;
      const std::size_t before = others.size();
      add_other_schedules(e.point, others);
      pipelines += others.size() > before;
      if (!options_.front && pipelines == kOtherSchedules) break;
    }
    return others;
  }

  /// Bounds, estimates and, unless so many are wanted, the simulation of the best of these points.
  Result<void> search_among(const std::vector<LayoutPoint>& points) {
    result_.counts.layouts += points.size();
    if (points.empty()) return {};
    find_bounds(points);
    if (options_.finalists > 0) return estimate(points);
    if (auto done = estimate_and_simulate(points); !done) return done;
    // What was thrown out for an estimate that no simulation confirms gets a second chance.
    if (!options_.front && best_found() > best_ * uncertainty()) {
      best_ = best_found();
      return estimate_and_simulate(points);
    }
    return {};
  }

  bool stopped() {
    if (options_.stop && options_.stop()) result_.stopped = true;
    return result_.stopped;
  }
  void report(std::size_t estimated_before, std::size_t found_before) {
    if (!options_.progress) return;
    options_.progress({result_.counts, std::span(result_.estimated).subspan(estimated_before),
                       std::span(result_.found).subspan(found_before)});
  }
  bool fits(const EstimatedLayout& e) const {
    const double over = e.estimate.unclaimed.empty() ? EstimateClaim::kMemoryOver
                                                     : EstimateClaim::kMemoryOverUnclaimed;
    return capacity_ <= 0 || static_cast<double>(e.estimate.needed.v) <= (1 + over) * capacity_;
  }

  /// What the best layout has least of.
  double value(Seconds time, Bytes needed) const {
    return options_.objective == Objective::Time ? time.v : static_cast<double>(needed.v);
  }
  double value(const LayoutBound& b) const { return value(b.time, b.needed); }
  double value(const LayoutFigures& f) const { return value(f.step_time, f.memory.needed); }
  double value(const EstimatedLayout& e) const {
    return value(e.estimate.step_time, e.estimate.needed);
  }
  /// By what factor an estimate of it may be wrong.
  double uncertainty() const {
    return 1 + (options_.objective == Objective::Time ? EstimateClaim::kUsualTime
                                                      : EstimateClaim::kMemoryUnder);
  }

  /// Whether no layout of these bounds can be wanted beside what has been estimated.
  bool hopeless(const LayoutBound& bound) const {
    if (!options_.front) return value(bound) > std::min(best_ * uncertainty(), best_found());
    const double uncertain = 1 + EstimateClaim::kUsualTime;
    return std::any_of(
        result_.estimated.begin(), result_.estimated.end(), [&](const EstimatedLayout& e) {
          return e.estimate.step_time.v * uncertain < bound.time.v &&
                 static_cast<double>(e.estimate.needed.v) * (1 + EstimateClaim::kMemoryUnder) <
                     static_cast<double>(bound.needed.v);
        });
  }

  /// Of what was simulated; infinite if nothing has fitted.
  double best_found() const {
    double best = std::numeric_limits<double>::infinity();
    for (const FoundLayout& f : result_.found) {
      best = std::min(best, value(f.figures.step_time, f.figures.memory.needed));
    }
    return best;
  }

  Result<void> estimate_and_simulate(const std::vector<LayoutPoint>& points) {
    // Where bounds left nothing to look at, nothing is stopped.
    if (order_.empty() || (stopped() && !result_.found.empty())) return {};
    if (auto done = estimate(points); !done) return done;
    return simulate_finalists();
  }

  /// Bounds of all points, and those that may fit, the best first; none if the search is stopped.
  void find_bounds(const std::vector<LayoutPoint>& points) {
    std::vector<LayoutBound>& bounds = bounds_of_points_;
    std::vector<std::size_t>& order = order_;
    bounds.assign(points.size(), {});
    next_ = left_ = 0;
    team_.each((points.size() + 255) / 256, [&](std::size_t part) {
      for (std::size_t i = 256 * part; i < std::min(points.size(), 256 * part + 256); ++i) {
        if (options_.stop && options_.stop()) return;
        bounds[i] = bounds_.of(points[i]);
      }
    });
    order.clear();
    if (stopped()) return;
    order.resize(points.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](std::size_t i) { return !may_fit(bounds[i], capacity_); });
    result_.counts.too_large += points.size() - order.size();
    note_families(points, bounds, capacity_, result_.lost);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return value(bounds[a]) < value(bounds[b]);
    });
  }

  /// Estimates those that are not hopeless, and have not been looked at.
  Result<void> estimate(const std::vector<LayoutPoint>& points) {
    const std::vector<LayoutBound>& bounds = bounds_of_points_;
    const std::vector<std::size_t>& order = order_;
    std::size_t& next = next_;
    result_.counts.too_slow -= std::exchange(left_, 0);
    int settled = 0;  // batches since the last that brought something better
    while (next < order.size() && left_ == 0 && !stopped()) {
      std::vector<std::size_t> batch;
      for (; next < order.size() && batch.size() < kBatch; ++next) {
        if (!options_.front && hopeless(bounds[order[next]])) {  // and so are all that follow
          left_ = order.size() - next;
          result_.counts.too_slow += left_;
          break;
        }
        if (hopeless(bounds[order[next]])) {
          ++result_.counts.too_slow;
        } else if (too_large_.implies(points[order[next]])) {
          ++result_.counts.implied_large;
          if (LostFamily* family = lost_family(points[order[next]])) ++family->large;
        } else {
          batch.push_back(order[next]);
        }
      }
      const std::size_t before = result_.estimated.size();
      const double best_before = best_;
      std::vector<std::optional<Scenario>> layouts(batch.size());
      team_.each(batch.size(),
                 [&](std::size_t i) { layouts[i] = layout_of(base_, points[batch[i]]); });
      std::vector<const Scenario*> valid;
      for (const std::optional<Scenario>& layout : layouts) {
        if (layout) valid.push_back(&*layout);
      }
      const std::vector<Estimator::Piece> pieces = estimator_.missing(valid);
      team_.each(pieces.size(), [&](std::size_t i) { estimator_.make(pieces[i]); });
      std::vector<Outcome> outcomes(batch.size());
      team_.each(batch.size(), [&](std::size_t i) {
        outcomes[i] = estimated(points[batch[i]], std::move(layouts[i]), bounds[batch[i]]);
      });
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        Outcome& outcome = outcomes[i];
        if (outcome.error) return *outcome.error;
        if (!outcome.layout) {
          ++result_.counts.refused;
          note_refusal(points[batch[i]], outcome.refusal);
          continue;
        }
        ++result_.counts.estimated;
        if (!fits(*outcome.layout)) {
          ++result_.counts.estimated_large;
          if (LostFamily* family = lost_family(outcome.layout->point)) ++family->large;
          too_large_.add(outcome.layout->point);
          continue;
        }
        best_ = std::min(best_, value(*outcome.layout));
        result_.estimated.push_back(std::move(*outcome.layout));
      }
      report(before, 0);
      settled = best_ < best_before ? 0 : settled + 1;
      if (settled == kSettled && !options_.front && options_.finalists == 0) {
        if (const auto done = simulate_best(); !done) return done.error();
      }
    }
    sort_estimated();
    return {};
  }
  void sort_estimated() {
    std::stable_sort(
        result_.estimated.begin(), result_.estimated.end(),
        [&](const EstimatedLayout& a, const EstimatedLayout& b) { return value(a) < value(b); });
  }

  /// The family of a point, before those with estimates are taken out of the list.
  LostFamily* lost_family(const LayoutPoint& point) {
    const std::string name = family_of(point);
    const auto it = std::find_if(result_.lost.begin(), result_.lost.end(),
                                 [&](const LostFamily& f) { return f.name == name; });
    return it == result_.lost.end() ? nullptr : &*it;
  }
  /// Notes why a layout is refused: by lowering, or else by validate().
  void note_refusal(const LayoutPoint& point, const std::optional<Error>& by_lowering) {
    LostFamily* family = lost_family(point);
    if (!family || family->refused++ > 0) return;
    if (by_lowering) {
      family->refusal = by_lowering->message;
    } else if (const Result<Scenario> layout = layout_or_why(base_, point); !layout) {
      family->refusal = layout.error().message;
    }
  }

  bool was_found(const LayoutPoint& point) const {
    return std::any_of(result_.found.begin(), result_.found.end(),
                       [&](const FoundLayout& f) { return f.point == point; });
  }
  bool was_simulated(const LayoutPoint& point) const {
    return std::find(simulated_.begin(), simulated_.end(), point) != simulated_.end();
  }

  Outcome estimated(const LayoutPoint& point, std::optional<Scenario> scenario,
                    const LayoutBound& bound) {
    Outcome outcome;
    if (!scenario) return outcome;
    Result<LayoutEstimate> estimate = estimator_.estimate(*scenario);
    if (!estimate && refuses(estimate.error())) {
      outcome.refusal = estimate.error();
    } else if (estimate) {
      estimate->needed = std::max(estimate->needed, bound.needed);
      outcome.layout = EstimatedLayout{point, std::move(*scenario), bound, *estimate};
    } else {
      outcome.error = named(*scenario, estimate.error());
    }
    return outcome;
  }
  static Error named(const Scenario& layout, Error error) {
    error.message = layout_name(layout) + ": " + error.message;
    return error;
  }

  struct Candidate {
    LayoutPoint point;
    const Scenario* scenario;
  };
  /// Simulates the layouts at once, and takes those that fit.
  Result<void> simulate(const std::vector<Candidate>& layouts) {
    const std::size_t before = result_.found.size();
    std::vector<std::optional<Result<LayoutFigures>>> figures(layouts.size());
    team_.each(layouts.size(), [&](std::size_t i) { figures[i] = oracle_(*layouts[i].scenario); });
    std::vector<std::pair<LayoutPoint, Error>> refused;
    std::vector<LayoutPoint> large_ones;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      simulated_.push_back(layouts[i].point);
      const Result<LayoutFigures>& f = *figures[i];
      if (!f && refuses(f.error())) {
        refused.push_back({layouts[i].point, f.error()});
        continue;
      }
      ++result_.counts.simulated;
      const bool large = f ? capacity_ > 0 && static_cast<double>(f->memory.needed.v) > capacity_
                           : f.error().kind == ErrorKind::OutOfMemory;
      if (!f && !large) return named(*layouts[i].scenario, f.error());
      result_.counts.simulated_large += large;
      if (large) {
        large_ones.push_back(layouts[i].point);
      } else {
        result_.found.push_back({layouts[i].point, *layouts[i].scenario, *f});
      }
    }
    for (const auto& [point, why] : refused) {
      result_.counts.estimated -= forget_estimate(point);
      note_refusal(point, why);
    }
    result_.counts.refused += refused.size();
    for (const LayoutPoint& point : large_ones) {
      too_large_.add(point);
      forget_estimate(point);
      if (LostFamily* family = lost_family(point)) ++family->large;
    }
    report(result_.estimated.size(), before);
    return {};
  }

  /// Drops the estimate of a layout that lowering refuses, or that does not fit as simulated.
  /// Returns how many there were.
  std::size_t forget_estimate(const LayoutPoint& point) {
    return std::erase_if(result_.estimated,
                         [&](const EstimatedLayout& e) { return e.point == point; });
  }

  Result<void> simulate_all(const std::vector<LayoutPoint>& points) {
    for (std::size_t next = 0; next < points.size() && !stopped();) {
      std::vector<Candidate> batch;
      std::vector<std::unique_ptr<const Scenario>> layouts;
      for (; next < points.size() && batch.size() < kBatch; ++next) {
        std::optional<Scenario> layout = layout_of(base_, points[next]);
        result_.counts.refused += !layout;
        if (!layout) continue;
        layouts.push_back(std::make_unique<const Scenario>(std::move(*layout)));
        batch.push_back({points[next], layouts.back().get()});
      }
      if (auto done = simulate(batch); !done) return done;
    }
    return {};
  }

  /// Simulates those whose bounds do not say that they are slower than what was found, the most
  /// promising first.
  Result<void> simulate_promising(const std::vector<LayoutPoint>& points) {
    find_bounds(points);
    result_.lost.clear();
    std::size_t next = 0;
    while (next < order_.size() && !stopped() && !hopeless(bounds_of_points_[order_[next]])) {
      std::vector<LayoutPoint> batch;
      for (; next < order_.size() && batch.size() < kBatch; ++next) {
        batch.push_back(points[order_[next]]);
      }
      if (auto done = simulate_all(batch); !done) return done;
    }
    if (!result_.stopped) result_.counts.too_slow += order_.size() - next;
    return {};
  }

  /// Simulates those that may be on the front, if that is asked for, and otherwise the best by
  /// estimate and one of whose estimate nothing is claimed.
  Result<void> simulate_finalists() {
    std::vector<Candidate> batch;
    const auto& all = result_.estimated;
    if (options_.front) {
      for (const EstimatedLayout& e : all) {
        if (!dominated(e) && !was_simulated(e.point)) batch.push_back({e.point, &e.scenario});
      }
      return simulate(batch);
    }
    const Result<std::size_t> next = simulate_best();
    if (!next) return next.error();
    const bool given = options_.finalists > 0;
    result_.undecided = 0;
    int unclaimed = 0;
    for (std::size_t i = 0; i < all.size() && near_best(all[i]); ++i) {
      const bool claims = all[i].estimate.unclaimed.empty();
      const bool more = !given && !claims && i >= *next && unclaimed < kMostUnclaimed;
      if (was_simulated(all[i].point)) {
        unclaimed += !claims && i >= *next;
      } else if (more) {
        batch.push_back({all[i].point, &all[i].scenario});
        ++unclaimed;
      } else {
        ++result_.undecided;
      }
    }
    return result_.stopped ? Result<void>() : simulate(batch);
  }
  bool near_best(const EstimatedLayout& e) const {
    return value(e) < value(result_.estimated.front()) * (1 + EstimateClaim::kUsualTime);
  }

  /// Simulates the best by estimate until enough of them fit. Estimates are sorted; returns which
  /// of them is the first that was not asked for.
  Result<std::size_t> simulate_best() {
    sort_estimated();
    const auto& all = result_.estimated;
    std::vector<Candidate> batch;
    std::size_t next = 0;
    const bool given = options_.finalists > 0;
    const auto wanted = static_cast<std::size_t>(given ? options_.finalists : 2);
    std::size_t found = 0;  // of those up to `next`
    while (next < all.size()) {
      if (result_.stopped && !result_.found.empty()) break;
      if (was_simulated(all[next].point)) {
        found += was_found(all[next].point);
        ++next;
        continue;
      }
      const bool decided = !given && found > 0 && !near_best(all[next]);
      if (found >= wanted || decided) {
        // Even so, another one is looked at if it should be faster than all that were simulated.
        const bool faster =
            !given && value(all[next]) * (1 + EstimateClaim::kUsualTime) < best_found();
        if (!faster || instead_ == kMostInstead) break;
        ++instead_;
      }
      const std::size_t most = found < wanted ? wanted - found : 1;
      batch.clear();
      for (std::size_t i = next; i < all.size() && batch.size() < most; ++i) {
        if (was_simulated(all[i].point)) break;
        if (!given && !batch.empty() && !near_best(all[i])) break;
        batch.push_back({all[i].point, &all[i].scenario});
      }
      if (auto done = simulate(batch); !done) return done.error();
    }
    return next;
  }

  void sort_found() {
    std::stable_sort(result_.found.begin(), result_.found.end(),
                     [&](const FoundLayout& a, const FoundLayout& b) {
                       return value(a.figures) < value(b.figures);
                     });
  }

  /// By how much settings of its communication make a layout's value less, by estimates with each.
  double saved_by_settings(const Scenario& layout) {
    const auto value_of = [&](const Scenario& s) {
      const Result<LayoutEstimate> e = estimator_.estimate(s);
      return e ? value(e->step_time, e->needed) : std::numeric_limits<double>::infinity();
    };
    const double own = value_of(layout);
    double saved = 0;
    for (const Alternatives& alternatives : settings_of_communication()) {
      double least = own;
      for (const Scenario& other : alternatives(layout)) least = std::min(least, value_of(other));
      saved += own - least;
    }
    return saved;
  }
  /// Simulates the best by estimate of each degree (`--only` can ask for any) that settings may
  /// make the best of all. Estimates are sorted.
  Result<void> simulate_best_of_degrees() {
    if (result_.estimated.empty()) return {};
    // Estimates are compared with an estimate: errors that layouts share decide nothing.
    const double best = std::min(best_found(), value(result_.estimated.front()));
    std::set<LayoutConstraints::Only> seen;
    std::vector<const EstimatedLayout*> bests;
    for (const EstimatedLayout& e : result_.estimated) {
      bool first = false;
      for (const auto& degree : degrees_of(e.point)) first = first || seen.count(degree) == 0;
      if (!first || !has_settings_of_communication(e.scenario)) continue;
      for (const auto& degree : degrees_of(e.point)) seen.insert(degree);
      if (!was_simulated(e.point)) bests.push_back(&e);
    }
    std::vector<double> reached(bests.size());
    team_.each(bests.size(), [&](std::size_t i) {
      const EstimatedLayout& e = *bests[i];
      reached[i] = value(e.bound) < best ? value(e) - saved_by_settings(e.scenario) : best;
    });
    std::vector<Candidate> batch;
    for (std::size_t i = 0; i < bests.size(); ++i) {
      if (reached[i] < best) batch.push_back({bests[i]->point, &bests[i]->scenario});
    }
    if (auto done = simulate(batch); !done) return done;
    if (!batch.empty()) summarize();  // some may not fit
    return {};
  }

  /// Gives the layouts that settings may make the best those that make it better by enough to be
  /// worth a change.
  Result<void> choose_settings() {
    if (auto done = simulate_best_of_degrees(); !done || stopped()) return done;
    sort_found();
    double near = best_found() * (1 + kNearBySettings);
    for (FoundLayout& found : result_.found) {
      const double own = value(found.figures);
      const bool estimated =
          !result_.estimated.empty() && has_settings_of_communication(found.scenario);
      if (own > near && (!estimated || own - saved_by_settings(found.scenario) > near)) continue;
      if (auto done = choose_settings(found); !done) return done;
      near = std::min(near, value(found.figures) * (1 + kNearBySettings));
    }
    return {};
  }
  Result<void> choose_settings(FoundLayout& best) {
    for (const Alternatives& alternatives : settings(result_.capacity, prober_)) {
      if (stopped()) break;
      const std::vector<Scenario> others = alternatives(best.scenario);
      std::vector<std::optional<Result<LayoutFigures>>> figures(others.size());
      team_.each(others.size(), [&](std::size_t i) { figures[i] = oracle_(others[i]); });
      result_.counts.settings += others.size();
      for (std::size_t i = 0; i < others.size(); ++i) {
        const Result<LayoutFigures>& f = *figures[i];
        const bool none = !f && (refuses(f.error()) || f.error().kind == ErrorKind::OutOfMemory);
        if (!f && !none) return named(others[i], f.error());
        if (!f || (capacity_ > 0 && static_cast<double>(f->memory.needed.v) > capacity_)) continue;
        if (value(*f) * (1 + kWorthSetting) < value(best.figures)) {
          best = {best.point, others[i], *f};
        }
      }
    }
    return {};
  }

  /// Whether another layout is faster and needs less by more than estimates are uncertain.
  bool dominated(const EstimatedLayout& e) const {
    const double uncertain = (1 + EstimateClaim::kUsualTime) * (1 + EstimateClaim::kUsualTime);
    const double memory = (1 + EstimateClaim::kMemoryUnder) * (1 + EstimateClaim::kMemoryUnder);
    return std::any_of(result_.estimated.begin(), result_.estimated.end(),
                       [&](const EstimatedLayout& other) {
                         return other.estimate.step_time.v * uncertain < e.estimate.step_time.v &&
                                static_cast<double>(other.estimate.needed.v) * memory <
                                    static_cast<double>(e.estimate.needed.v);
                       });
  }

  void summarize() {
    result_.families = best_of_families(result_.estimated);
    result_.front = front_of(result_.estimated);
    std::set<std::string> kept;
    for (const EstimatedLayout& e : result_.families) kept.insert(family_of(e.point));
    std::erase_if(result_.lost, [&](const LostFamily& f) { return kept.count(f.name) > 0; });
  }

  Error nothing_fits() const {
    const SpaceCounts& c = result_.counts;
    std::string message = "none of " + std::to_string(c.layouts) +
                          " layouts fits: " + std::to_string(c.too_large) +
                          " by the bound on memory, " + std::to_string(c.estimated_large) +
                          " by their estimate, " + std::to_string(c.simulated_large) +
                          " as simulated; " + std::to_string(c.refused) + " are refused";
    if (c.layouts == 0) message = "no layout divides the model, the batch and the ranks as wanted";
    if (result_.stopped) {
      message = "none was found in time that fits (--seconds): of " + std::to_string(c.layouts) +
                " layouts " + std::to_string(c.too_large) + " do not, by the bound on memory, " +
                std::to_string(c.estimated) + " were estimated and " + std::to_string(c.simulated) +
                " simulated";
    }
    return Error{ErrorKind::OutOfMemory, message, std::nullopt};
  }

  const Scenario& base_;
  const LayoutOracle& oracle_;
  const Prober& prober_;
  const SpaceOptions& options_;
  Estimator estimator_;
  LayoutBounds bounds_;
  ThreadTeam team_;
  TooLarge too_large_;
  double capacity_ = 0;                                    // bytes of a rank; 0: no limit
  double best_ = std::numeric_limits<double>::infinity();  // of what has been estimated
  std::vector<LayoutBound> bounds_of_points_;
  std::vector<std::size_t> order_;  // indices of points that may fit, by their bounds
  std::size_t next_ = 0;            // into order_; those before it have been looked at
  std::size_t left_ = 0;            // those that are hopeless for the best of what was estimated
  std::vector<LayoutPoint> simulated_;
  std::size_t instead_ = 0;  // of these, how many because finalists were slower than estimates
  SpaceResult result_;
};

}  // namespace

Result<SpaceResult> search_space(const Scenario& base, const LayoutOracle& oracle,
                                 const Prober& prober, const SpaceOptions& options) {
  if (base.model.architecture == Architecture::Synthetic) {
    return Error{ErrorKind::InvalidSpec,
                 "the synthetic model has times for one layout; search needs a model's sizes",
                 std::nullopt};
  }
  return SpaceSearch(base, oracle, prober, options).run();
}

}  // namespace lockstep
