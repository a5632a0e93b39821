#include "core/trace/kineto/nsight.hpp"

#ifdef LOCKSTEP_HAVE_SQLITE
#include <sqlite3.h>
#endif

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/read_file.hpp"

namespace lockstep::kineto {

#ifndef LOCKSTEP_HAVE_SQLITE

bool has_sqlite() { return false; }

namespace {
Error no_sqlite(const std::string& path) {
  return {ErrorKind::Unsupported,
          "an export of Nsight Systems, which this build cannot read: it was built without SQLite "
          "(install libsqlite3-dev and build again)",
          SourceSpan{path, 0, 0}};
}
}  // namespace

Result<Files> parse_nsight(const std::string& path, NameTable&, const ImportOptions&) {
  return no_sqlite(path);
}

Result<SpanArguments> read_nsight_arguments(const std::string& path, std::uint64_t,
                                            const std::string&) {
  return no_sqlite(path);
}

#else

bool has_sqlite() { return true; }

namespace {

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
struct FinishStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

/// How many bytes a database has by its header, whose numbers have their highest byte first; 0: the
/// header does not say. SQLite itself takes what is missing at the end for empty tables.
std::uint64_t bytes_of_header(const std::string& path) {
  std::array<unsigned char, 100> header{};
  std::ifstream file = open_file(path);
  if (!file.read(reinterpret_cast<char*>(header.data()), header.size())) return 0;
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | header[at + i];
    return value;
  };
  if (number(24, 4) != number(92, 4)) return 0;  // written by a version that counted no pages
  const std::uint64_t page = number(16, 2) == 1 ? 65536 : number(16, 2);
  return page * number(28, 4);
}

constexpr int kLongestValue = 16 << 20;  // bytes of a text or of a row

/// Opens an export for reading. Error: Parse.
Result<Database> open_database(const std::string& path) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  if (const std::uint64_t whole = bytes_of_header(path); !unknown && size < whole) {
    return bad_file(path, "a SQLite database that was cut off: it has " + std::to_string(size) +
                              " of its " + std::to_string(whole) +
                              " bytes (copy or export it again)");
  }
  if (is_no_file(path)) return bad_file(path, "a pipe, a socket or a device, not a file");
  sqlite3* raw = nullptr;
  const int state = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  Database db(raw);
  if (state == SQLITE_OK) {
    // An export is tables. What a database computes when it is read is not: a view can take for
    // ever, and so can any text of SQL that the file brings.
    sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kLongestValue);
    return db;
  }
  return bad_file(path, std::string("cannot be opened as a SQLite database: ") +
                            (raw != nullptr ? sqlite3_errmsg(raw) : "no memory"));
}

// The tables whose rows become events. Event::at is the row's number, and above it the table's.
constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr const char* kFills = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr const char* kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kRanges = "NVTX_EVENTS";
constexpr std::array kTables = {kKernels, kCopies, kFills, kGraphs, kCalls, kRanges};
constexpr int kRowBits = 56;

std::uint64_t place_of(const char* table, std::int64_t row) {
  const auto number = std::find(kTables.begin(), kTables.end(), table) - kTables.begin();
  return static_cast<std::uint64_t>(number) << kRowBits | static_cast<std::uint64_t>(row);
}

/// A row of a table, by column.
class NsightRow {
 public:
  explicit NsightRow(sqlite3_stmt* statement) : statement_(statement) {}
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const {
    const unsigned char* chars = sqlite3_column_text(statement_, column);
    return chars != nullptr ? reinterpret_cast<const char*>(chars) : "";
  }

 private:
  sqlite3_stmt* statement_;
};

constexpr std::int64_t kProcessMask = ~std::int64_t{0xffffff};  // of a global thread id
constexpr Nanoseconds kSomeTime = 1'600'000'000'000'000'000;    // of an export without its time

class NsightReader {
 public:
  NsightReader(sqlite3* db, const std::string& path, NameTable& names, const ImportOptions& options)
      : db_(db), path_(path), names_(names), options_(options) {
    std::error_code unknown;
    const auto bytes = std::filesystem::file_size(path, unknown);
    if (!unknown) work_ += static_cast<std::int64_t>(bytes) * kWorkPerByte;
    sqlite3_progress_handler(db_, kWorkLook, &NsightReader::spend, this);
  }
  ~NsightReader() { sqlite3_progress_handler(db_, 0, nullptr, nullptr); }
  NsightReader(const NsightReader&) = delete;
  NsightReader& operator=(const NsightReader&) = delete;

  Result<Files> read() {
    find_tables();
    if (!fault_.empty()) return bad_file(path_, fault_);
    const bool ours = tables_.contains("StringIds") &&
                      std::any_of(kTables.begin(), kTables.end(),
                                  [&](const char* table) { return tables_.contains(table); });
    if (!ours) {
      return bad_file(path_,
                      "a SQLite database, but not an export of Nsight Systems: it has no "
                      "tables of kernels, CUDA calls or NVTX ranges");
    }
    std::optional<Nanoseconds> epoch;
    query("TARGET_INFO_SESSION_START_TIME", "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME",
          [&](const NsightRow& row) { epoch = row.integer(0); });
    read_devices();
    read_hosts();
    name_threads();
    if (!fault_.empty()) return bad_file(path_, fault_);
    return files(epoch);
  }

 private:
  // Steps of SQLite's machine: a row takes some thirty of them, and is about as many bytes long.
  static constexpr std::int64_t kWorkPerByte = 64;
  static constexpr int kWorkLook = 1000;  // steps between two calls of spend()
  static int spend(void* reader) {
    return (static_cast<NsightReader*>(reader)->work_ -= kWorkLook) < 0 ? 1 : 0;
  }

  /// A process while it is being read; its times count from the begin of the session.
  struct Process {
    File file;
    std::map<std::pair<std::string, std::string>, std::size_t> places;
  };

  void find_tables() {
    query("", "SELECT name FROM sqlite_master WHERE type = 'table'",
          [&](const NsightRow& row) { tables_.insert(row.text(0)); });
  }

  /// Calls visit for each row, unless the export lacks the table.
  template <class Visit>
  void query(const std::string& table, const std::string& sql, Visit visit) {
    if (!fault_.empty() || (!table.empty() && !tables_.contains(table))) return;
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(db_, sql.c_str(), -1, &raw, nullptr) != SQLITE_OK) {
      const bool missing = sqlite3_errcode(db_) == SQLITE_ERROR;
      fault_ = missing ? "its table " + table + " is not as nsys writes it: " + sqlite3_errmsg(db_)
                       : unreadable();
      return;
    }
    const Statement statement(raw);
    int state = SQLITE_ROW;
    for (std::int64_t n = 1; (state = sqlite3_step(raw)) == SQLITE_ROW; ++n) {
      visit(NsightRow(raw));
      if (n % 4096 == 0 && options_.cancel != nullptr && options_.cancel->load()) {
        fault_ = "cancelled";
        return;
      }
    }
    if (state != SQLITE_DONE) fault_ = unreadable();
  }

  /// Says why a database cannot be read. One that was cut or damaged says so in its first query.
  std::string unreadable() const {
    if (work_ < 0) {
      return "reading it takes more work than an export of its size can need (several texts with "
             "one id?): export it again";
    }
    return std::string("cannot be read as a SQLite database: ") + sqlite3_errmsg(db_) +
           " (if it was damaged, export it again)";
  }

  void read_devices() {
    const std::string columns = "start, end, deviceId, streamId, correlationId, globalPid, ";
    query(kKernels,
          "SELECT " + columns + "k.rowid, s.value FROM " + kKernels +
              " k LEFT JOIN StringIds s ON s.id = k.demangledName",
          [&](const NsightRow& row) { add_device(row, kKernels, Kind::Compute, row.text(7), 0); });
    query(kCopies, "SELECT " + columns + "rowid, copyKind, bytes FROM " + kCopies,
          [&](const NsightRow& row) {
            add_device(row, kCopies, Kind::Memcpy, copy_name(row.integer(7)), row.integer(8));
          });
    query(kFills, "SELECT " + columns + "rowid, bytes FROM " + kFills, [&](const NsightRow& row) {
      add_device(row, kFills, Kind::Memset, "Memset", row.integer(7));
    });
    query(kGraphs, "SELECT " + columns + "rowid, graphId FROM " + kGraphs,
          [&](const NsightRow& row) {
            add_device(row, kGraphs, Kind::Compute, "CUDA graph " + row.text(7), 0);
            ++processes_[row.integer(5) & kProcessMask].file.counts.graphs;
          });
  }

  /// CUPTI's kinds of copies.
  static std::string copy_name(std::int64_t kind) {
    switch (kind) {
      case 1:
        return "Memcpy HtoD";
      case 2:
        return "Memcpy DtoH";
      case 8:
        return "Memcpy DtoD";
      case 10:
        return "Memcpy PtoP";
      default:
        return "Memcpy";
    }
  }

  void add_device(const NsightRow& row, const char* table, Kind kind, const std::string& name,
                  std::int64_t bytes) {
    Process& process = processes_[row.integer(5) & kProcessMask];
    File& file = process.file;
    Event e = event(process, row, name, std::to_string(row.integer(2)),
                    std::to_string(row.integer(3)), Family::Device);
    e.correlation = correlation(row, 4);
    e.at = place_of(table, row.integer(6));
    e.kind = kind;
    const bool collective = kind == Kind::Compute && is_collective_kernel(name);
    if (collective) e.kind = kind_of_collective(name);
    if (bytes > 0) {
      e.transfer = static_cast<std::int32_t>(file.transfers.size());
      Transfer t;
      t.bytes = bytes;
      file.transfers.push_back(t);
    }
    file.events.push_back(e);
  }

  void read_hosts() {
    query(kCalls,
          std::string("SELECT start, end, globalTid, r.rowid, correlationId, s.value FROM ") +
              kCalls + " r LEFT JOIN StringIds s ON s.id = r.nameId",
          [&](const NsightRow& row) {
            add_host(row, kCalls, Kind::Host, row.text(5), correlation(row, 4));
          });
    query(kRanges,  // a range has an end; marks have none
          std::string("SELECT start, end, globalTid, n.rowid, coalesce(text, s.value) FROM ") +
              kRanges +
              " n LEFT JOIN StringIds s ON s.id = n.textId WHERE end IS NOT NULL AND end > start "
              "AND globalTid IS NOT NULL",
          [&](const NsightRow& row) { add_host(row, kRanges, Kind::Annotation, row.text(4), -1); });
  }

  void add_host(const NsightRow& row, const char* table, Kind kind, const std::string& name,
                std::int32_t correlation) {
    const std::int64_t thread = row.integer(2);
    Process& process = processes_[thread & kProcessMask];
    Event e =
        event(process, row, name, "host", std::to_string(thread & ~kProcessMask), Family::Host);
    e.correlation = correlation;
    e.at = place_of(table, row.integer(3));
    e.kind = kind;
    process.file.events.push_back(e);
  }

  Event event(Process& process, const NsightRow& row, const std::string& name,
              const std::string& pid, const std::string& tid, Family family) {
    Event e;
    e.begin = std::clamp<Nanoseconds>(row.integer(0), 0, kLongestSession);
    e.end = std::clamp<Nanoseconds>(row.integer(1), e.begin, kLongestSession);
    if (row.integer(1) < row.integer(0)) ++process.file.counts.without_duration;
    e.name = names_.id(name);
    e.track = track(process, pid, tid, family);
    return e;
  }

  static std::int32_t correlation(const NsightRow& row, int column) {
    const std::int64_t id = row.integer(column);
    return id > 0 && id <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(id)
                                                                    : -1;
  }

  static std::int32_t track(Process& process, const std::string& pid, const std::string& tid,
                            Family family) {
    File& file = process.file;
    const auto [known, fresh] = process.places.try_emplace({pid, tid}, file.places.size());
    if (fresh) file.places.push_back({pid, tid, "", {-1, -1, -1, -1}});
    std::int32_t& track = file.places[known->second].tracks[family];
    if (track < 0) {
      track = static_cast<std::int32_t>(file.tracks.size());
      file.tracks.push_back({static_cast<std::int32_t>(known->second), family});
    }
    return track;
  }

  void name_threads() {
    query(
        "ThreadNames",
        "SELECT globalTid, s.value FROM ThreadNames t JOIN StringIds s ON s.id = t.nameId",
        [&](const NsightRow& row) {
          const auto process = processes_.find(row.integer(0) & kProcessMask);
          if (process == processes_.end()) return;
          const auto place =
              process->second.places.find({"host", std::to_string(row.integer(0) & ~kProcessMask)});
          if (place == process->second.places.end()) return;
          process->second.file.places[place->second].label = "(" + row.text(1) + ")";  // as Kineto
        });
  }

  /// The processes that drove a device, or all if none did; each counts from its first event.
  /// Without the session's time they begin when they may: a single one is aligned by what it shares
  /// with others, several share the session's clock.
  Files files(std::optional<Nanoseconds> epoch) {
    const auto drives = [](const Process& p) {
      return std::any_of(p.file.tracks.begin(), p.file.tracks.end(),
                         [](const Track& t) { return t.family == Family::Device; });
    };
    const bool devices = std::any_of(processes_.begin(), processes_.end(),
                                     [&](const auto& entry) { return drives(entry.second); });
    Files files;
    for (auto& [id, process] : processes_) {
      if (process.file.events.empty() || (devices && !drives(process))) continue;
      File& file = process.file;
      Nanoseconds first = kLongestSession;
      for (const Event& e : file.events) first = std::min(first, e.begin);
      for (Event& e : file.events) e.begin -= first, e.end -= first;
      file.path = path_;
      file.has_events = true;
      file.start = epoch.value_or(kSomeTime) + first;
      files.push_back(std::move(file));
    }
    for (File& file : files) file.wall_clock = epoch || files.size() > 1;
    return files;
  }

  static constexpr Nanoseconds kLongestSession = std::numeric_limits<Nanoseconds>::max() / 4000;

  std::int64_t work_ = 50'000'000;  // that is left
  sqlite3* db_;
  const std::string& path_;
  NameTable& names_;
  const ImportOptions& options_;
  std::set<std::string> tables_;
  std::map<std::int64_t, Process> processes_;  // by global process id
  std::string fault_;
};

}  // namespace

Result<Files> parse_nsight(const std::string& path, NameTable& names,
                           const ImportOptions& options) {
  const Result<Database> db = open_database(path);
  if (!db) return db.error();
  return NsightReader(db->get(), path, names, options).read();
}

Result<SpanArguments> read_nsight_arguments(const std::string& path, std::uint64_t at,
                                            const std::string& name) {
  const Result<Database> db = open_database(path);
  if (!db) return db.error();
  const std::string table = kTables.at(at >> kRowBits);
  const std::string sql = "SELECT * FROM " + table + " WHERE rowid = " +
                          std::to_string(at & ((std::uint64_t{1} << kRowBits) - 1));
  const auto prepared = [&](const std::string& text) {
    sqlite3_stmt* raw = nullptr;
    sqlite3_prepare_v2(db->get(), text.c_str(), -1, &raw, nullptr);
    return Statement(raw);
  };
  const Statement row = prepared(sql);
  const Statement string = prepared("SELECT value FROM StringIds WHERE id = ?");
  const bool named = table != kCopies && table != kFills && table != kGraphs;  // those are ours
  bool same = !named;
  SpanArguments arguments = {{"Table", table}};
  if (row && string && sqlite3_step(row.get()) == SQLITE_ROW) {
    for (int c = 0; c < sqlite3_column_count(row.get()); ++c) {
      if (sqlite3_column_type(row.get(), c) == SQLITE_NULL) continue;
      const std::string column = sqlite3_column_name(row.get(), c);
      if (column == "start" || column == "end") continue;  // as the span says, on its own clock
      std::string value = NsightRow(row.get()).text(c);
      if (column.ends_with("Name") || column == "nameId" || column == "textId") {
        sqlite3_reset(string.get());
        sqlite3_bind_int64(string.get(), 1, sqlite3_column_int64(row.get(), c));
        if (sqlite3_step(string.get()) == SQLITE_ROW) value = NsightRow(string.get()).text(0);
      }
      same = same || value == name;
      arguments.emplace_back(column, value);
    }
  }
  if (!same || arguments.size() == 1) {
    return bad_file(path, "the file has changed since it was opened: open it again");
  }
  return arguments;
}

#endif

}  // namespace lockstep::kineto
