// parse_file: a SAX pass over one file, of which only the events are kept.
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/trace/json_text.hpp"
#include "core/trace/kineto/fields.hpp"
#include "core/trace/kineto/file.hpp"

namespace lockstep::kineto {
namespace {

using rapidjson::SizeType;

constexpr int kDeepest = 1000;
constexpr Nanoseconds kLongest = std::numeric_limits<Nanoseconds>::max() / 1000;  // in SimTime

std::uint64_t flow_id(std::string_view text) {
  const auto number = parse_integer<std::uint64_t>(text, 0);
  return number != 0 ? number : std::hash<std::string_view>{}(text);
}

/// Whether an id is a number even if it is written as a string: files of 2020 write a thread's
/// number as a string in its events and as a number in its flows.
bool is_number(std::string_view id) {
  return !id.empty() && id.find_first_not_of("0123456789") == std::string_view::npos;
}

std::uint8_t marks_of(std::string_view name) {
  if (name.starts_with("autograd::engine::evaluate_function")) return BackwardMark;
  if (name.starts_with("Optimizer.step")) return OptimizerMark;
  return 0;
}

class Handler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  Handler(File& file, NameTable& names, JsonText& text) : file_(file), names_(names), text_(text) {}

  std::string fault;

  bool Default() { return allowed(Shape::Scalar); }  // true, false, null
  bool RawNumber(const char* digits, SizeType size, bool) {
    return allowed(Shape::Scalar) && scalar({digits, size}, false);
  }
  bool String(const char* chars, SizeType size, bool) {
    return allowed(Shape::Scalar) && scalar({chars, size}, true);
  }
  bool StartObject() {
    if (!allowed(Shape::Object) || !enter()) return false;
    if (section_ == Section::Events && depth_ == events_depth_ + 1) begin_event();
    if (section_ == Section::Events && depth_ == events_depth_ + 2) {
      in_args_ = field_ == Field::Args;
    }
    return true;
  }
  bool EndObject(SizeType) {
    if (section_ == Section::Events && depth_ == events_depth_ + 1 && !end_event()) return false;
    if (depth_ == events_depth_ + 2) in_args_ = false;
    leave();
    return true;
  }
  bool StartArray() {
    if (!allowed(Shape::Array) || !enter()) return false;
    const bool events = depth_ == 1 || (section_ == Section::Events && events_depth_ == 0);
    if (!events) return true;
    section_ = Section::Events;
    events_depth_ = depth_;
    file_.has_events = true;
    return true;
  }
  bool EndArray(SizeType) {
    leave();
    return true;
  }
  bool Key(const char* chars, SizeType size, bool) {
    const std::string_view key(chars, size);
    if (section_ == Section::Events) {
      if (depth_ == events_depth_ + 1) {
        field_ = event_field(key);
        has_keys_ = true;
        has_phases_ |= field_ == Field::Ph;
      }
      if (in_args_ && depth_ == events_depth_ + 2) field_ = args_field(key);
      return true;
    }
    if (depth_ == 1) {
      section_ = key == "traceEvents"       ? Section::Events
                 : key == "distributedInfo" ? Section::Distributed
                                            : Section::None;
      is_base_time_ = key == "baseTimeNanoseconds";
    }
    if (section_ == Section::Distributed) key_ = key;
    return true;
  }

  /// Pairs B and E events, and makes times relative to the first event. False: the events span too
  /// long a time.
  bool finish() {
    pair_halves(file_, std::move(halves_));
    if (has_keys_ && !has_phases_) file_.has_events = false;  // a list of something else
    Nanoseconds first = kLatest, last = -kLatest;
    for (const Event& e : file_.events) {
      first = std::min(first, e.begin);
      last = std::max(last, e.end);
    }
    if (file_.events.empty()) first = last = 0;
    if (last - first > kLongest) return fail("it is longer than a hundred days");
    for (Event& e : file_.events) e.begin -= first, e.end -= first;
    for (FlowEnd& f : file_.flow_ends) f.time -= first;
    for (MemoryEvent& m : file_.memory) m.time -= first;
    constexpr Nanoseconds kYear2001 = 1'000'000'000'000'000'000;
    file_.start = first + base_time_;
    file_.wall_clock = file_.start >= kYear2001;
    return true;
  }

 private:
  enum class Section { None, Events, Distributed };
  enum class Shape { Scalar, Object, Array };

  /// The event that is being read. It is reused, so that strings keep their memory from one event
  /// to the next.
  struct Current {
    char ph = 0;
    std::string name, cat, pid, tid, id, label, collective, group, group_ranks;
    std::optional<Nanoseconds> ts, dur;
    std::int32_t correlation = -1;
    std::int64_t bytes = 0, in = 0, out = 0, dtype_bytes = 0, seq = -1;
    int source = -1, destination = -1;
    std::uint64_t at = 0;
    MemoryEvent memory;
    bool tells_memory = false;
  };
  bool fail(std::string message) {
    fault = std::move(message);
    return false;
  }
  bool enter() {
    if (++depth_ <= kDeepest) return true;
    return fail("nested deeper than " + std::to_string(kDeepest) + " levels");
  }
  void leave() {
    --depth_;
    if (section_ == Section::Events ? depth_ >= events_depth_ : depth_ > 1) return;
    section_ = Section::None;
    events_depth_ = 0;
  }

  /// Whether a value of this shape may stand at the present place.
  bool allowed(Shape shape) {
    text_.value_seen();
    if (section_ != Section::Events) return true;
    if (events_depth_ == 0 && shape != Shape::Array) {
      return fail(R"("traceEvents" is not a list)");
    }
    if (events_depth_ == 0 || depth_ < events_depth_) return true;
    if (depth_ == events_depth_ && shape != Shape::Object) return fail("an event is not an object");
    const bool is_time =
        depth_ == events_depth_ + 1 && (field_ == Field::Ts || field_ == Field::Dur);
    return !is_time || shape == Shape::Scalar || not_a_time("");
  }
  bool not_a_time(std::string_view text) {
    return fail(std::string(field_ == Field::Ts ? R"("ts")" : R"("dur")") +
                " is not a time in microseconds" +
                (text.empty() ? "" : ": " + std::string(text.substr(0, 40))));
  }

  bool scalar(std::string_view text, bool is_string) {
    if (section_ == Section::Distributed) distributed(text, is_string);
    if (section_ == Section::None && depth_ == 1 && is_base_time_) {
      base_time_ = parse_integer<Nanoseconds>(text, -1);
      if (base_time_ < 0 || base_time_ > kLatest) {
        return fail(R"("baseTimeNanoseconds" is not a time: )" + std::string(text.substr(0, 40)));
      }
    }
    if (section_ != Section::Events) return true;
    if (depth_ == events_depth_ + 1) return event_value(text, is_string);
    if (in_args_ && depth_ == events_depth_ + 2) argument(text);
    return true;
  }

  bool event_value(std::string_view text, bool is_string) {
    Current& c = current_;
    switch (field_) {
      case Field::Ph:
        c.ph = text.size() == 1 ? text[0] : '?';
        break;
      case Field::Name:
        c.name = text;
        break;
      case Field::Cat:
        c.cat = text;
        break;
      case Field::Pid:
      case Field::Tid: {
        std::string& id = field_ == Field::Pid ? c.pid : c.tid;
        id.assign(is_string && !is_number(text) ? "\"" : "").append(text);
        break;
      }
      case Field::Id:
        c.id = text;
        break;
      case Field::Ts:
      case Field::Dur: {
        const auto time = is_string ? std::nullopt : parse_time(text);
        if (!time) return not_a_time(text);
        (field_ == Field::Ts ? c.ts : c.dur) = time;
        break;
      }
      default:
        break;
    }
    return true;
  }

  void argument(std::string_view text) {
    Current& c = current_;
    switch (field_) {
      case Field::ArgName:
        c.label = text;
        break;
      case Field::Correlation:
        c.correlation = parse_integer<std::int32_t>(text, -1);
        if (c.correlation == 0) c.correlation = -1;
        break;
      case Field::Bytes:
        c.bytes = std::max<std::int64_t>(parse_integer<std::int64_t>(text, 0), 0);
        break;
      case Field::Collective:
        c.collective = text;
        break;
      case Field::InElements:
        c.in = parse_integer<std::int64_t>(text, 0);
        break;
      case Field::OutElements:
        c.out = parse_integer<std::int64_t>(text, 0);
        break;
      case Field::Dtype:
        c.dtype_bytes = bytes_of_dtype(text);
        break;
      case Field::GroupName:
        c.group = text;
        break;
      case Field::GroupRanks:
        c.group_ranks = text;
        break;
      case Field::Seq:
        c.seq = parse_integer<std::int64_t>(text, -1);
        break;
      case Field::Source:
        c.source = parse_integer<int>(text, -1);
        break;
      case Field::Destination:
        c.destination = parse_integer<int>(text, -1);
        break;
      case Field::DeviceType:
        c.memory.device_type = parse_integer<int>(text, -1);
        break;
      case Field::DeviceId:
        c.memory.device = parse_integer<int>(text, -1);
        break;
      case Field::TotalAllocated:
        c.memory.allocated = parse_integer<std::int64_t>(text, 0);
        c.tells_memory = true;
        break;
      case Field::TotalReserved:
        c.memory.reserved = parse_integer<std::int64_t>(text, 0);
        break;
      default:
        break;
    }
  }

  /// Takes a value of distributedInfo. "ranks" of a process group is a list in older files and a
  /// string in newer ones.
  void distributed(std::string_view text, bool is_string) {
    if (depth_ == 2 && key_ == "rank") file_.rank = parse_integer<int>(text, -1);
    if (depth_ == 2 && key_ == "world_size") file_.world_size = parse_integer<int>(text, -1);
    if (depth_ == 4 && key_ == "pg_name") group_ = text;
    if (group_.empty() || key_ != "ranks") return;
    if (depth_ == 4 && is_string) group(group_).ranks = parse_ranks(text);
    if (depth_ == 5) {
      const int rank = parse_integer<int>(text, -1);
      if (rank >= 0) group(group_).ranks.push_back(rank);
    }
  }

  ProcessGroup& group(std::string_view name) { return file_.groups[group_id(name)]; }
  std::int32_t group_id(std::string_view name) {
    const auto known = std::find_if(file_.groups.begin(), file_.groups.end(),
                                    [name](const ProcessGroup& g) { return g.name == name; });
    if (known == file_.groups.end()) {
      file_.groups.push_back({std::string(name), {}});
      return static_cast<std::int32_t>(file_.groups.size()) - 1;
    }
    return static_cast<std::int32_t>(known - file_.groups.begin());
  }

  void begin_event() {
    Current& c = current_;
    for (std::string* s : {&c.name, &c.cat, &c.pid, &c.tid, &c.id, &c.label, &c.collective,
                           &c.group, &c.group_ranks}) {
      s->clear();
    }
    c.ph = 0;
    c.ts.reset();
    c.dur.reset();
    c.bytes = c.in = c.out = c.dtype_bytes = 0;
    c.seq = c.correlation = c.source = c.destination = -1;
    c.at = text_.Tell() - 1;  // the brace has been taken
    c.memory = {};
    c.tells_memory = false;
    field_ = Field::Other;
  }

  bool end_event() {
    switch (current_.ph) {
      case 'X':
      case 'B':
      case 'E':
        return end_span();
      case 's':
      case 't':
      case 'f':
        return end_flow();
      case 'M':
        if (current_.name == "thread_name") file_.places[place()].label = current_.label;
        return true;
      case 0:  // Kineto closes its list with an empty object
        return true;
      case 'i':
        if (!current_.tells_memory || !current_.ts) {
          ++file_.counts.not_spans;
          return true;
        }
        current_.memory.time = *current_.ts;
        file_.memory.push_back(current_.memory);
        return true;
      default:
        ++file_.counts.not_spans;
        return true;
    }
  }

  bool end_span() {
    const Current& c = current_;
    if (!c.ts) return fail(R"(an event without "ts")");
    const Category category = category_of(c.cat);
    Event e;
    e.begin = e.end = *c.ts;
    e.name = names_.id(c.name);
    e.track = track(category.family);
    e.correlation = c.correlation;
    e.kind = category.kind;
    e.at = c.at;
    if (category.family == Family::Host) e.marks = marks_of(c.name);
    if (category.family == Family::Device) describe(e);
    if (c.ph != 'X') {
      halves_.push_back({e, c.ph == 'B'});
      return true;
    }
    if (c.dur.value_or(-1) < 0) {
      ++file_.counts.without_duration;
    } else {
      e.end += *c.dur;
    }
    file_.events.push_back(e);
    return true;
  }

  /// Sets kind and transfer of an event that is a collective, a message or a copy.
  void describe(Event& e) {
    const Current& c = current_;
    Transfer t;
    t.bytes = c.bytes;
    if (!c.collective.empty() || is_collective_kernel(c.name)) {
      e.kind = kind_of_collective(c.collective.empty() ? c.name : c.collective);
      const std::int64_t elements = std::clamp<std::int64_t>(
          std::max(c.in, c.out), 0, std::numeric_limits<std::int64_t>::max() / 16);
      t.bytes = elements * c.dtype_bytes;
      t.seq = c.seq;
      t.source = c.source;
      t.destination = c.destination;
      if (!c.group.empty()) {
        t.group = group_id(c.group);
        ProcessGroup& g = file_.groups[t.group];
        if (g.ranks.empty()) g.ranks = parse_ranks(c.group_ranks);
      }
    }
    if (t.bytes == 0 && t.group < 0) return;
    e.transfer = static_cast<std::int32_t>(file_.transfers.size());
    file_.transfers.push_back(t);
  }

  bool end_flow() {
    const Current& c = current_;
    if (!c.ts) return fail(R"(an event without "ts")");
    const bool old_launch = c.cat == "async" && c.name == "launch";  // as in files of 2020
    FlowEnd end{*c.ts, flow_id(c.id),
                names_.id(old_launch      ? "ac2g"
                          : c.cat.empty() ? c.name
                                          : c.cat),
                static_cast<std::int32_t>(place()), false};
    if (c.ph != 's') file_.flow_ends.push_back(end);
    end.begins = true;
    if (c.ph != 'f') file_.flow_ends.push_back(end);
    return true;
  }

  /// The index of the current event's (pid, tid) in File::places.
  std::size_t place() {
    place_key_.assign(current_.pid).append(1, '\0').append(current_.tid);
    const auto [known, fresh] = place_ids_.try_emplace(place_key_, file_.places.size());
    if (fresh) file_.places.push_back({current_.pid, current_.tid, "", {-1, -1, -1, -1}});
    return known->second;
  }
  std::int32_t track(Family family) {
    const std::size_t p = place();
    std::int32_t& track = file_.places[p].tracks[family];
    if (track < 0) {
      track = static_cast<std::int32_t>(file_.tracks.size());
      file_.tracks.push_back({static_cast<std::int32_t>(p), family});
    }
    return track;
  }

  File& file_;
  NameTable& names_;
  JsonText& text_;
  Section section_ = Section::None;
  int depth_ = 0, events_depth_ = 0;
  bool in_args_ = false, is_base_time_ = false;
  bool has_keys_ = false, has_phases_ = false;  // of the elements of the list
  Field field_ = Field::Other;
  std::string key_, group_;  // while in distributedInfo
  Current current_;
  std::vector<HalfEvent> halves_;
  Nanoseconds base_time_ = 0;
  std::unordered_map<std::string, std::size_t> place_ids_;
  std::string place_key_;
};

}  // namespace

Result<File> parse_file(const std::string& path, NameTable& names, const ImportOptions& options) {
  File file;
  file.path = path;
  JsonText text(path, [&](double fraction) {
    if (options.progress) options.progress(fraction);
    return options.cancel == nullptr || !options.cancel->load();
  });
  const auto bad = [&](const std::string& what, const std::optional<SourceSpan>& where) {
    return Error{ErrorKind::Parse, what, where ? where : SourceSpan{path, 0, 0}};
  };
  if (!text.is_open()) return bad(text.failure(), std::nullopt);
  Handler handler(file, names, text);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseNanAndInfFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(text, handler);
  if (!text.stopped().empty()) {
    return bad(text.stopped(), text.stopped() == "cancelled"
                                   ? std::nullopt
                                   : std::optional(place_in_file(path, text.Tell())));
  }
  const bool cut_off = result.IsError() && handler.fault.empty() && text.ended();
  const bool finished = handler.finish();
  if (result.IsError() && !(cut_off && !file.events.empty())) {
    std::string what = handler.fault;
    if (what.empty()) what = rapidjson::GetParseError_En(result.Code());
    if (!text.failure().empty()) what += " (" + text.failure() + ")";
    return bad("not a trace: " + what + " (byte " + std::to_string(text.Tell()) + ")",
               place_in_file(path, text.Tell()));
  }
  if (!finished) return bad("not a trace: " + handler.fault, std::nullopt);
  if (cut_off) file.cut_off = place_in_file(path, text.Tell());
  return file;
}

}  // namespace lockstep::kineto
