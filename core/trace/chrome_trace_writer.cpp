// write_chrome_trace: one pass over the spans, which keeps only the ends of transfers in memory.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "core/trace/chrome_trace.hpp"
#include "core/trace/gzip_file.hpp"

namespace lockstep {
namespace {

std::string in_quotes(const std::string& s) {
  return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> in_quotes(const std::vector<std::string>& list) {
  std::vector<std::string> result;
  result.reserve(list.size());
  for (const std::string& s : list) result.push_back(in_quotes(s));
  return result;
}

/// One rank's part in a transfer.
struct Endpoint {
  std::int32_t step, channel, seq;
  Rank instance;
  int side;  // 0: member of a collective, 1: send, 2: receive
  Rank rank;
  std::uint16_t stream;
  SimTime active;
};

class Writer {
 public:
  Writer(const Trace& trace, GzipWriter& out)
      : trace_(trace),
        out_(out),
        names_(in_quotes(trace.names)),
        kinds_(in_quotes(trace.memory_kinds)) {}

  void write() {
    out_.text("{\"displayTimeUnit\":\"ms\",\n\"lockstep\":");
    metadata();
    out_.text(",\n\"traceEvents\":[");
    find_runs();
    find_kinds();
    const Rank world = static_cast<Rank>(trace_.same_as.size());
    for (Rank rank = 0; rank < world; ++rank) {
      if (is_drawn(rank)) process(rank);
    }
    // The copies come behind all that is read back.
    for (const bool copies : {false, true}) {
      for (Rank rank = 0; rank < world; ++rank) {
        if (is_drawn(rank) && is_copy(rank) == copies) counters(rank);
      }
      for (Rank rank = 0; rank < world; ++rank) {
        if (is_drawn(rank) && is_copy(rank) == copies) spans(rank);
      }
    }
    transfers();
    for (const Flow& flow : trace_.flows) draw(flow);
    out_.text("\n]}\n");
  }

 private:
  bool is_copy(Rank rank) const { return trace_.same_as[rank] != rank; }
  bool is_drawn(Rank rank) const {
    return !is_copy(rank) || trace_.same_as.size() <= std::size_t{kMaxDrawnCopies};
  }
  TraceOp op_of(const Span& span) const {
    return trace_.roles[trace_.role_of_rank[span.rank]].ops[span.op];
  }

  void strings(std::string_view key, const std::vector<std::string>& list) {
    out_.text(",\n\"").text(key).text(R"(":[)");
    for (std::size_t i = 0; i < list.size(); ++i)
      out_.text(i == 0 ? "" : ",").text(in_quotes(list[i]));
    out_.text("]");
  }
  template <class T>
  void integers(std::string_view key, const std::vector<T>& list) {
    out_.text(",\n\"").text(key).text(R"(":[)");
    for (std::size_t i = 0; i < list.size(); ++i) out_.text(i == 0 ? "" : ",").integer(list[i]);
    out_.text("]");
  }

  void metadata() {
    out_.text(R"({"format_version":)").integer(trace_.format_version);
    out_.text(R"(,"backend":)").text(in_quotes(trace_.backend));
    out_.text(R"(,"program_hash":)").text(in_quotes(trace_.program_hash));
    if (trace_.clock_uncertainty > SimTime{}) {
      out_.text(R"(,"clock_uncertainty_ps":)").integer(trace_.clock_uncertainty.count());
    }
    bool copies = false;
    for (const Rank rank : trace_.same_as.ids()) copies = copies || is_copy(rank);
    if (copies) {
      out_.text(R"(,"own_events":)")
          .integer(static_cast<std::int64_t>(trace_.spans.size() + trace_.memory.size()));
    }
    strings("names", trace_.names);
    strings("rank_labels", trace_.rank_labels);
    strings("streams", trace_.streams);
    strings("memory_kinds", trace_.memory_kinds);
    out_.text(",\n\"instances\":[");
    for (std::size_t i = 0; i < trace_.instances.size(); ++i) {
      out_.text(i == 0 ? "[" : ",[");
      for (std::size_t r = 0; r < trace_.instances[i].size(); ++r) {
        out_.text(r == 0 ? "" : ",").integer(trace_.instances[i][r]);
      }
      out_.text("]");
    }
    out_.text("]");
    integers("role_of_rank", trace_.role_of_rank);
    integers("same_as", trace_.same_as);
    integers("peak_memory", trace_.peak_memory);
    if (!trace_.slowed.empty()) integers("slowed_ps", trace_.slowed);
    // A row is: step, loss, grad_norm, lr, seconds; and if the loss is scaled: loss_scale,
    // good_steps, skipped_steps.
    out_.text(",\n\"steps\":[");
    for (std::size_t i = 0; i < trace_.steps.size(); ++i) {
      const StepResult& s = trace_.steps[i];
      out_.text(i == 0 ? "[" : ",[").integer(s.step).text(",").number(s.loss).text(",");
      out_.number(s.grad_norm).text(",").number(s.lr).text(",").number(s.time.v);
      if (s.loss_scale > 0) {
        out_.text(",").number(s.loss_scale).text(",").integer(s.good_steps);
        out_.text(",").integer(s.skipped_steps);
      }
      out_.text("]");
    }
    // A list of ops by role. An op is: name, kind, stream, phase, stage, layer, microbatch, bytes,
    // channel, seq.
    out_.text("],\n\"roles\":[");
    for (std::size_t r = 0; r < trace_.roles.size(); ++r) {
      out_.text(r == 0 ? "\n[" : ",\n[");
      const TraceOps& ops = trace_.roles[r].ops;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const TraceOp& o = ops[i];
        out_.text(i == 0 ? "[" : ",[");
        bool first = true;
        for (const std::int64_t field :
             {std::int64_t{o.name}, std::int64_t{o.kind}, std::int64_t{o.stream},
              std::int64_t{o.phase}, std::int64_t{o.stage}, std::int64_t{o.layer},
              std::int64_t{o.microbatch}, o.bytes, std::int64_t{o.channel}, std::int64_t{o.seq}}) {
          if (!first) out_.text(",");
          first = false;
          out_.integer(field);
        }
        out_.text("]");
      }
      out_.text("]");
    }
    out_.text("]");
    if (!trace_.flows.empty()) {  // kind, from, to
      out_.text(",\n\"flows\":[");
      for (std::size_t i = 0; i < trace_.flows.size(); ++i) {
        const Flow& f = trace_.flows[i];
        out_.text(i == 0 ? "[" : ",[").integer(f.kind).text(",").integer(f.from);
        out_.text(",").integer(f.to).text("]");
      }
      out_.text("]");
    }
    out_.text("}");
  }

  GzipWriter& event(char phase, Rank rank) {
    const char ph[] = {'{', '"', 'p', 'h', '"', ':', '"', phase, '"'};
    out_.text(first_event_ ? "\n" : ",\n").text({ph, sizeof ph});
    first_event_ = false;
    return out_.text(R"(,"pid":)").integer(rank);
  }

  void process(Rank rank) {
    const std::string label = to_size(rank) < trace_.rank_labels.size()
                                  ? trace_.rank_labels[rank]
                                  : "rank " + std::to_string(rank);
    event('M', rank).text(R"(,"name":"process_name","args":{"name":)").text(in_quotes(label));
    out_.text("}}");
    event('M', rank).text(R"(,"name":"process_sort_index","args":{"sort_index":)");
    out_.integer(rank).text("}}");
    for (std::size_t s = 0; s < trace_.streams.size(); ++s) {
      if (!uses_stream(rank, s)) continue;
      const std::int64_t tid = static_cast<std::int64_t>(s) + 1;
      event('M', rank).text(R"(,"tid":)").integer(tid).text(R"(,"name":"thread_name")");
      out_.text(R"(,"args":{"name":)").text(in_quotes(trace_.streams[s])).text("}}");
      event('M', rank).text(R"(,"tid":)").integer(tid).text(R"(,"name":"thread_sort_index")");
      out_.text(R"(,"args":{"sort_index":)").integer(tid).text("}}");
    }
  }

  bool uses_stream(Rank rank, std::size_t stream) const {
    const auto& ops = trace_.roles[trace_.role_of_rank[rank]].ops;
    return std::any_of(ops.begin(), ops.end(),
                       [&](const TraceOp& op) { return op.stream == stream; });
  }

  /// Finds each rank's spans in every step, so that copies can be drawn from them.
  void find_runs() {
    runs_.resize(trace_.same_as.size());
    for (const Spans::Run& run : trace_.spans.runs()) runs_[run.rank].push_back(&run);
  }

  /// Finds the memory kinds that occur. One without a byte in the whole trace is left out, because
  /// it would be an empty track on every rank.
  void find_kinds() {
    kind_occurs_.assign(trace_.memory_kinds.size(), false);
    for (const MemorySample& sample : trace_.memory) {
      for (std::size_t k = 0; k < sample.bytes_by_kind.size(); ++k) {
        if (sample.bytes_by_kind[k] != 0) kind_occurs_[k] = true;
      }
    }
  }

  void counters(Rank rank) {
    const Rank own = trace_.same_as[rank];
    const auto range = std::equal_range(
        trace_.memory.begin(), trace_.memory.end(), MemorySample{own, SimTime{}, {}},
        [](const MemorySample& a, const MemorySample& b) { return a.rank < b.rank; });
    for (auto sample = range.first; sample != range.second; ++sample) {
      event('C', rank).text(is_copy(rank) ? R"_(,"name":"memory (copy)")_" : R"(,"name":"memory")");
      out_.text(R"(,"ts":)").microseconds(sample->time.count()).text(R"(,"args":{)");
      const char* separator = "";
      for (std::size_t k = 0; k < sample->bytes_by_kind.size(); ++k) {
        if (!kind_occurs_[k]) continue;
        out_.text(separator).text(kinds_[k]).text(":").integer(sample->bytes_by_kind[k]);
        separator = ",";
      }
      out_.text("}}");
    }
  }

  void spans(Rank rank) {
    for (const Spans::Run* run : runs_[trace_.same_as[rank]]) {
      for (const Span& s : trace_.spans.range(*run)) span(rank, s);
    }
  }

  void span(Rank rank, const Span& s) {
    const TraceOp& op = op_of(s);
    event('X', rank).text(R"(,"tid":)").integer(op.stream + 1);
    out_.text(R"(,"ts":)").microseconds(s.begin.count());
    out_.text(R"(,"dur":)").microseconds((s.end - s.begin).count());
    out_.text(R"(,"name":)").text(names_[op.name]).text(R"(,"cat":)").text(names_[op.kind]);
    out_.text(is_copy(rank) ? R"(,"args":{"copy_of_op":)" : R"(,"args":{"op":)").integer(s.op.v);
    out_.text(R"(,"step":)").integer(s.step);
    if (s.active != s.begin) out_.text(R"(,"wait_us":)").microseconds((s.active - s.begin).count());
    if (op.stage >= 0) out_.text(R"(,"stage":)").integer(op.stage);
    if (op.microbatch >= 0) out_.text(R"(,"microbatch":)").integer(op.microbatch);
    if (op.layer >= 0) out_.text(R"(,"layer":)").integer(op.layer);
    if (op.bytes > 0) out_.text(R"(,"bytes":)").integer(op.bytes);
    out_.text("}}");
    if (op.channel < 0) return;
    const std::string& kind = trace_.names[op.kind];
    const int side = kind == "send" ? 1 : kind == "recv" ? 2 : 0;
    endpoints_.push_back(
        {s.step, op.channel, op.seq, instance(op, rank), side, rank, op.stream, s.active});
  }

  void transfers() {
    std::sort(endpoints_.begin(), endpoints_.end(), [](const Endpoint& a, const Endpoint& b) {
      return std::tie(a.step, a.channel, a.seq, a.instance, a.side, a.rank) <
             std::tie(b.step, b.channel, b.seq, b.instance, b.side, b.rank);
    });
    for (std::size_t i = 0; i < endpoints_.size();) {
      std::size_t j = i;
      const Endpoint& e = endpoints_[i];
      while (j < endpoints_.size() && std::tie(e.step, e.channel, e.seq, e.instance) ==
                                          std::tie(endpoints_[j].step, endpoints_[j].channel,
                                                   endpoints_[j].seq, endpoints_[j].instance)) {
        ++j;
      }
      transfer({endpoints_.begin() + static_cast<std::ptrdiff_t>(i),
                endpoints_.begin() + static_cast<std::ptrdiff_t>(j)});
      i = j;
    }
  }

  /// Which of the groups that share a collective's channel the rank is in. -1 for messages, which
  /// pair by rank order instead.
  Rank instance(const TraceOp& op, Rank rank) const {
    if (to_size(op.channel) >= trace_.instances.size()) return -1;
    return trace_.instances[op.channel][rank];
  }

  /// Writes the flows of all ends with one (channel, seq, instance): those of one collective, or
  /// those of the same message in every replica.
  void transfer(const std::vector<Endpoint>& ends) {
    const auto receives =
        std::find_if(ends.begin(), ends.end(), [](const Endpoint& e) { return e.side == 2; });
    if (ends.front().side == 0) {
      chain(ends);
      return;
    }
    // Both sides are in rank order, and the ranks of a pair differ along the pipeline only. So the
    // n-th sender belongs to the n-th receiver.
    auto send = ends.begin();
    for (auto recv = receives; send != receives && recv != ends.end(); ++send, ++recv) {
      chain({*send, *recv});
    }
  }

  /// Writes one flow through `ends` in order of time, because viewers drop a flow that goes back in
  /// time.
  void chain(std::vector<Endpoint> ends) {
    if (ends.size() < 2) return;
    std::stable_sort(ends.begin(), ends.end(),
                     [](const Endpoint& a, const Endpoint& b) { return a.active < b.active; });
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const char phase = i == 0 ? 's' : i + 1 == ends.size() ? 'f' : 't';
      flow_event(phase, ends[i].rank, ends[i].stream, ends[i].active, R"("transfer")");
    }
    ++next_flow_;
  }

  void draw(const Flow& flow) {
    const Span from = trace_.spans[flow.from], to = trace_.spans[flow.to];
    if (to.begin < from.begin) return;
    flow_event('s', from.rank, op_of(from).stream, from.begin, names_[flow.kind]);
    flow_event('f', to.rank, op_of(to).stream, to.begin, names_[flow.kind]);
    ++next_flow_;
  }

  /// `name` must be quoted already.
  void flow_event(char phase, Rank rank, std::uint16_t stream, SimTime time,
                  std::string_view name) {
    event(phase, rank).text(R"(,"tid":)").integer(stream + 1);
    out_.text(R"(,"ts":)").microseconds(time.count()).text(R"(,"id":)").integer(next_flow_);
    out_.text(R"(,"name":)").text(name).text(R"(,"cat":)").text(name);
    out_.text(phase == 's' ? "}" : R"(,"bp":"e"})");
  }

  const Trace& trace_;
  GzipWriter& out_;
  IndexVector<std::int32_t, std::string> names_, kinds_;    // quoted
  IndexVector<Rank, std::vector<const Spans::Run*>> runs_;  // by rank
  std::vector<bool> kind_occurs_;
  std::vector<Endpoint> endpoints_;
  std::int64_t next_flow_ = 1;
  bool first_event_ = true;
};

}  // namespace

Result<void> write_chrome_trace(const Trace& trace, const std::string& path, Links links) {
  GzipWriter out(path, path.ends_with(".gz"), links);
  Writer(trace, out).write();
  return out.commit();
}

}  // namespace lockstep
