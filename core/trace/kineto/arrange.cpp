// arrange: goes over each track once, in time order.
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/trace/kineto/file.hpp"

namespace lockstep::kineto {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::uint32_t kMostLanes = 4096;  // per track; no call stack is that deep
constexpr std::string_view kLaunch = "ac2g", kOldLaunch = "async_cpu_to_gpu";

/// Gives each event the first lane that is free. For nested calls, that is their depth.
class Lanes {
 public:
  std::uint32_t place(Nanoseconds begin, Nanoseconds end) {
    while (!busy_.empty() && busy_.top().first <= begin) {
      free_.push(busy_.top().second);
      busy_.pop();
    }
    std::uint32_t lane = lanes_;
    if (free_.empty()) {
      ++lanes_;
    } else {
      lane = free_.top();
      free_.pop();
    }
    busy_.emplace(end, lane);
    return lane;
  }

 private:
  template <class T>
  using LeastFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;
  LeastFirst<std::pair<Nanoseconds, std::uint32_t>> busy_;  // ordered by end
  LeastFirst<std::uint32_t> free_;
  std::uint32_t lanes_ = 0;
};

/// The steps of a file, told from the begins of the host's ProfilerStep annotations.
class Steps {
 public:
  Steps(const File& file, const NameTable& names) {
    for (const Event& e : file.events) {
      const Family family = file.tracks[e.track].family;
      const std::int32_t step = step_of(names[e.name]);
      if (step >= 0 && family == Family::Host) begins_.emplace_back(e.begin, step);
    }
    std::sort(begins_.begin(), begins_.end());
  }
  /// The last step that began by `time`, or the first step if `time` is before it; 0 if the file
  /// has none.
  std::int32_t at(Nanoseconds time) const {
    if (begins_.empty()) return 0;
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), time,
                                       [](Nanoseconds t, const auto& b) { return t < b.first; });
    return next == begins_.begin() ? next->second : std::prev(next)->second;
  }

 private:
  std::vector<std::pair<Nanoseconds, std::int32_t>> begins_;
};

class Arranger {
 public:
  Arranger(File& file, NameTable& names) : file_(file), names_(names) {}

  Result<void> arrange() {
    std::sort(file_.events.begin(), file_.events.end(), [](const Event& a, const Event& b) {
      return std::tie(a.track, a.begin, b.end, a.name) < std::tie(b.track, b.begin, a.end, b.name);
    });
    std::stable_sort(file_.flow_ends.begin(), file_.flow_ends.end(),
                     [](const FlowEnd& a, const FlowEnd& b) {
                       return std::tie(a.place, a.time) < std::tie(b.place, b.time);
                     });
    bound_.assign(file_.flow_ends.size(), kNone);
    std::uint32_t begin = 0;
    for (std::size_t t = 0; t < file_.tracks.size(); ++t) {
      std::uint32_t end = begin;
      while (end < file_.events.size() && file_.events[end].track == static_cast<int>(t)) ++end;
      if (!sweep(static_cast<std::int32_t>(t), begin, end)) {
        return Error{ErrorKind::Parse,
                     "not a trace: more than " + std::to_string(kMostLanes) +
                         " events at one time on one track",
                     SourceSpan{file_.path, 0, 0}};
      }
      begin = end;
    }
    follow_launches();
    follow_flows();
    return {};
  }

 private:
  Event& event(std::uint32_t index) { return file_.events[index]; }
  Family family(const Event& e) const { return file_.tracks[e.track].family; }

  /// The range of flow ends that bind to `track`: those of its (pid, tid), if it is the first track
  /// of that place in the order Host, Device, DeviceSync.
  std::pair<std::size_t, std::size_t> flow_ends_of(std::int32_t track) const {
    const Track& t = file_.tracks[track];
    const Place& place = file_.places[t.place];
    for (const Family f : {Family::Host, Family::Device, Family::DeviceSync}) {
      const std::int32_t first = place.tracks[f];
      if (first == track) break;
      if (first >= 0) return {0, 0};
    }
    const auto range = std::equal_range(
        file_.flow_ends.begin(), file_.flow_ends.end(), FlowEnd{0, 0, 0, t.place, false},
        [](const FlowEnd& a, const FlowEnd& b) { return a.place < b.place; });
    return {to_size(range.first - file_.flow_ends.begin()),
            to_size(range.second - file_.flow_ends.begin())};
  }

  /// Sets lanes and the marks that calls inherit, and binds each flow end to the innermost event
  /// that is open at its time. False: too many lanes.
  bool sweep(std::int32_t track, std::uint32_t begin, std::uint32_t end) {
    const Family family = file_.tracks[track].family;
    const bool nests = family == Family::Host || family == Family::DeviceAnnotation;
    Lanes lanes;
    std::vector<std::uint32_t> open;
    auto [flow, last_flow] = flow_ends_of(track);
    const auto bind_before = [&, &flow = flow, last_flow = last_flow](Nanoseconds next) {
      for (; flow != last_flow && file_.flow_ends[flow].time < next; ++flow) {
        while (!open.empty() && event(open.back()).end < file_.flow_ends[flow].time) {
          open.pop_back();
        }
        if (!open.empty()) bound_[flow] = open.back();
      }
    };
    for (std::uint32_t i = begin; i < end; ++i) {
      Event& e = event(i);
      bind_before(e.begin);
      while (!open.empty() && event(open.back()).end <= e.begin) open.pop_back();
      const bool nested = nests && !open.empty() && e.end <= event(open.back()).end;
      if (nested) e.marks |= event(open.back()).marks;
      has_backward_ |= (e.marks & BackwardMark) != 0;
      const std::uint32_t lane = lanes.place(e.begin, e.end);
      if (lane >= kMostLanes) return false;
      e.lane = static_cast<std::uint16_t>(lane);
      if (lane > 0 && !nested) ++file_.counts.overlapping;
      open.push_back(i);
    }
    bind_before(std::numeric_limits<Nanoseconds>::max());
    return true;
  }

  /// Gives the events of devices the step and the phase of the call that launched them.
  void follow_launches() {
    std::vector<std::pair<std::int32_t, std::uint32_t>> launches;
    for (std::uint32_t i = 0; i < file_.events.size(); ++i) {
      const Event& e = event(i);
      if (e.correlation >= 0 && family(e) == Family::Host) launches.emplace_back(e.correlation, i);
    }
    std::sort(launches.begin(), launches.end());
    const Steps steps(file_, names_);
    std::int32_t track = -1;
    std::vector<std::int32_t> last_step;  // by lane, on which steps follow each other
    for (std::uint32_t i = 0; i < file_.events.size(); ++i) {
      Event& e = event(i);
      e.step = steps.at(e.begin);
      const std::int32_t named =
          family(e) == Family::DeviceAnnotation ? step_of(names_[e.name]) : -1;
      if (named >= 0) e.step = named;
      const auto launch =
          family(e) == Family::Host || e.correlation < 0
              ? launches.end()
              : std::lower_bound(launches.begin(), launches.end(), std::pair(e.correlation, 0U));
      if (launch != launches.end() && launch->first == e.correlation) {
        const Event& cause = event(launch->second);
        e.step = steps.at(cause.begin);
        if (e.kind == Kind::Compute && has_backward_) e.kind = phase_of(cause);
        file_.links.push_back({names_.id(kLaunch), launch->second, i});
      }
      if (e.track != track) last_step.clear();
      track = e.track;
      if (last_step.size() <= e.lane) last_step.resize(e.lane + std::size_t{1}, e.step);
      e.step = last_step[e.lane] = std::max(e.step, last_step[e.lane]);
    }
  }

  static Kind phase_of(const Event& launch) {
    if ((launch.marks & BackwardMark) != 0) return Kind::Backward;
    return (launch.marks & OptimizerMark) != 0 ? Kind::Optimizer : Kind::Forward;
  }

  /// Links each end of a flow to the last begin of its id before it. Flows of launches are skipped
  /// where correlations have told the launches already.
  void follow_flows() {
    const auto known = [&, linked = !file_.links.empty()](const FlowEnd& f) {
      return linked && (names_[f.name] == kLaunch || names_[f.name] == kOldLaunch);
    };
    std::vector<std::size_t> begins;
    const auto key = [&](std::size_t i) {
      const FlowEnd& f = file_.flow_ends[i];
      return std::tie(f.name, f.id, f.time);
    };
    for (std::size_t i = 0; i < file_.flow_ends.size(); ++i) {
      if (file_.flow_ends[i].begins && !known(file_.flow_ends[i])) begins.push_back(i);
    }
    const auto before = [&](std::size_t a, std::size_t b) { return key(a) < key(b); };
    std::stable_sort(begins.begin(), begins.end(), before);
    for (std::size_t i = 0; i < file_.flow_ends.size(); ++i) {
      const FlowEnd& end = file_.flow_ends[i];
      if (end.begins || known(end)) continue;
      const auto next = std::upper_bound(begins.begin(), begins.end(), i, before);
      const bool found = next != begins.begin() &&
                         file_.flow_ends[*std::prev(next)].name == end.name &&
                         file_.flow_ends[*std::prev(next)].id == end.id;
      if (found && bound_[i] != kNone && bound_[*std::prev(next)] != kNone) {
        file_.links.push_back({end.name, bound_[*std::prev(next)], bound_[i]});
      } else {
        ++file_.counts.unbound_flows;
      }
    }
  }

  File& file_;
  NameTable& names_;
  std::vector<std::uint32_t> bound_;  // by flow end: the event that it binds to, or kNone
  bool has_backward_ = false;
};

}  // namespace

Result<void> arrange(File& file, NameTable& names) { return Arranger(file, names).arrange(); }

}  // namespace lockstep::kineto
