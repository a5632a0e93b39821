#include "core/run/flight_record.hpp"

#include <algorithm>
#include <cstdio>

#include "core/run/transfer.hpp"

namespace lockstep {
namespace {

std::string seconds(SimTime time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", to_seconds(time).v);
  return text;
}

std::string op_text(const Program& program, const FlightRecord::Entry& entry) {
  const Op& op = program.role_of(entry.rank).op(entry.op);
  std::string text = "step " + std::to_string(entry.step + 1) + " in %" +
                     std::to_string(entry.op.v) + " " + std::string(to_string(op.kind));
  if (op.kind == OpKind::Call) text += " " + program.function(op.function()).name;
  return text;
}

/// "with ranks 0 2": the other members of a transfer; empty for an op that is none.
std::string peers_text(const Program& program, const FlightRecord::Entry& entry) {
  const Op& op = program.role_of(entry.rank).op(entry.op);
  if (op.kind == OpKind::Call || is_copy(op.kind)) return "";
  constexpr std::size_t kMostNamed = 16;
  std::string ranks;
  std::size_t named = 0;
  for (const Rank member : route_of(program, entry.rank, op).members) {
    if (member == entry.rank) continue;
    if (named++ < kMostNamed) ranks += " " + std::to_string(member);
  }
  if (named > kMostNamed) ranks += " and " + std::to_string(named - kMostNamed) + " others";
  return (named == 1 ? " for rank" : " for ranks") + ranks;
}

}  // namespace

std::vector<FlightRecord::Entry> FlightRecord::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> all;
  for (std::uint64_t i = next_ > kKept ? next_ - kKept : 0; i < next_; ++i) {
    all.push_back(entries_[i % kKept]);
  }
  return all;
}

std::string waiting_text(const FlightRecord& record, const Program& program, SimTime now) {
  std::string text;
  for (const FlightRecord::Entry& entry : record.entries()) {
    if (entry.ended) continue;
    const std::string peers = peers_text(program, entry);
    text += (text.empty() ? "rank " : "\nrank ") + std::to_string(entry.rank) +
            (peers.empty() ? " runs since " : " waits since ") + seconds(now - entry.begin) +
            " in " + op_text(program, entry) + peers;
  }
  return text;
}

std::string flight_text(const FlightRecord& record, const Program& program, SimTime now) {
  std::string text =
      "# the last ops of this process; times in seconds of its clock, now " + seconds(now) + "\n";
  for (const FlightRecord::Entry& entry : record.entries()) {
    text += "rank " + std::to_string(entry.rank) + " " + op_text(program, entry) + " from " +
            seconds(entry.begin) +
            (entry.ended ? " to " + seconds(entry.end)
                         : " has not ended" + peers_text(program, entry)) +
            "\n";
  }
  return text;
}

}  // namespace lockstep
