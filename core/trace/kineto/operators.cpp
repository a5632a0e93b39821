#include "core/trace/kineto/operators.hpp"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "core/base/index_vector.hpp"
#include "core/trace/json_text.hpp"
#include "core/trace/kineto/fields.hpp"

namespace lockstep {
namespace {

using kineto::parse_integer;
using rapidjson::SizeType;

enum class ActivityKind : std::uint8_t { Other, Operator, Launch, Kernel };

struct Activity {
  ActivityKind kind = ActivityKind::Other;
  std::string name, place;  // process and thread, or device and stream
  std::int64_t begin = 0, end = 0;
  std::int64_t correlation = 0;  // 0: none
  std::vector<TracedTensor> inputs;
};

ActivityKind kind_of(std::string_view category) {  // files of 2021 begin them with a capital letter
  if (category == "cpu_op" || category == "Operator") return ActivityKind::Operator;
  if (category == "kernel" || category == "Kernel") return ActivityKind::Kernel;
  if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime") {
    return ActivityKind::Launch;
  }
  return ActivityKind::Other;
}

/// Keeps the operators, launches and kernels of a file.
class ActivityReader : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, ActivityReader> {
 public:
  explicit ActivityReader(JsonText& text) : text_(text) {}
  std::vector<Activity> events;
  bool has_events = false;

  bool Default() { return scalar("", false); }
  bool RawNumber(const char* digits, SizeType size, bool) { return scalar({digits, size}, true); }
  bool String(const char* chars, SizeType size, bool) { return scalar({chars, size}, false); }
  bool StartObject() {
    text_.value_seen();
    ++depth_;
    if (depth_ == events_depth_ + 1 && events_depth_ > 0) {
      event_ = {};
      category_.clear(), phase_.clear(), pid_.clear(), tid_.clear();
      duration_ = 0;
    }
    return true;
  }
  bool EndObject(SizeType) {
    if (depth_ == events_depth_ + 1 && events_depth_ > 0) finish_event();
    --depth_;
    return true;
  }
  bool StartArray() {
    text_.value_seen();
    ++depth_;
    if (depth_ == 1 || (depth_ == 2 && key_ == "traceEvents")) {
      events_depth_ = depth_;
      has_events = true;
    }
    // The list of an argument's dimensions; a list of tensors is nested deeper, and is left out.
    if (in_list() && depth_ == events_depth_ + 4) next_input();
    return true;
  }
  bool EndArray(SizeType) {
    if (depth_ == events_depth_) events_depth_ = 0;
    --depth_;
    return true;
  }
  bool Key(const char* chars, SizeType size, bool) {
    if (depth_ > events_depth_ + 2) return true;
    if (events_depth_ > 0 && depth_ == events_depth_ + 1) in_args_ = false;
    const std::string_view key(chars, size);
    if (events_depth_ > 0 && depth_ == events_depth_ + 1 && key == "args") in_args_ = true;
    key_ = key;
    input_ = -1;
    return true;
  }

 private:
  bool in_list() const {
    return in_args_ && events_depth_ > 0 && depth_ > events_depth_ + 2 &&
           (key_ == "Input Dims" || key_ == "Input dims" || key_ == "Input Strides" ||
            key_ == "Input type");
  }
  TracedTensor& next_input() {
    ++input_;
    const auto i = to_size(input_);
    if (event_.inputs.size() <= i) event_.inputs.resize(i + 1);
    return event_.inputs[i];
  }

  bool scalar(std::string_view value, bool number) {
    text_.value_seen();
    if (events_depth_ == 0) return true;
    if (in_list()) {
      if (depth_ == events_depth_ + 3 && key_ == "Input type") next_input().type = value;
      if (depth_ == events_depth_ + 4 && number && input_ >= 0) {
        TracedTensor& input = event_.inputs[to_size(input_)];
        auto& list = key_ == "Input Strides" ? input.strides : input.dims;
        list.push_back(parse_integer<std::int64_t>(value, 0));
      }
      return true;
    }
    if (depth_ == events_depth_ + 2 && in_args_ && key_ == "correlation") {
      event_.correlation = parse_integer<std::int64_t>(value, 0);
    }
    if (depth_ != events_depth_ + 1) return true;
    if (key_ == "name") event_.name = value;
    if (key_ == "cat") category_ = value;
    if (key_ == "ph") phase_ = value;
    if (key_ == "pid") pid_ = value;
    if (key_ == "tid") tid_ = value;
    if (key_ == "ts") event_.begin = kineto::parse_time(value).value_or(0);
    if (key_ == "dur") duration_ = kineto::parse_time(value).value_or(0);
    return true;
  }

  void finish_event() {
    event_.kind = kind_of(category_);
    if (event_.kind == ActivityKind::Other || phase_ != "X") return;
    if (event_.kind != ActivityKind::Operator && event_.correlation == 0) return;
    event_.end = event_.begin + std::max<std::int64_t>(duration_, 0);
    event_.place = pid_ + "/" + tid_;
    events.push_back(std::move(event_));
  }

  JsonText& text_;
  int depth_ = 0, events_depth_ = 0, input_ = -1;
  bool in_args_ = false;
  std::string key_, category_, phase_, pid_, tid_;
  std::int64_t duration_ = 0;
  Activity event_;
};

/// By the correlation of a launch: the launch, and the operator around it.
struct Origin {
  const Activity* launch = nullptr;
  const Activity* op = nullptr;
};

std::unordered_map<std::int64_t, Origin> origins(const std::vector<Activity>& events) {
  std::vector<const Activity*> host;
  for (const Activity& e : events) {
    if (e.kind != ActivityKind::Kernel) host.push_back(&e);
  }
  std::stable_sort(host.begin(), host.end(), [](const Activity* a, const Activity* b) {
    return std::tuple(std::string_view(a->place), a->begin, -a->end) <
           std::tuple(std::string_view(b->place), b->begin, -b->end);
  });
  std::unordered_map<std::int64_t, Origin> result;
  std::vector<const Activity*> open;
  for (const Activity* e : host) {
    while (!open.empty() && (open.back()->place != e->place || open.back()->end < e->end)) {
      open.pop_back();
    }
    if (e->kind == ActivityKind::Operator) open.push_back(e);
    if (e->kind == ActivityKind::Launch && !open.empty()) result[e->correlation] = {e, open.back()};
  }
  return result;
}

}  // namespace

Result<std::vector<TracedKernel>> read_traced_kernels(const std::string& path) {
  JsonText text(path, [](double) { return true; });
  const auto bad = [&](const std::string& what, SourceSpan where) {
    return Error{ErrorKind::Parse, what, std::move(where)};
  };
  if (!text.is_open()) return bad(text.failure(), {path, 0, 0});
  ActivityReader handler(text);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseNanAndInfFlag;
  const rapidjson::ParseResult parsed = reader.Parse<kFlags>(text, handler);
  if (parsed.IsError() || !handler.has_events) {
    const std::string why = !text.stopped().empty() ? text.stopped()
                            : parsed.IsError()      ? rapidjson::GetParseError_En(parsed.Code())
                                                    : "it has no list of events";
    return bad("not a trace: " + why, place_in_file(path, text.Tell()));
  }
  const auto launched = origins(handler.events);
  std::vector<const Activity*> kernels;
  for (const Activity& e : handler.events) {
    if (e.kind == ActivityKind::Kernel) kernels.push_back(&e);
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const Activity* a, const Activity* b) {
    return std::tuple(std::string_view(a->place), a->begin) <
           std::tuple(std::string_view(b->place), b->begin);
  });
  const auto seconds = [](std::int64_t ns) { return Seconds{static_cast<double>(ns) * 1e-9}; };
  std::vector<TracedKernel> result;
  const Activity* before = nullptr;
  for (const Activity* kernel : kernels) {
    const auto origin = launched.find(kernel->correlation);
    const Activity* previous =
        before != nullptr && before->place == kernel->place ? before : nullptr;
    before = kernel;
    if (origin == launched.end()) continue;
    const auto& [launch, op] = origin->second;
    TracedKernel traced{op->name,     op - handler.events.data(),           op->inputs,
                        kernel->name, seconds(kernel->end - kernel->begin), std::nullopt};
    if (previous != nullptr && launch->end <= previous->end && kernel->begin >= previous->end) {
      traced.gap = seconds(kernel->begin - previous->end);
    }
    result.push_back(std::move(traced));
  }
  return result;
}

}  // namespace lockstep
