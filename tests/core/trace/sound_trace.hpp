// Sound trace: checks what every reader of traces promises of its result, whatever the file holds.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "core/trace/trace.hpp"

namespace lockstep::test {

/// The first promise of trace.hpp that `trace` breaks; empty if it keeps all.
inline std::string unsound(const Trace& trace) {
  const auto in = [](auto index, const auto& table) {
    return index >= 0 && static_cast<std::size_t>(index) < table.size();
  };
  const std::size_t ranks = trace.rank_labels.size();
  if (trace.role_of_rank.size() != ranks || trace.same_as.size() != ranks) return "ranks";
  for (const std::int32_t role : trace.role_of_rank) {
    if (!in(role, trace.roles)) return "a rank's role";
  }
  for (const Rank rank : trace.same_as) {
    if (!in(rank, trace.rank_labels)) return "the rank that stands for another";
  }
  for (const TraceRole& role : trace.roles) {
    for (const TraceOp& op : role.ops) {
      if (!in(op.name, trace.names) || !in(op.kind, trace.names)) return "a name";
      if (!in(int{op.stream}, trace.streams)) return "a stream";
      if (op.bytes < 0) return "bytes of an op";
    }
  }
  for (const auto& instance : trace.instances) {
    for (const Rank rank : instance) {
      if (rank < -1 || rank >= static_cast<Rank>(ranks)) return "a group's rank";
    }
  }
  std::optional<Span> before;
  const auto stream = [&](const Span& span) {
    const auto role = static_cast<std::size_t>(trace.role_of_rank[span.rank]);
    return trace.roles[role].ops[span.op].stream;
  };
  for (const Span& span : trace.spans) {
    if (!in(span.rank, trace.rank_labels)) return "a span's rank";
    const auto role = static_cast<std::size_t>(trace.role_of_rank[span.rank]);
    if (!in(span.op.v, trace.roles[role].ops)) return "a span's op";
    if (span.begin > span.active || span.active > span.end) return "a span's times";
    if (before) {
      const auto a = std::tuple(before->step, before->rank, stream(*before));
      const auto b = std::tuple(span.step, span.rank, stream(span));
      if (b < a || (a == b && span.begin < before->begin)) return "the order of spans";
      if (a == b && span.active < before->end) return "two spans at one time on a stream";
    }
    before = span;
  }
  for (const Flow& flow : trace.flows) {
    if (!in(flow.kind, trace.names)) return "a flow's kind";
    if (!in(flow.from, trace.spans) || !in(flow.to, trace.spans)) return "a flow's ends";
  }
  for (const MemorySample& sample : trace.memory) {
    if (!in(sample.rank, trace.rank_labels)) return "a memory sample's rank";
    if (sample.bytes_by_kind.size() != trace.memory_kinds.size()) return "a memory sample's kinds";
  }
  if (!trace.peak_memory.empty() && trace.peak_memory.size() != ranks) return "peaks of memory";
  return "";
}

}  // namespace lockstep::test
