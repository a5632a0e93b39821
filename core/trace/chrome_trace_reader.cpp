// read_chrome_trace: a SAX pass. Times are parsed from their digits and never go through a double,
// which would round them.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/trace/chrome_trace.hpp"
#include "core/trace/gzip_file.hpp"

namespace lockstep {
namespace {

/// Microseconds with at most six decimals as picoseconds; nothing if the text is anything else.
std::optional<SimTime> parse_microseconds(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max() / 10;
  std::int64_t value = 0;
  int decimals = -1;  // -1: before the point
  for (const char c : text) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    if (c < '0' || c > '9' || decimals == 6) return std::nullopt;
    if (value >= kLargest) return std::nullopt;
    value = value * 10 + (c - '0');
    if (decimals >= 0) ++decimals;
  }
  for (int i = std::max(decimals, 0); i < 6; ++i) {
    if (value >= kLargest) return std::nullopt;
    value *= 10;
  }
  return SimTime{negative ? -value : value};
}

class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Trace trace;
  std::vector<Span> spans;  // of the trace, in the order of the file
  std::string fault;
  bool has_metadata = false;

  bool null() override {  // the writer's text for a number that is not finite
    const bool in_row = section_ == Section::Metadata && depth_ == 4 && key_ == "steps";
    return !in_row || metadata_number(std::nullopt, std::numeric_limits<double>::quiet_NaN());
  }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t value) override { return number(value, double(value), ""); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      return fail("a number is out of range");
    }
    return number(static_cast<std::int64_t>(value), double(value), "");
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    return number(std::nullopt, value, digits);
  }

  bool string(string_t& value) override {
    if (section_ == Section::Metadata) return metadata_string(value);
    if (section_ == Section::Events && depth_ == 3) {
      if (key_ == "ph") event_.ph = value.size() == 1 ? value[0] : '?';
      if (key_ == "name") event_.is_memory = value == "memory";
    }
    return true;
  }

  bool start_object(std::size_t) override {
    ++depth_;
    if (section_ == Section::Events && depth_ == 3) event_ = Event{};
    return true;
  }
  bool end_object() override {
    if (section_ == Section::Events && depth_ == 3 && !finish_event()) return false;
    if (--depth_ == 1) section_ = Section::None;
    return !is_complete();
  }
  /// Whether all has been read that a trace keeps. Behind it a file has what only viewers need,
  /// such as the events of ranks for which others stand: seven eighths of it and more.
  bool is_complete() const { return own_events_ > 0 && own_events_ == read_events_; }
  bool start_array(std::size_t) override {
    ++depth_;
    if (section_ == Section::Metadata && key_ == "roles" && depth_ == 4) trace.roles.emplace_back();
    if (section_ == Section::Metadata && key_ == "instances" && depth_ == 4) {
      trace.instances.emplace_back();
    }
    if (section_ == Section::Metadata && depth_ >= 4) row_size_ = 0;
    return true;
  }
  bool end_array() override {
    if (section_ == Section::Metadata && !finish_row()) return false;
    if (--depth_ == 1) section_ = Section::None;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      section_ = name == "lockstep"      ? Section::Metadata
                 : name == "traceEvents" ? Section::Events
                                         : Section::None;
      has_metadata |= section_ == Section::Metadata;
    }
    if (depth_ <= 3) key_ = name;
    if (depth_ == 4) arg_ = name;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    const std::string_view what = e.what();
    const std::size_t prefix = what.find("] ");
    fault = what.substr(prefix == std::string_view::npos ? 0 : prefix + 2);
    return false;
  }

 private:
  enum class Section { None, Metadata, Events };
  struct Event {
    char ph = '?';
    bool is_memory = false;
    std::int64_t pid = -1, op = -1, step = 0;
    SimTime ts{}, dur{}, wait{};
    IndexVector<std::ptrdiff_t, std::int64_t> values;  // those of a counter, by memory kind
  };

  bool fail(std::string message) {
    fault = std::move(message);
    return false;
  }

  bool number(std::optional<std::int64_t> integer, double real, const std::string& digits) {
    if (section_ == Section::Metadata) return metadata_number(integer, real);
    if (section_ != Section::Events) return true;
    const auto time = [&](SimTime& field) {
      const auto parsed = parse_microseconds(integer ? std::to_string(*integer) : digits);
      if (!parsed)
        return fail(R"(")" + key_ + R"(": not a time in microseconds with at most six decimals)");
      field = *parsed;
      return true;
    };
    if (depth_ == 3) {
      if (key_ == "pid") event_.pid = integer.value_or(-1);
      if (key_ == "ts") return time(event_.ts);
      if (key_ == "dur") return time(event_.dur);
    } else if (depth_ == 4 && key_ == "args") {
      if (arg_ == "op") event_.op = integer.value_or(-1);
      if (arg_ == "step") event_.step = integer.value_or(0);
      if (arg_ == "wait_us") return time(event_.wait);
      if (event_.ph == 'C' && event_.is_memory) return counter(integer.value_or(0));
    }
    return true;
  }

  /// One value of a memory counter. Kinds that are absent, because the trace never has them, stay
  /// zero.
  bool counter(std::int64_t value) {
    const auto& kinds = trace.memory_kinds;
    const auto kind = std::find(kinds.begin(), kinds.end(), arg_);
    if (kind == kinds.end()) return fail(R"(a memory counter of unknown kind ")" + arg_ + R"(")");
    event_.values.resize(kinds.size());
    event_.values[kind - kinds.begin()] = value;
    return true;
  }

  bool metadata_number(std::optional<std::int64_t> integer, double real) {
    if (depth_ == 2 && key_ == "format_version") {
      trace.format_version = static_cast<int>(integer.value_or(-1));
    } else if (depth_ == 2 && key_ == "own_events") {
      own_events_ = integer.value_or(0);
    } else if (depth_ == 2 && key_ == "clock_uncertainty_ps") {
      trace.clock_uncertainty = SimTime{integer.value_or(0)};
    } else if (depth_ == 3) {
      const std::int64_t value = integer.value_or(-1);
      if (key_ == "role_of_rank") trace.role_of_rank.push_back(static_cast<std::int32_t>(value));
      if (key_ == "same_as") trace.same_as.push_back(static_cast<Rank>(value));
      if (key_ == "peak_memory") trace.peak_memory.push_back(value);
      if (key_ == "slowed_ps") trace.slowed.push_back(value);
    } else if (depth_ == 4 && key_ == "instances") {
      trace.instances.back().push_back(static_cast<Rank>(integer.value_or(-1)));
    } else if (row_size_ < integers_.size()) {
      integers_[row_size_] = integer.value_or(0);
      reals_[row_size_++] = real;
    }
    return true;
  }

  bool metadata_string(const std::string& value) {
    if (depth_ == 2 && key_ == "backend") trace.backend = value;
    if (depth_ == 2 && key_ == "program_hash") trace.program_hash = value;
    if (depth_ == 3) {
      if (key_ == "names") trace.names.push_back(value);
      if (key_ == "rank_labels") trace.rank_labels.push_back(value);
      if (key_ == "streams") trace.streams.push_back(value);
      if (key_ == "memory_kinds") trace.memory_kinds.push_back(value);
    }
    if (depth_ == 4 && key_ == "steps") {  // "nan", "inf", "-inf", as earlier versions wrote
      return metadata_number(std::nullopt, std::strtod(value.c_str(), nullptr));
    }
    return true;
  }

  bool finish_row() {
    if (key_ == "steps" && depth_ == 4) {
      if (row_size_ != 5 && row_size_ != 8) {
        return fail(R"(a step of "steps" needs 5 values, or 8 with a loss scale)");
      }
      StepResult step{static_cast<int>(integers_[0]), reals_[1], reals_[2], reals_[3],
                      Seconds{reals_[4]}};
      if (row_size_ == 8) {
        step.loss_scale = reals_[5];
        step.good_steps = static_cast<int>(integers_[6]);
        step.skipped_steps = static_cast<int>(integers_[7]);
      }
      trace.steps.push_back(step);
    } else if (key_ == "roles" && depth_ == 5) {
      if (row_size_ != 10) return fail(R"(an op of "roles" needs 10 values)");
      const auto& v = integers_;
      TraceOp op;
      op.name = static_cast<std::int32_t>(v[0]);
      op.kind = static_cast<std::int32_t>(v[1]);
      op.stream = static_cast<std::uint16_t>(v[2]);
      op.phase = static_cast<std::uint8_t>(v[3]);
      op.stage = static_cast<std::int16_t>(v[4]);
      op.layer = static_cast<std::int32_t>(v[5]);
      op.microbatch = static_cast<std::int32_t>(v[6]);
      op.bytes = v[7];
      op.channel = static_cast<std::int32_t>(v[8]);
      op.seq = static_cast<std::int32_t>(v[9]);
      trace.roles.back().ops.push_back(op);
    }
    if (key_ == "flows" && depth_ == 4) {
      if (row_size_ != 3) return fail(R"(a flow of "flows" needs 3 values)");
      trace.flows.push_back({static_cast<std::int32_t>(integers_[0]),
                             static_cast<std::uint32_t>(integers_[1]),
                             static_cast<std::uint32_t>(integers_[2])});
    }
    row_size_ = 0;
    return true;
  }

  bool finish_event() {
    const auto rank = static_cast<Rank>(event_.pid);
    if (event_.ph == 'X' && event_.op >= 0) {
      ++read_events_;
      spans.push_back({rank, OpId{static_cast<std::int32_t>(event_.op)},
                       static_cast<std::int32_t>(event_.step), event_.ts, event_.ts + event_.wait,
                       event_.ts + event_.dur});
    } else if (event_.ph == 'C' && event_.is_memory) {
      ++read_events_;
      event_.values.resize(trace.memory_kinds.size());
      trace.memory.push_back({rank, event_.ts, std::move(event_.values)});
    }
    return true;
  }

  Section section_ = Section::None;
  int depth_ = 0;
  std::string key_, arg_;
  Event event_;
  std::int64_t own_events_ = 0, read_events_ = 0;  // own_events_ 0: the file does not say
  std::array<std::int64_t, 10> integers_{};
  std::array<double, 10> reals_{};
  std::size_t row_size_ = 0;
};

/// Checks the indices that readers of a Trace rely on; empty if all are in range.
std::string check(const Trace& trace, const std::vector<Span>& spans) {
  const auto inside = [](std::int64_t index, std::size_t size) {
    return index >= 0 && to_size(index) < size;
  };
  if (trace.format_version != 1) {
    return "format version " + std::to_string(trace.format_version) + " is not 1";
  }
  const std::size_t world = trace.role_of_rank.size();
  if (trace.same_as.size() != world) return R"("same_as" and "role_of_rank" differ in length)";
  for (const std::int32_t role : trace.role_of_rank) {
    if (!inside(role, trace.roles.size())) return "a rank's role is out of range";
  }
  for (const Rank rank : trace.same_as) {
    if (!inside(rank, world)) return R"("same_as" names a rank out of range)";
  }
  for (const std::vector<Rank>& by_rank : trace.instances) {
    if (by_rank.size() != world) return R"("instances" has a row that is not by rank)";
  }
  for (const TraceRole& role : trace.roles) {
    for (const TraceOp& op : role.ops) {
      if (!inside(op.name, trace.names.size()) || !inside(op.kind, trace.names.size()) ||
          !inside(op.stream, trace.streams.size())) {
        return "an op's name, kind or stream is out of range";
      }
    }
  }
  for (const Span& span : spans) {
    if (!inside(span.rank, world)) return "an event's pid is no rank";
    const std::int32_t role = trace.role_of_rank[span.rank];
    if (!inside(span.op.v, trace.roles[role].ops.size())) {
      return "an event's op is out of range";
    }
    if (span.active < span.begin || span.end < span.active) return "an event ends before it begins";
  }
  for (const Flow& flow : trace.flows) {
    if (!inside(flow.kind, trace.names.size()) || !inside(flow.from, spans.size()) ||
        !inside(flow.to, spans.size())) {
      return "a flow's kind or span is out of range";
    }
  }
  for (const MemorySample& sample : trace.memory) {
    if (!inside(sample.rank, world)) return "a memory counter's pid is no rank";
  }
  return "";
}

Spans sorted(std::vector<Span> spans, const Trace& trace) {
  const auto place = [&](const Span& s) {
    const std::int32_t role = trace.role_of_rank[s.rank];
    return std::tuple(s.step, s.rank, trace.roles[role].ops[s.op].stream);
  };
  // The sort is stable because the file has the spans of one stream in their order, which begin
  // times do not tell for spans of zero length.
  std::stable_sort(spans.begin(), spans.end(),
                   [&](const Span& a, const Span& b) { return place(a) < place(b); });
  return Spans(spans);
}

}  // namespace

Result<Trace> read_chrome_trace(const std::string& path) {
  const auto bad = [&](const std::string& what) {
    return Error{ErrorKind::Parse, what, SourceSpan{path, 0, 0}};
  };
  GzipReader file(path);
  if (!file.is_open()) return bad(file.failure());
  Reader reader;
  const bool parsed = nlohmann::json::sax_parse(file.begin(), file.end(), &reader);
  if (!file.failure().empty()) return bad("not a whole gzip file: " + file.failure());
  if (!parsed && !reader.is_complete()) return bad("not a trace: " + reader.fault);
  if (!reader.has_metadata) {
    return bad(R"(not a trace of lockstep: it has no "lockstep" object beside "traceEvents")");
  }
  const std::string fault = check(reader.trace, reader.spans);
  if (!fault.empty()) return bad("damaged trace: " + fault);
  reader.trace.spans = sorted(std::move(reader.spans), reader.trace);
  return std::move(reader.trace);
}

}  // namespace lockstep
