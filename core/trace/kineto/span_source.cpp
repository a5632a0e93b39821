#include "core/trace/kineto/span_source.hpp"

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "core/base/index_vector.hpp"
#include "core/trace/json_text.hpp"
#include "core/trace/kineto/nsight.hpp"

namespace lockstep {
namespace {

/// A value in one line, strings without quotes, lists as "[1, 2]".
std::string value_text(const rapidjson::Value& value) {
  if (value.IsString()) return {value.GetString(), value.GetStringLength()};
  if (value.IsArray()) {
    std::string text;
    for (const rapidjson::Value& element : value.GetArray()) {
      text += (text.empty() ? "[" : ", ") + value_text(element);
    }
    return text.empty() ? "[]" : text + "]";
  }
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteNanAndInfFlag>
      writer(buffer);
  value.Accept(writer);
  return buffer.GetString();
}

}  // namespace

Result<SpanArguments> read_arguments(const SpanSources& sources, const Trace& trace,
                                     std::size_t span) {
  if (span >= sources.offsets.size() || span >= trace.spans.size()) {
    return Error{ErrorKind::InvalidSpec, "the trace does not say where its events came from", {}};
  }
  const Span& s = trace.spans[span];
  const std::string& path = sources.files[to_size(s.rank)];
  const TraceOp& op = trace.roles[trace.role_of_rank[s.rank]].ops[s.op];
  if (sources.nsight) {
    return kineto::read_nsight_arguments(path, sources.offsets[span], trace.names[op.name]);
  }
  const auto changed = [&] {
    return Error{ErrorKind::Parse, "the file has changed since it was opened: open it again",
                 SourceSpan{path, 0, 0}};
  };
  JsonText text(
      path, [](double) { return true; }, sources.offsets[span]);
  if (!text.is_open()) {
    return Error{ErrorKind::Parse, text.failure(), SourceSpan{path, 0, 0}};
  }
  rapidjson::Document event;
  event.ParseStream<rapidjson::kParseStopWhenDoneFlag | rapidjson::kParseNanAndInfFlag |
                    rapidjson::kParseIterativeFlag>(text);
  if (event.HasParseError() || !event.IsObject()) return changed();
  const auto name = event.FindMember("name");
  if (name == event.MemberEnd() || !name->value.IsString() ||
      trace.names[op.name] != name->value.GetString()) {
    return changed();
  }
  SpanArguments arguments;
  if (const auto cat = event.FindMember("cat"); cat != event.MemberEnd()) {
    arguments.emplace_back("Category", value_text(cat->value));
  }
  const auto args = event.FindMember("args");
  if (args == event.MemberEnd() || !args->value.IsObject()) return arguments;
  for (const auto& member : args->value.GetObject()) {
    arguments.emplace_back(member.name.GetString(), value_text(member.value));
  }
  return arguments;
}

}  // namespace lockstep
