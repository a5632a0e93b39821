#include "core/run_folder/folder_claim.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";
constexpr const char* kBefore = ".before";  // where an older run's description is put aside
constexpr const char* kBegun = ".begun";    // what that becomes when the later run has begun
constexpr const char* kLogs = "tb";
constexpr std::array<const char*, 3> kDescription = {"scenario.toml", "program.txt",
                                                     "metrics.jsonl"};
constexpr std::array<const char*, 2> kResults = {"trace.json.gz", "report.json"};

/// What is in a folder, by name.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool is_half_written(const std::string& name) {
  constexpr std::string_view kEnding = ".tmp";
  if (!name.ends_with(kEnding)) return false;
  const std::string whole = name.substr(0, name.size() - kEnding.size());
  const std::size_t dot = whole.rfind('.');
  if (dot == std::string::npos || dot + 1 == whole.size()) return false;
  if (whole.find_first_not_of("0123456789", dot + 1) != std::string::npos) return false;
  const auto is_it = [&](const char* file) { return whole.compare(0, dot, file) == 0; };
  return std::any_of(kDescription.begin(), kDescription.end(), is_it) ||
         std::any_of(kResults.begin(), kResults.end(), is_it);
}

FolderClaim::FolderClaim(std::string folder, std::string checkpoints)
    : folder_(std::move(folder)), checkpoints_(std::move(checkpoints)) {
  std::error_code ignored;
  was_there_ = fs::exists(folder_, ignored);
  look();
}

void FolderClaim::look() {
  names_ = names_in(folder_);
  std::erase_if(names_, [](const std::string& name) {
    return name == kLock || name == kBefore || name == kBegun;
  });
  logs_ = names_in(fs::path(folder_) / kLogs);
}

void FolderClaim::arm() {
  armed_ = true;
  if (names_.empty()) return;
  const fs::path folder(folder_), before = folder / kBefore;
  std::error_code ignored;
  for (const std::string& name : names_) {  // what runs left that were killed
    if (is_half_written(name)) fs::remove(folder / name, ignored);
  }
  if (fs::exists(folder / kBegun, ignored)) end_older();
  if (fs::exists(before, ignored)) give_back();
  look();
  if (names_.empty()) return;
  fs::create_directory(before, ignored);
  for (const char* name : kDescription) {
    if (!contains(names_, name)) continue;
    // All of them are written anew and then renamed, so that a second name keeps the old one. What
    // is written through a link is not.
    std::error_code code = std::make_error_code(std::errc::not_supported);
    if (!fs::is_symlink(folder / name, ignored)) {
      fs::create_hard_link(folder / name, before / name, code);
    }
    if (code) fs::copy_file(folder / name, before / name, ignored);
  }
}

void FolderClaim::give_back() const {
  const fs::path folder(folder_), before = folder / kBefore;
  std::error_code ignored;
  for (const char* name : kDescription) {
    if (fs::exists(before / name, ignored)) {
      fs::rename(before / name, folder / name, ignored);
    } else if (!contains(names_, name)) {
      fs::remove(folder / name, ignored);
    }
  }
  fs::remove_all(before, ignored);
}

void FolderClaim::keep() {
  if (!std::exchange(armed_, false)) return;
  std::error_code ignored;
  // From here on the folder is the later run's, whenever this process is killed.
  fs::rename(fs::path(folder_) / kBefore, fs::path(folder_) / kBegun, ignored);
  end_older();
}

void FolderClaim::end_older() const {
  std::error_code ignored;
  for (const char* name : kResults) fs::remove(fs::path(folder_) / name, ignored);
  fs::remove_all(fs::path(folder_) / kBegun, ignored);
}

bool FolderClaim::holds_more() const {
  for (const std::string& name : names_in(folder_)) {
    const bool described =
        std::find(kDescription.begin(), kDescription.end(), name) != kDescription.end();
    const bool saved = name == checkpoints_ && !names_in(fs::path(folder_) / name).empty();
    const bool ours = described || name == kLock || name == kBefore || name == kLogs ||
                      (name == checkpoints_ && !saved);
    if (!ours && !contains(names_, name)) return true;
  }
  return false;
}

FolderClaim::~FolderClaim() {
  if (!armed_) return;
  if (holds_more()) {
    keep();
    return;
  }
  const fs::path folder(folder_);
  std::error_code ignored;
  for (const std::string& name : names_in(folder / kLogs)) {
    if (!contains(logs_, name)) fs::remove(folder / kLogs / name, ignored);
  }
  if (!contains(names_, kLogs)) fs::remove_all(folder / kLogs, ignored);
  if (!contains(names_, checkpoints_)) fs::remove_all(folder / checkpoints_, ignored);
  if (!names_.empty()) {
    give_back();
    return;
  }
  for (const char* name : kDescription) fs::remove(folder / name, ignored);
  fs::remove(folder / kLock, ignored);  // the last: until then nobody else takes the folder
  if (!was_there_) fs::remove(folder, ignored);
}

}  // namespace lockstep
