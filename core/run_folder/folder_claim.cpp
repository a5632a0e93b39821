#include "core/run_folder/folder_claim.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// What is in a folder, by name.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

}  // namespace

FolderClaim::FolderClaim(std::string folder, std::string checkpoints)
    : folder_(std::move(folder)), checkpoints_(std::move(checkpoints)) {
  std::error_code ignored;
  was_there_ = fs::exists(folder_, ignored);
  for (const std::string& name : names_in(folder_)) was_empty_ = was_empty_ && name == ".lock";
}

FolderClaim::~FolderClaim() {
  if (!armed_) return;
  const fs::path folder(folder_);
  std::error_code ignored;
  const std::vector<std::string> made = {"scenario.toml", "program.txt", "metrics.jsonl", "tb",
                                         checkpoints_,    ".lock"};
  for (const std::string& name : names_in(folder_)) {
    const bool ours = std::find(made.begin(), made.end(), name) != made.end();
    const bool saved = name == checkpoints_ && !names_in((folder / name).string()).empty();
    if (!ours || saved) return;
  }
  for (const std::string& name : made) fs::remove_all(folder / name, ignored);  // the lock last
  if (!was_there_) fs::remove(folder, ignored);
}

}  // namespace lockstep
