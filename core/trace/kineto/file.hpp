// The parts of an import: one Kineto file as it stands (parse_file) and in order (arrange), then
// what joins the files of several ranks. Internal to core/trace/kineto.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "core/trace/kineto/names.hpp"
#include "core/trace/name_table.hpp"

namespace lockstep::kineto {

/// The time of events. Files have no finer times, and picoseconds since 1970 would overflow.
using Nanoseconds = std::int64_t;

struct Event {
  Nanoseconds begin = 0, end = 0;  // since the file's first event
  std::int32_t name = 0;           // into the shared names
  std::int32_t track = 0;          // into File::tracks
  std::int32_t transfer = -1;      // into File::transfers
  std::int32_t correlation = -1;   // shared by a launch and what it launched; -1: none
  std::int32_t step = 0;
  Kind kind = Kind::Host;
  std::uint8_t marks = 0;  // bit set of Mark
  std::uint16_t lane = 0;  // within its track; above 0 where it overlaps others
  std::uint64_t at = 0;    // where its arguments are: SpanSources::offsets
};

/// What an allocator said after an event (profile_memory=True).
struct MemoryEvent {
  Nanoseconds time = 0;
  int device_type = 0, device = 0;  // type 0: the host's memory, 1: a GPU's
  std::int64_t allocated = 0, reserved = 0;
};

/// What an event's name says about the ops that it calls.
enum Mark : std::uint8_t { BackwardMark = 1, OptimizerMark = 2 };

/// What NCCL's metadata says of a collective or message, or the size of a copy.
struct Transfer {
  std::int64_t bytes = 0;   // of the unsharded buffer
  std::int32_t group = -1;  // into File::groups
  std::int64_t seq = -1;    // NCCL's sequence number; -1: not in the file
  int source = -1, destination = -1;
  // Set by match_transfers: channel and seq of TraceOp, and the time of the member that arrived
  // last.
  std::int32_t channel = -1, number = -1;
  Nanoseconds shortest = -1;
};

struct ProcessGroup {
  std::string name;
  std::vector<int> ranks;  // at least the first 30 (a file may stop there); empty: unknown
};

struct Track {
  std::int32_t place = 0;  // into File::places
  Family family = Family::Host;
};

/// One (pid, tid) of the file.
struct Place {
  std::string pid, tid;  // as written; strings keep their quotes
  std::string label;     // thread_name
  IndexArray<Family, std::int32_t, kNumFamilies> tracks{-1, -1, -1, -1};
};

/// One end of a flow (an "s" or "f" event). It binds to the event that is open at its place and
/// time.
struct FlowEnd {
  Nanoseconds time = 0;
  std::uint64_t id = 0;
  std::int32_t name = 0;   // the flow's category
  std::int32_t place = 0;  // into File::places
  bool begins = false;
};

struct Link {
  std::int32_t name = 0;           // of the flow
  std::uint32_t from = 0, to = 0;  // into File::events
};

struct File {
  std::string path;
  bool has_events = false;  // it has a list of events, perhaps empty; otherwise it is no trace
  int rank = -1, world_size = -1;  // from distributedInfo
  Nanoseconds start = 0;           // of the first event
  bool wall_clock = false;         // `start` counts from 1970
  IndexVector<std::int32_t, Place> places;
  IndexVector<std::int32_t, Track> tracks;
  std::vector<Event> events;  // after arrange: sorted by (track, begin, longest first)
  IndexVector<std::int32_t, Transfer> transfers;
  IndexVector<std::int32_t, ProcessGroup> groups;
  std::vector<FlowEnd> flow_ends;  // after arrange: no longer of use
  std::vector<Link> links;         // filled by arrange
  std::vector<MemoryEvent> memory;
  ImportCounts counts;
  std::optional<SourceSpan> cut_off;  // where the file ends, if that is in the middle
};

/// A "B" or an "E" event, of which two make one event.
struct HalfEvent {
  Event event;
  bool begins = false;
};
/// Adds the events that the halves make, in order of time on each track. One that does not end ends
/// with its track; an end without a begin is left out; both are counted.
void pair_halves(File& file, std::vector<HalfEvent> halves);

using Files = IndexVector<std::int32_t, File>;

/// An error of kind Parse that names the file, but no line of it.
Error bad_file(const std::string& path, const std::string& what);

/// Reads `path`. Errors: Parse, with line and column (and the byte), if it is not JSON, not a
/// trace, or has a time that is none; Parse "cancelled".
Result<File> parse_file(const std::string& path, NameTable& names, const ImportOptions& options);

/// Sorts events, and gives each a lane of its track on which nothing overlaps it, its step, and the
/// phase of the op that launched it. Pairs the ends of flows. Error: Parse if there are more lanes
/// than any call stack has.
Result<void> arrange(File& file, NameTable& names);

/// Which collectives and messages of different files are the same one, and what they say about the
/// clocks.
struct Matches {
  IndexVector<std::int32_t, IndexVector<Rank, Rank>> instances;  // Trace::instances
  std::int64_t unmatched = 0;
  /// For a collective in which both files took part: by how much its end, counted from the file's
  /// own start, is later in file b than in file a.
  struct Difference {
    std::int32_t a = 0, b = 0;
    Nanoseconds later = 0;
  };
  std::vector<Difference> differences;  // sorted by (a, b, later)
};

/// Matches transfers between files, which are given by rank of the trace. A collective is
/// identified by its group and NCCL's sequence number. Where files have no such numbers, the n-th
/// collective of a group in a step matches that of the other members, if all members agree on the
/// group's collectives of that step.
Matches match_transfers(Files& files);

struct Clocks {
  IndexVector<std::int32_t, Nanoseconds> starts;  // by file, relative to the first file's
  Nanoseconds uncertainty = 0;
  std::vector<std::string> remarks;
};
Clocks align_clocks(const Files& files, const Matches& matches);

/// Fills the streams, roles, spans, flows and memory of the trace, and where its spans came from.
/// Files are given by rank of the trace. Error: Parse if times exceed SimTime, or streams the range
/// of their index.
Result<void> assemble(const Files& files, const Clocks& clocks, NameTable& names,
                      ImportedTrace& imported);

}  // namespace lockstep::kineto
