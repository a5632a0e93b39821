// One Kineto file: first as it stands (parse_file), then in order (arrange). Internal to
// core/trace.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "core/trace/kineto/names.hpp"
#include "core/trace/name_table.hpp"

namespace lockstep::kineto {

/// Files have no finer times, and count from 1970, where picoseconds would overflow.
using Nanoseconds = std::int64_t;

struct Event {
  Nanoseconds begin = 0, end = 0;  // since the file's first
  std::int32_t name = 0;           // into the shared names
  std::int32_t track = 0;          // into File::tracks
  std::int32_t transfer = -1;      // into File::transfers
  std::int32_t correlation = -1;   // a launch and what it launched share it; -1: none
  std::int32_t step = 0;
  Kind kind = Kind::Host;
  std::uint8_t marks = 0;  // bit set of Mark
  std::uint16_t lane = 0;  // of its track: 0, or more where it overlaps others
};

/// What an event's name says about the ops below it.
enum Mark : std::uint8_t { BackwardMark = 1, OptimizerMark = 2 };

/// What NCCL's metadata says of a collective or message, or the size of a copy.
struct Transfer {
  std::int64_t bytes = 0;   // of the unsharded buffer
  std::int32_t group = -1;  // into File::groups
  std::int64_t seq = -1;    // Seq
  int source = -1, destination = -1;
  // By match_transfers: TraceOp's, and how long the last member to arrive took.
  std::int32_t channel = -1, number = -1;
  Nanoseconds shortest = -1;
};

struct ProcessGroup {
  std::string name;
  std::vector<int> ranks;  // the first 30 at least; empty: unknown
};

struct Track {
  std::int32_t place = 0;  // into File::places
  Family family = Family::Host;
};

/// A (pid, tid) of the file.
struct Place {
  std::string pid, tid;  // as written; strings keep their quotes
  std::string label;     // thread_name
  std::array<std::int32_t, kNumFamilies> tracks{-1, -1, -1, -1};
};

/// "s" and "f" events; they bind to the event that is open there.
struct FlowEnd {
  Nanoseconds time = 0;
  std::uint64_t id = 0;
  std::int32_t name = 0;   // of the flow: its category
  std::int32_t place = 0;  // into File::places
  bool begins = false;
};

struct Link {
  std::int32_t name = 0;           // of the flow
  std::uint32_t from = 0, to = 0;  // into File::events
};

struct File {
  std::string path;
  bool has_events = false;         // a list of events, empty perhaps; else it is no trace
  int rank = -1, world_size = -1;  // of distributedInfo
  Nanoseconds start = 0;           // of the first event
  bool wall_clock = false;         // `start` counts from 1970
  std::vector<Place> places;
  std::vector<Track> tracks;
  std::vector<Event> events;  // arrange: sorted by (track, begin, longest first)
  std::vector<Transfer> transfers;
  std::vector<ProcessGroup> groups;
  std::vector<FlowEnd> flow_ends;  // arrange: spent
  std::vector<Link> links;         // by arrange
  ImportCounts counts;
  std::optional<SourceSpan> cut_off;  // the file ends here, in the middle
};

/// ErrorKind::Parse, of no line in particular.
Error bad_file(const std::string& path, const std::string& what);

/// Reads `path`. Errors: Parse, with line and column (and the byte): not JSON, not a trace, a time
/// that is none; Parse "cancelled".
Result<File> parse_file(const std::string& path, NameTable& names, const ImportOptions& options);

/// Sorts events, gives each a lane of its track on which nothing overlaps it, its step, and the
/// phase of the op that launched it; pairs flows. Error: Parse, more lanes than any call stack has.
Result<void> arrange(File& file, NameTable& names);

/// Collectives and messages that are one across files: which, and what that says of the clocks.
struct Matches {
  std::vector<std::vector<Rank>> instances;  // Trace::instances
  std::int64_t unmatched = 0;
  /// Of two files: how much later after its own start the second says that a collective ended
  /// which both took part in.
  struct Difference {
    std::int32_t a = 0, b = 0;
    Nanoseconds later = 0;
  };
  std::vector<Difference> differences;  // sorted by (a, b, later)
};

/// Files are by rank of the trace. A collective is known by its group and NCCL's sequence number;
/// where that is not in the file, it is the group's n-th of the step if all members agree on what
/// their collectives of that step are.
Matches match_transfers(std::vector<File>& files);

struct Clocks {
  std::vector<Nanoseconds> starts;  // by file, against the first file's
  Nanoseconds uncertainty = 0;
  std::vector<std::string> remarks;
};
Clocks align_clocks(const std::vector<File>& files, const Matches& matches);

/// Fills names' other half of `trace`: streams, roles, spans, flows. Files are by rank of the
/// trace. Error: Parse, more than SimTime or a stream's index can tell.
Result<void> assemble(const std::vector<File>& files, const Clocks& clocks, NameTable& names,
                      Trace& trace);

}  // namespace lockstep::kineto
