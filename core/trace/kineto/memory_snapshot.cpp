#include "core/trace/kineto/memory_snapshot.hpp"

#include <algorithm>
#include <utility>

#include "core/trace/gzip_file.hpp"
#include "core/trace/kineto/file.hpp"
#include "core/trace/kineto/snapshot_blocks.hpp"
#include "core/trace/pickle.hpp"

namespace lockstep {
namespace {

using kineto::bad_file;

constexpr std::int64_t kLargestSnapshot = std::int64_t{4} << 30;

/// By how much an event changes what is allocated and what the allocator has.
struct MemoryChange {
  std::int64_t allocated = 0, reserved = 0;
};

MemoryChange change_of_event(std::string_view action, std::int64_t size) {
  if (action == "alloc") return {size, 0};
  if (action == "free_completed") return {-size, 0};
  if (action == "segment_alloc" || action == "segment_map") return {0, size};
  if (action == "segment_free" || action == "segment_unmap") return {0, -size};
  return {};
}

/// The bytes of a snapshot, which may lie there compressed.
Result<std::string> read_decompressed(const std::string& path) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  GzipReader file(path);
  if (!file.is_open()) return bad_file(path, file.failure());
  std::string text;
  for (std::size_t got = kChunk; got == kChunk;) {
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    got = file.read(text.data() + before, kChunk);
    text.resize(before + got);
    if (text.size() > to_size(kLargestSnapshot)) {
      return bad_file(path,
                      "a memory snapshot of more than 4 GiB: record a shorter history "
                      "(max_entries of _record_memory_history)");
    }
  }
  if (!file.failure().empty()) return bad_file(path, file.failure());
  return text;
}

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, ImportedTrace& imported)
      : pickle_(pickle), imported_(imported), trace_(imported.trace) {}

  /// Whether events and blocks are listed more than once: each is a value of its own.
  bool repeats() const {
    std::size_t listed = 0;
    const auto count = [&](Pickle::Id list) { listed += pickle_.items(list).size(); };
    for (const Pickle::Id history : pickle_.items(pickle_.find(pickle_.root(), "device_traces"))) {
      count(history);
    }
    for (const Pickle::Id segment : pickle_.items(pickle_.find(pickle_.root(), "segments"))) {
      count(pickle_.find(segment, "blocks"));
    }
    return listed > pickle_.size() || pickle_.exhausted();
  }

  /// False if no device has a history.
  bool read() {
    const auto devices = pickle_.items(pickle_.find(pickle_.root(), "device_traces"));
    for (const Pickle::Id history : devices) find_first_time(history);
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (!pickle_.items(devices[d]).empty()) read_device(static_cast<int>(d), devices[d]);
    }
    return !trace_.rank_labels.empty();
  }

 private:
  void find_first_time(Pickle::Id events) {
    for (const Pickle::Id event : pickle_.items(events)) {
      const std::int64_t us = pickle_.integer(pickle_.find(event, "time_us"), -1);
      if (us >= 0) first_us_ = first_us_ < 0 ? us : std::min(first_us_, us);
    }
  }

  /// What is allocated and reserved at the end of the history.
  MemoryChange at_end(int device) const {
    MemoryChange end;
    for (const Pickle::Id segment : pickle_.items(pickle_.find(pickle_.root(), "segments"))) {
      if (pickle_.integer(pickle_.find(segment, "device")) != device) continue;
      end.reserved += pickle_.integer(pickle_.find(segment, "total_size"));
      for (const Pickle::Id block : pickle_.items(pickle_.find(segment, "blocks"))) {
        const bool used = pickle_.text(pickle_.find(block, "state")).starts_with("active");
        if (used) end.allocated += pickle_.integer(pickle_.find(block, "size"));
      }
    }
    return end;
  }

  void read_device(int device, Pickle::Id history) {
    const auto rank = static_cast<Rank>(trace_.rank_labels.size());
    trace_.rank_labels.push_back("device " + std::to_string(device));
    trace_.role_of_rank.push_back(rank);
    trace_.same_as.push_back(rank);
    trace_.roles.emplace_back();
    MemoryChange now = at_end(device);
    const auto events = pickle_.items(history);
    for (const Pickle::Id event : events) {
      const MemoryChange change = change_of(event);
      now.allocated -= change.allocated;
      now.reserved -= change.reserved;
    }
    now.allocated = std::max<std::int64_t>(now.allocated, 0);
    now.reserved = std::max(now.reserved, now.allocated);
    std::int64_t peak = 0;
    std::vector<SimTime> times;  // of the events; they never fall
    SimTime last{};
    for (std::size_t i = 0; i < events.size(); ++i) {
      const MemoryChange change = change_of(events[i]);
      now.allocated += change.allocated;
      now.reserved += change.reserved;
      last = std::max(last, time_of(events[i], i));
      times.push_back(last);
      if (pickle_.text(pickle_.find(events[i], "action")) == "oom") tell_shortage(events[i], last);
      const std::int64_t cached = std::max<std::int64_t>(now.reserved - now.allocated, 0);
      trace_.memory.push_back({rank, last, {now.allocated, cached}});
      peak = std::max(peak, now.allocated + cached);
    }
    trace_.peak_memory.push_back(peak);
    kineto::add_blocks(imported_.allocations, rank, pickle_, device, history,
                       [&](std::size_t i) { return times[i]; });
  }

  MemoryChange change_of(Pickle::Id event) const {
    return change_of_event(pickle_.text(pickle_.find(event, "action")),
                           pickle_.integer(pickle_.find(event, "size")));
  }

  /// Since the first event of any device. Snapshots of early versions have no times: their events
  /// are a microsecond apart.
  SimTime time_of(Pickle::Id event, std::size_t i) const {
    constexpr std::int64_t kMicrosecond = 1'000'000, kLongestUs = 9'000'000'000'000;
    const std::int64_t us = pickle_.integer(pickle_.find(event, "time_us"), -1);
    const std::int64_t since = first_us_ < 0 ? static_cast<std::int64_t>(i) : us - first_us_;
    return SimTime{std::clamp<std::int64_t>(since, 0, kLongestUs) * kMicrosecond};
  }

  void tell_shortage(Pickle::Id event, SimTime at) {
    imported_.remarks.push_back(
        "out of memory after " + std::to_string(at.count() / 1'000'000'000) + " ms: " +
        std::to_string(pickle_.integer(pickle_.find(event, "size")) >> 20) + " MiB were asked for");
  }

  const Pickle& pickle_;
  ImportedTrace& imported_;
  Trace& trace_;
  std::int64_t first_us_ = -1;
};

}  // namespace

Result<ImportedTrace> read_memory_snapshot(const std::string& path, const ImportOptions&) {
  const Result<std::string> text = read_decompressed(path);
  if (!text) return text.error();
  const Result<Pickle> pickle = Pickle::parse(*text, path);
  if (!pickle) return pickle.error();
  if (pickle->find(pickle->root(), "device_traces") == Pickle::kNothing) {
    return bad_file(path, "a pickle, but not a memory snapshot of PyTorch: no \"device_traces\"");
  }
  ImportedTrace imported;
  imported.trace.backend = "memory snapshot";
  imported.trace.memory_kinds = {"allocated", "cached"};
  SnapshotReader reader(*pickle, imported);
  const bool repeats = reader.repeats(), read = !repeats && reader.read();
  if (repeats || pickle->exhausted()) {
    return bad_file(path,
                    "it lists the same events or blocks again and again, which no snapshot does");
  }
  if (!read) {
    return bad_file(path,
                    "the snapshot has no history: call torch.cuda.memory._record_memory_history() "
                    "before what is to be seen");
  }
  imported.remarks.emplace_back("tells of memory only");
  return imported;
}

}  // namespace lockstep
