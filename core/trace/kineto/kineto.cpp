// read_kineto: makes one Trace of several files.
#include "core/trace/kineto/kineto.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/read_file.hpp"
#include "core/chakra/chakra.hpp"
#include "core/trace/chrome_trace.hpp"
#include "core/trace/gzip_file.hpp"
#include "core/trace/kineto/chakra_files.hpp"
#include "core/trace/kineto/file.hpp"
#include "core/trace/kineto/memory_snapshot.hpp"
#include "core/trace/kineto/nsight.hpp"

namespace lockstep {
namespace {

using namespace kineto;  // NOLINT: this file is the public face of that namespace
namespace fs = std::filesystem;

/// The rank in a file's name, as "rank3", "rank_3" or "rank-3"; -1: none.
int rank_in_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  for (std::size_t found = name.find("rank"); found != std::string::npos;
       found = name.find("rank", found + 1)) {
    const char* begin = name.data() + found + 4;
    const char* const end = name.data() + name.size();
    if (begin != end && (*begin == '_' || *begin == '-')) ++begin;
    int rank = -1;
    if (std::from_chars(begin, end, rank).ec == std::errc() && rank >= 0) return rank;
  }
  return -1;
}

/// Gives every file its rank and sorts the files by it. Returns remarks; an error if two files have
/// the same rank.
Result<std::vector<std::string>> name_ranks(Files& files) {
  std::vector<std::string> remarks;
  int unknown = 0;
  for (File& file : files) {
    if (file.rank < 0) file.rank = rank_in_name(file.path);
    if (file.rank < 0) ++unknown;
  }
  if (unknown > 0) {
    for (std::size_t f = 0; f < files.size(); ++f) files[f].rank = static_cast<int>(f);
    if (files.size() > 1) {
      remarks.push_back(
          std::to_string(unknown) +
          " files do not tell their rank: ranks are counted in the order of the files");
    }
  }
  std::stable_sort(files.begin(), files.end(),
                   [](const File& a, const File& b) { return a.rank < b.rank; });
  for (std::size_t f = 1; f < files.size(); ++f) {
    if (files[f].rank != files[f - 1].rank) continue;
    return bad_file(files[f].path, "is of rank " + std::to_string(files[f].rank) + ", as is " +
                                       files[f - 1].path + ": give one file of each rank");
  }
  int world = 0;
  for (const File& file : files) world = std::max(world, file.world_size);
  if (world > static_cast<int>(files.size())) {
    remarks.push_back(std::to_string(files.size()) + " of the job's " + std::to_string(world) +
                      " ranks are here: a collective's wait is told from these alone");
  }
  return remarks;
}

/// "1 event", "2 events".
std::string counted(std::int64_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

void remark_counts(const ImportCounts& c, std::vector<std::string>& remarks) {
  const auto remark = [&](std::int64_t n, const char* one, const char* many, const char* what) {
    if (n > 0) remarks.push_back(counted(n, one, many) + " " + what);
  };
  remark(c.overlapping, "event", "events", "overlapped others of the same track: beside them");
  remark(c.unfinished, "event", "events", "never ended: to the end of the track");
  remark(c.unbegun, "end", "ends", "of events without a beginning: left out");
  remark(c.without_duration, "event", "events", "without a duration: taken as 0");
  remark(c.unmatched_collectives, "collective", "collectives",
         "could not be matched between ranks: no waiting time is told for them");
  remark(c.unbound_flows, "flow", "flows", "without an event at one end: left out");
  remark(c.not_spans, "instant or counter", "instants and counters", "left out");
  remark(c.graphs, "launch of a CUDA graph is", "launches of CUDA graphs are",
         "one span each, whatever they compute and communicate: nsys profile "
         "--cuda-graph-trace=node tells their kernels");
}

/// Options for one file of several: its progress of 0 to 1 is reported as `done` to `done` +
/// `share`.
ImportOptions part_of(const ImportOptions& options, double done, double share) {
  ImportOptions part{options.cancel, nullptr};
  if (options.progress) {
    part.progress = [&options, done, share](double f) { options.progress(done + share * f); };
  }
  return part;
}

Result<void> join(Files& files, ImportedTrace& imported, NameTable& names) {
  Result<std::vector<std::string>> ranks = name_ranks(files);
  if (!ranks) return ranks.error();
  imported.remarks.insert(imported.remarks.end(), ranks->begin(), ranks->end());
  Trace& trace = imported.trace;
  trace.backend = "kineto";
  for (const File& file : files) {
    trace.role_of_rank.push_back(static_cast<std::int32_t>(trace.rank_labels.size()));
    trace.same_as.push_back(static_cast<Rank>(trace.rank_labels.size()));
    trace.rank_labels.push_back("rank " + std::to_string(file.rank));
    imported.counts += file.counts;
    if (file.cut_off) {
      const SourceSpan& end = *file.cut_off;
      imported.remarks.push_back(end.file + ":" + std::to_string(end.line) + ":" +
                                 std::to_string(end.column) +
                                 ": the file ends here, in the middle: what came before is kept");
    }
  }
  Matches matches = match_transfers(files);
  imported.counts.unmatched_collectives = matches.unmatched;
  trace.instances = std::move(matches.instances);
  const Clocks clocks = align_clocks(files, matches);
  trace.clock_uncertainty = SimTime{clocks.uncertainty * 1000};
  imported.remarks.insert(imported.remarks.end(), clocks.remarks.begin(), clocks.remarks.end());
  if (const Result<void> ok = assemble(files, clocks, names, imported); !ok) return ok.error();
  imported.counts.spans = static_cast<std::int64_t>(trace.spans.size());
  remark_counts(imported.counts, imported.remarks);
  return {};
}

double size_on_disk(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0.0 : static_cast<double>(size);
}

bool is_json(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.gz");
}

/// Whether a name comes before another one: numbers in them as numbers, so that host_2 comes before
/// host_10.
bool comes_before(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto number_at = [&](const std::string& text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t begin = at;
      while (at < text.size() && digit(text[at])) ++at;
      return std::string_view(text).substr(begin, at - begin);
    };
    const std::string_view m = number_at(a, i), n = number_at(b, j);
    if (m != n) return m.size() != n.size() ? m.size() < n.size() : m < n;
  }
  if (i < a.size() || j < b.size()) return j < b.size();
  return a < b;  // names that differ in leading zeros alone
}

/// The files of a folder that `wanted` accepts, in the order of comes_before().
template <class Wanted>
std::vector<std::string> files_in(const std::string& folder, Wanted wanted) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error) && wanted(entry.path())) {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end(), comes_before);
  return files;
}

/// Whether the file is a trace of ours, which says so in its first line.
bool is_ours(const std::string& path) {
  GzipReader file(path);
  std::string head(256, '\0');
  head.resize(file.read(head.data(), head.size()));
  return head.find(R"("lockstep":{"format_version")") != std::string::npos;
}

}  // namespace

ImportCounts& ImportCounts::operator+=(const ImportCounts& o) {
  spans += o.spans;
  overlapping += o.overlapping;
  unfinished += o.unfinished;
  unbegun += o.unbegun;
  without_duration += o.without_duration;
  unmatched_collectives += o.unmatched_collectives;
  unbound_flows += o.unbound_flows;
  not_spans += o.not_spans;
  graphs += o.graphs;
  return *this;
}

namespace {

/// `strangers`: the files may include JSON that is no trace.
Result<ImportedTrace> read_files(const std::vector<std::string>& paths, bool strangers,
                                 const ImportOptions& options) {
  ImportedTrace imported;
  NameTable names(imported.trace.names);
  Files files;
  double total = 0, done = 0;
  for (const std::string& path : paths) total += size_on_disk(path);
  for (const std::string& path : paths) {
    const double share = total > 0 ? size_on_disk(path) / total : 0;
    Result<File> file = parse_file(path, names, part_of(options, done, share));
    if (!file) return file.error();
    done += share;
    if (!file->has_events) {
      const std::string what = R"(neither a list of events nor an object with "traceEvents")";
      if (!strangers) return bad_file(path, "not a trace: " + what);
      imported.remarks.push_back(path + " is " + what + ": passed over");
      continue;
    }
    if (const Result<void> ok = arrange(*file, names); !ok) return ok.error();
    files.push_back(std::move(*file));
  }
  if (paths.empty()) return bad_file("", "no trace to read");
  if (files.empty()) {
    return bad_file(fs::path(paths.front()).parent_path().string(),
                    "no trace to read: of its files, " + imported.remarks.front());
  }
  if (const Result<void> ok = join(files, imported, names); !ok) return ok.error();
  return imported;
}

bool is_compressed(const std::string& path) {
  std::ifstream file = open_file(path);
  return file.get() == 0x1f && file.get() == 0x8b;
}

/// The first bytes of a file, decompressed.
std::string first_bytes(const std::string& path) {
  std::string bytes(16, '\0');
  GzipReader file(path);
  bytes.resize(file.read(bytes.data(), bytes.size()));
  return bytes;
}

/// Puts the files of a run's ranks in order and makes a trace of them.
Result<void> arrange_and_join(Files& files, ImportedTrace& imported, NameTable& names) {
  for (File& file : files) {
    if (auto ok = arrange(file, names); !ok) return ok;
  }
  return join(files, imported, names);
}

/// Reads one export, or those that nsys wrote for a rank or a node each: every process is a rank.
Result<ImportedTrace> read_nsight(const std::vector<std::string>& paths,
                                  const ImportOptions& options) {
  ImportedTrace imported;
  NameTable names(imported.trace.names);
  Files files;
  for (const std::string& path : paths) {
    Result<Files> processes = parse_nsight(path, names, options);
    if (!processes) return processes.error();
    if (processes->empty())
      return bad_file(path, "the export has no kernels, CUDA calls or ranges");
    for (File& file : *processes) files.push_back(std::move(file));
  }
  if (files.size() > paths.size()) {  // then a file's name is not a rank's
    for (std::size_t f = 0; f < files.size(); ++f) files[f].rank = static_cast<int>(f);
  }
  Result<void> joined = arrange_and_join(files, imported, names);
  if (!joined) return joined.error();
  imported.trace.backend = "nsys";
  imported.sources.nsight = true;
  return imported;
}

Result<ImportedTrace> read_chakra_trace(const std::string& path) {
  ImportedTrace imported;
  NameTable names(imported.trace.names);
  Result<Files> files = parse_chakra_files(path, names);
  if (!files) return files.error();
  if (auto joined = arrange_and_join(*files, imported, names); !joined) return joined.error();
  imported.trace.backend = "chakra";
  imported.sources = {};  // there is no text of a span to read again
  return imported;
}

}  // namespace

Result<ImportedTrace> read_kineto(const std::vector<std::string>& files,
                                  const ImportOptions& options) {
  return read_files(files, false, options);
}

Result<ImportedTrace> read_any_trace(const std::string& path, const ImportOptions& options) {
  std::error_code error;
  if (is_chakra(path)) return read_chakra_trace(path);
  if (!fs::is_directory(path, error)) {
    if (path.ends_with(".nsys-rep") || path.ends_with(".qdrep")) {
      return bad_file(
          path, "a report of Nsight Systems: export it with `nsys export --type sqlite " + path +
                    "` and open that");
    }
    const std::string begin = first_bytes(path);
    if (begin.starts_with("SQLite format 3")) {
      if (!is_compressed(path)) return read_nsight({path}, options);
      return bad_file(path,
                      "a SQLite database that is compressed: gunzip it, because a database "
                      "is not read from its begin to its end");
    }
    if (begin.starts_with('\x80')) return read_memory_snapshot(path, options);
    if (!is_ours(path)) return read_kineto({path}, options);
    Result<Trace> trace = read_chrome_trace(path);
    if (!trace) return trace.error();
    ImportedTrace imported;
    imported.trace = std::move(*trace);
    imported.counts.spans = static_cast<std::int64_t>(imported.trace.spans.size());
    return imported;
  }
  const std::vector<std::string> files = files_in(path, is_json);
  if (!files.empty()) return read_files(files, true, options);
  const std::vector<std::string> exports =
      files_in(path, [](const fs::path& file) { return file.extension() == ".sqlite"; });
  if (!exports.empty()) return read_nsight(exports, options);
  return bad_file(path,
                  "neither a run folder (no report.json) nor one of traces (no .json, .json.gz or "
                  ".sqlite)");
}

}  // namespace lockstep
