// WorkingFolder: makes a folder the working folder as long as it lives.
#pragma once

#include <filesystem>

namespace lockstep::test {

struct WorkingFolder {
  explicit WorkingFolder(const std::filesystem::path& folder)
      : before(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~WorkingFolder() { std::filesystem::current_path(before); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;
  std::filesystem::path before;
};

}  // namespace lockstep::test
