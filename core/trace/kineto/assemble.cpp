// assemble: names the streams, gives each event its op, and puts all spans in one order.
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/base/phase.hpp"
#include "core/trace/kineto/file.hpp"

namespace lockstep::kineto {
namespace {

/// The number at the end of `text` and what stands before it; -1: no number.
std::pair<std::string, std::int64_t> split_number(const std::string& text) {
  const std::size_t last = text.find_last_not_of("0123456789");
  const std::size_t begin = last == std::string::npos ? 0 : last + 1;
  std::int64_t number = -1;
  std::from_chars(text.data() + begin, text.data() + text.size(), number);
  return {text.substr(0, begin), number};
}

/// A stream of a rank: its place among the others, and its name.
struct StreamKey {
  Family family = Family::Device;
  std::int64_t device = 0;  // 0: the rank's first device
  std::int64_t number = -1;
  std::string name;
  std::uint16_t lane = 0;
  bool operator<(const StreamKey& o) const {
    return std::tie(family, device, number, name, lane) <
           std::tie(o.family, o.device, o.number, o.name, o.lane);
  }
};

/// Names for a file's tracks that mean the same in every file. Device streams keep their numbers.
/// Threads are named by what they are and by their order, since the system's thread numbers differ
/// between files.
class TrackNames {
 public:
  explicit TrackNames(const File& file) : file_(file), keys_(file.tracks.size()) {
    for (std::size_t t = 0; t < file.tracks.size(); ++t) {
      if (file.tracks[t].family != Family::Host) devices_.try_emplace(order(place(t).pid), 0);
    }
    std::int64_t ordinal = 0;
    for (auto& [pid, device] : devices_) device = ordinal++;
    std::vector<std::size_t> threads;
    for (std::size_t t = 0; t < file.tracks.size(); ++t) {
      if (file.tracks[t].family == Family::Host) {
        threads.push_back(t);
      } else {
        name_stream(t);
      }
    }
    std::sort(threads.begin(), threads.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(order(place(a).pid), order(place(a).tid)) <
             std::pair(order(place(b).pid), order(place(b).tid));
    });
    std::map<std::string, int> seen;
    for (const std::size_t t : threads) {
      std::string name = thread_name(place(t));
      if (const int n = ++seen[name]; n > 1) name += " #" + std::to_string(n);
      keys_[t] = {Family::Host, 0, -1, std::move(name), 0};
    }
  }
  const StreamKey& key(std::int32_t track) const { return keys_[track]; }

 private:
  const Place& place(std::size_t track) const { return file_.places[file_.tracks[track].place]; }
  /// Sort key of an id as written: numbers sort by value and come before strings.
  static std::pair<std::int64_t, std::string> order(const std::string& id) {
    const std::int64_t number = split_number(id).second;
    return {id.starts_with('"') ? std::numeric_limits<std::int64_t>::max() : number, id};
  }
  static std::string bare(const std::string& id) { return id.starts_with('"') ? id.substr(1) : id; }

  void name_stream(std::size_t t) {
    const Place& p = place(t);
    const Family family = file_.tracks[t].family;
    std::string name = p.label;
    while (name.ends_with(' ')) name.pop_back();
    if (name.empty()) name = (p.tid.starts_with('"') ? "" : "stream ") + bare(p.tid);
    auto [prefix, number] = split_number(name);
    const std::int64_t device = devices_.at(order(p.pid));
    if (device > 0) name = "device " + bare(p.pid) + " " + name;
    if (family == Family::DeviceSync) name += " waits";
    if (family == Family::DeviceAnnotation) name += " annotations";
    keys_[t] = {family, device, number, std::move(name), 0};
  }

  /// The name of a host thread: "host python" for the label "thread 1234 (python)".
  static std::string thread_name(const Place& p) {
    if (p.tid.starts_with('"')) return bare(p.tid);
    if (p.pid.starts_with('"')) return bare(p.pid);
    const std::size_t open = p.label.find('('), close = p.label.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close <= open + 1) {
      return "host thread";
    }
    return "host " + p.label.substr(open + 1, close - open - 1);
  }

  const File& file_;
  IndexVector<std::int32_t, StreamKey> keys_;
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> devices_;
};

struct OpKey {
  std::int32_t name, kind, stream, channel, seq;
  std::int64_t bytes;
  bool operator==(const OpKey&) const = default;
};
struct OpHash {
  std::size_t operator()(const OpKey& k) const {
    std::uint64_t h = 0;
    for (const std::int64_t part :
         {std::int64_t{k.name}, std::int64_t{k.kind}, std::int64_t{k.stream},
          std::int64_t{k.channel}, std::int64_t{k.seq}, k.bytes}) {
      h = (h ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15U;
      h ^= h >> 29;
    }
    return h;
  }
};

Phase phase_of(Kind kind) {
  switch (kind) {
    case Kind::Forward:
      return Phase::F;
    case Kind::Backward:
      return Phase::B;
    case Kind::Optimizer:
      return Phase::O;
    default:
      return Phase::None;
  }
}

class Assembler {
 public:
  Assembler(const Files& files, ImportedTrace& imported, NameTable& names)
      : files_(files), trace_(imported.trace), sources_(imported.sources), names_(names) {}

  Result<void> assemble(const Clocks& clocks) {
    starts_ = clocks.starts;
    if (Result<void> ok = find_origin(); !ok) return ok;
    if (Result<void> ok = name_streams(); !ok) return ok;
    for (int k = 0; k <= static_cast<int>(Kind::Sync); ++k) {
      kinds_.push_back(names_.id(to_string(static_cast<Kind>(k))));
    }
    trace_.roles.resize(files_.size());
    order_.resize(files_.size());
    op_ids_.resize(files_.size());
    for (std::size_t f = 0; f < files_.size(); ++f) sort_events(f);
    add_spans();
    add_memory();
    std::sort(trace_.flows.begin(), trace_.flows.end(), [](const Flow& a, const Flow& b) {
      return std::tie(a.from, a.to, a.kind) < std::tie(b.from, b.to, b.kind);
    });
    return {};
  }

 private:
  /// Sets the common origin of time. Fails if files begin too far apart for SimTime.
  Result<void> find_origin() {
    const auto [first, last] = std::minmax_element(starts_.begin(), starts_.end());
    constexpr Nanoseconds kLongest = std::numeric_limits<Nanoseconds>::max() / 1000;
    if (*last / 2 - *first / 2 > kLongest / 4) {
      return bad_file(
          files_[last - starts_.begin()].path,
          "begins more than fifty days after another rank's trace: are they of one run?");
    }
    origin_ = *first;
    return {};
  }

  Result<void> name_streams() {
    std::map<StreamKey, std::uint16_t> streams;
    std::vector<TrackNames> names;
    std::vector<IndexVector<std::int32_t, std::uint16_t>> lanes(
        files_.size());  // by track: its last lane
    for (std::size_t f = 0; f < files_.size(); ++f) {
      names.emplace_back(files_[f]);
      lanes[f].assign(files_[f].tracks.size(), 0);
      for (const Event& e : files_[f].events) {
        lanes[f][e.track] = std::max(lanes[f][e.track], e.lane);
      }
      for (std::size_t t = 0; t < lanes[f].size(); ++t) {
        StreamKey key = names[f].key(static_cast<std::int32_t>(t));
        for (int lane = 0; lane <= lanes[f][t]; ++lane) {
          key.lane = static_cast<std::uint16_t>(lane);
          streams.try_emplace(key, 0);
        }
      }
    }
    if (streams.size() > std::numeric_limits<std::uint16_t>::max()) {
      return bad_file(files_.front().path, "not a trace: more than 65535 streams");
    }
    for (auto& [key, index] : streams) {
      index = static_cast<std::uint16_t>(trace_.streams.size());
      trace_.streams.push_back(key.name +
                               (key.lane == 0 ? "" : " (" + std::to_string(key.lane + 1) + ")"));
    }
    streams_.resize(files_.size());
    for (std::size_t f = 0; f < files_.size(); ++f) {
      for (std::size_t t = 0; t < lanes[f].size(); ++t) {
        StreamKey key = names[f].key(static_cast<std::int32_t>(t));
        streams_[f].emplace_back();
        for (int lane = 0; lane <= lanes[f][t]; ++lane) {
          key.lane = static_cast<std::uint16_t>(lane);
          streams_[f].back().push_back(streams.at(key));
        }
      }
    }
    return {};
  }

  std::uint16_t stream(std::size_t file, const Event& e) const {
    return streams_[file][e.track][e.lane];
  }

  /// Fills order_ with a file's events sorted by (step, stream, begin).
  void sort_events(std::size_t f) {
    const std::vector<Event>& events = files_[f].events;
    std::vector<std::uint32_t>& order = order_[f];
    order.resize(events.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto key = [&](std::uint32_t i) {
      return std::tuple(events[i].step, stream(f, events[i]), events[i].begin, i);
    };
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  }

  OpId op(std::size_t f, const Event& e) {
    const File& file = files_[f];
    OpKey key{e.name, kinds_[static_cast<int>(e.kind)], stream(f, e), -1, -1, 0};
    if (e.transfer >= 0) {
      const Transfer& t = file.transfers[e.transfer];
      key.bytes = t.bytes;
      key.channel = t.channel;
      key.seq = t.number;
    }
    TraceOps& ops = trace_.roles[f].ops;
    const auto [known, fresh] = op_ids_[f].try_emplace(key, static_cast<std::int32_t>(ops.size()));
    if (fresh) {
      TraceOp op;
      op.name = key.name;
      op.kind = key.kind;
      op.stream = static_cast<std::uint16_t>(key.stream);
      op.phase = static_cast<std::uint8_t>(phase_of(e.kind));
      op.bytes = key.bytes;
      op.channel = key.channel;
      op.seq = key.seq;
      ops.push_back(op);
    }
    return {known->second};
  }

  SimTime time_of(std::size_t f, Nanoseconds t) const {
    return SimTime{(t + starts_[f] - origin_) * 1000};
  }

  void add_span(std::size_t f, const Event& e) {
    Nanoseconds active = e.begin;
    if (e.transfer >= 0) {
      const Nanoseconds shortest = files_[f].transfers[e.transfer].shortest;
      if (shortest >= 0) active = e.end - shortest;
    }
    trace_.spans.push_back({static_cast<Rank>(f), op(f, e), e.step, time_of(f, e.begin),
                            time_of(f, active), time_of(f, e.end)});
    sources_.offsets.push_back(e.at);
  }

  /// Adds the spans step by step, within a step rank by rank, then the flows between them.
  void add_spans() {
    std::size_t count = 0;
    for (const File& file : files_) count += file.events.size();
    trace_.spans.reserve(count);
    sources_.offsets.reserve(count);
    for (const File& file : files_) sources_.files.push_back(file.path);
    std::vector<std::size_t> next(files_.size(), 0);
    std::vector<std::vector<std::uint32_t>> position(files_.size());
    for (std::size_t f = 0; f < files_.size(); ++f) position[f].resize(files_[f].events.size());
    while (trace_.spans.size() < count) {
      std::int32_t step = std::numeric_limits<std::int32_t>::max();
      for (std::size_t f = 0; f < files_.size(); ++f) {
        if (next[f] < order_[f].size()) {
          step = std::min(step, files_[f].events[order_[f][next[f]]].step);
        }
      }
      for (std::size_t f = 0; f < files_.size(); ++f) {
        for (; next[f] < order_[f].size(); ++next[f]) {
          const std::uint32_t i = order_[f][next[f]];
          if (files_[f].events[i].step != step) break;
          position[f][i] = static_cast<std::uint32_t>(trace_.spans.size());
          add_span(f, files_[f].events[i]);
        }
      }
    }
    for (std::size_t f = 0; f < files_.size(); ++f) {
      for (const Link& link : files_[f].links) {
        trace_.flows.push_back({link.name, position[f][link.from], position[f][link.to]});
      }
    }
  }

  /// Adds what each rank's allocator said: that of its GPU that is heard of first, or of the host
  /// where no GPU is.
  void add_memory() {
    for (std::size_t f = 0; f < files_.size(); ++f) {
      const std::vector<MemoryEvent>& events = files_[f].memory;
      const auto gpu = std::find_if(events.begin(), events.end(),
                                    [](const MemoryEvent& m) { return m.device_type != 0; });
      const MemoryEvent chosen = gpu != events.end() ? *gpu : MemoryEvent{};
      std::int64_t peak = 0;
      const std::size_t first = trace_.memory.size();
      for (const MemoryEvent& m : events) {
        const bool other = m.device_type != chosen.device_type ||
                           (gpu != events.end() && m.device != chosen.device);
        if (other) continue;
        const std::int64_t cached = std::max<std::int64_t>(m.reserved - m.allocated, 0);
        trace_.memory.push_back({static_cast<Rank>(f), time_of(f, m.time), {m.allocated, cached}});
        peak = std::max(peak, m.allocated + cached);
      }
      std::stable_sort(
          trace_.memory.begin() + static_cast<std::ptrdiff_t>(first), trace_.memory.end(),
          [](const MemorySample& a, const MemorySample& b) { return a.time < b.time; });
      trace_.peak_memory.push_back(peak);
    }
    if (trace_.memory.empty()) {
      trace_.peak_memory.clear();
    } else {
      trace_.memory_kinds = {"allocated", "cached"};
    }
  }

  const Files& files_;
  Trace& trace_;
  SpanSources& sources_;
  NameTable& names_;
  IndexVector<std::int32_t, Nanoseconds> starts_;
  Nanoseconds origin_ = 0;
  std::vector<std::int32_t> kinds_;  // into names, by Kind
  std::vector<IndexVector<std::int32_t, std::vector<std::uint16_t>>>
      streams_;                                                          // by file, track, lane
  std::vector<std::vector<std::uint32_t>> order_;                        // by file
  std::vector<std::unordered_map<OpKey, std::int32_t, OpHash>> op_ids_;  // by file
};

}  // namespace

Error bad_file(const std::string& path, const std::string& what) {
  return Error{ErrorKind::Parse, what, SourceSpan{path, 0, 0}};
}

Result<void> assemble(const Files& files, const Clocks& clocks, NameTable& names,
                      ImportedTrace& imported) {
  return Assembler(files, imported, names).assemble(clocks);
}

}  // namespace lockstep::kineto
