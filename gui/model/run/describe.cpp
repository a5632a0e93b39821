#include "gui/model/run/describe.hpp"

#include "core/format/format.hpp"
#include "core/memory/device_memory.hpp"

namespace lockstep::gui {
namespace {

std::string weights_text(const WeightsRead& weights) {
  std::string text = "version " + std::to_string(weights.updates);
  if (weights.missed == 0) return text + ", every earlier update in it";
  return text + ", lacks " + std::to_string(weights.missed) +
         (weights.missed == 1 ? " earlier update" : " earlier updates");
}

/// The share of a collective's size that crosses each member's link, as nccl-tests has it
/// (doc/PERFORMANCE.md); 0: not known of this kind.
double bus_factor(const std::string& kind, int ranks) {
  const double n = ranks;
  if (kind == "all_reduce") return 2 * (n - 1) / n;
  if (kind == "all_gather" || kind == "reduce_scatter" || kind == "all_to_all") return (n - 1) / n;
  if (kind == "broadcast" || kind == "reduce" || kind == "rotate") return 1;
  return 0;
}

std::string rate_text(double bytes, double seconds) {
  return bytes_text({static_cast<std::int64_t>(bytes / seconds)}) + "/s";
}

int ranks_that_meet(const RunView& run, SpanId id) {
  const StepAnalysis* step = run.step_of(id);
  return step ? static_cast<int>(step->graph.meeting(step->index(id)).size()) : 0;
}

/// A time as text, counted from the begin of the run.
std::string moment(const RunView& run, SimTime t) { return text_of(t - run.lanes.begin()); }

}  // namespace

std::string text_of(SimTime t) { return time_text(to_seconds(t)); }

Facts facts_of(const RunView& run, SpanId id, int group_size) {
  const Span& span = run.trace.spans[id];
  const TraceOp& op = run.lanes.op(span);
  Facts facts;
  const auto add = [&](const char* name, std::string value) {
    facts.emplace_back(name, std::move(value));
  };
  add("Operation", run.trace.names[op.name]);
  add("Kind", std::string(long_name(run.lanes.look(span))));
  const std::string& kind = run.trace.names[op.kind];
  const Look of_kind = look_of_kind(kind), look = run.lanes.look(span);
  if (look != of_kind && of_kind < Look::OtherCompute) add("Part of", kind);
  add("Rank", run.trace.rank_labels[span.rank]);
  add("Stream", run.trace.streams[op.stream]);
  if (op.stage >= 0) add("Stage", std::to_string(op.stage));
  if (op.microbatch >= 0) add("Microbatch", std::to_string(op.microbatch));
  if (op.layer >= 0) add("Layer", std::to_string(op.layer));
  if (const WeightsRead weights = run.weights_of(span); weights.updates >= 0) {
    add("Weights", weights_text(weights));
  }
  if (run.lanes.steps().size() > 1) add("Step", std::to_string(span.step));
  add("Begins at", moment(run, span.begin));
  if (span.active > span.begin) add("Waits for peers", text_of(span.active - span.begin));
  add("Runs for", text_of(span.end - span.active));
  if (op.bytes > 0) {
    add("Size", bytes_text({op.bytes}));
    const double seconds = to_seconds(span.end - span.active).v;
    const auto bytes = static_cast<double>(op.bytes);
    if (seconds > 0) add("Rate", rate_text(bytes, seconds));
    const int ranks = group_size > 0 ? group_size : ranks_that_meet(run, id);
    const double factor = bus_factor(run.trace.names[op.kind], ranks);
    if (factor > 0 && ranks > 1) {
      add("Group", std::to_string(ranks) + " ranks");
      if (seconds > 0) add("Bus bandwidth", rate_text(factor * bytes, seconds));
    }
  }
  if (!run.self.empty() && run.self[id] != span.end - span.active) {
    add("Of it itself", text_of(run.self[id]));
  }
  return facts;
}

Facts facts_of(const RunView& run, const StepAnalysis& step, const Bubble& bubble) {
  Facts facts;
  facts.emplace_back("Bubble", std::string(to_string(bubble.cause)));
  facts.emplace_back("Rank", run.trace.rank_labels[bubble.rank]);
  facts.emplace_back("Begins at", moment(run, bubble.begin));
  facts.emplace_back("Lasts", text_of(bubble.length()));
  facts.emplace_back("Why", describe(step.graph, bubble));
  if (bubble.next >= 0) facts.emplace_back("Then runs", describe(step.graph, bubble.next));
  return facts;
}

std::pair<const StepAnalysis*, const Bubble*> bubble_at(const RunView& run, Rank rank,
                                                        SimTime time) {
  for (const StepAnalysis& step : run.steps) {
    if (time < step.graph.begin() || time >= step.graph.end()) continue;
    if (const Bubble* bubble = bubble_at(step.bubbles, step.graph, rank, time)) {
      return {&step, bubble};
    }
  }
  return {nullptr, nullptr};
}

std::string summary(const RunView& run, SpanId id) {
  const Span& span = run.trace.spans[id];
  const TraceOp& op = run.lanes.op(span);
  const Look look = run.lanes.look(span);
  std::string text = label(op, look) + " · " + std::string(long_name(look));
  if (op.microbatch >= 0) text += " of microbatch " + std::to_string(op.microbatch);
  if (op.stage >= 0) text += ", stage " + std::to_string(op.stage);
  if (op.layer >= 0) text += ", layer " + std::to_string(op.layer);
  if (const WeightsRead weights = run.weights_of(span); weights.missed > 0) {
    text += " · weights " + weights_text(weights);
  }
  text += " · " + text_of(span.end - span.active);
  if (span.active > span.begin) {
    text += " after waiting " + text_of(span.active - span.begin);
  }
  return text;
}

std::string summary(const StepAnalysis& step, const Bubble& bubble) {
  std::string text = "bubble of rank " + std::to_string(bubble.rank) + ": " +
                     std::string(to_string(bubble.cause)) + ", " + text_of(bubble.length());
  return text + " · " + describe(step.graph, bubble);
}

std::string text_of(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + ": " + value + "\n";
  if (!text.empty()) text.pop_back();
  return text;
}

std::string shortage(const RunView& run) {
  if (!run.too_large || !run.program || !run.cluster()) return {};
  const Bytes needed = most_memory(*run.program, *run.cluster()).needed;
  const Bytes has = memory_per_rank(*run.cluster(), run.world_size());
  return "A rank needs " + bytes_text(needed) + ", its device has " + bytes_text(has) + ": " +
         bytes_text(needed - has) + " too little.";
}

}  // namespace lockstep::gui
