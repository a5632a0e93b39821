#include "core/scenario/shipped.hpp"

#include <algorithm>
#include <sstream>
#include <system_error>

namespace lockstep {
namespace fs = std::filesystem;

fs::path shipped_scenarios() {
  std::error_code error;
  for (fs::path folder :
       {fs::read_symlink("/proc/self/exe", error).parent_path(), fs::current_path(error)}) {
    for (; !folder.empty(); folder = folder.parent_path()) {
      for (const char* place : {"scenarios", "share/lockstep/scenarios"}) {
        if (fs::is_directory(folder / place / "lessons", error)) return folder / place;
      }
      if (folder == folder.root_path()) break;
    }
  }
  return {};
}

bool is_shipped(const fs::path& file) {
  std::error_code error;
  const fs::path all = fs::weakly_canonical(shipped_scenarios(), error);
  const fs::path one = fs::weakly_canonical(file, error);
  return !all.empty() &&
         std::mismatch(all.begin(), all.end(), one.begin(), one.end()).first == all.end();
}

std::vector<fs::path> scenario_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator i(folder, error), end; !error && i != end;
       i.increment(error)) {
    if (i->path().extension() == ".toml" && i->is_regular_file(error)) {
      files.push_back(i->path().lexically_relative(folder));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string opening_words(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string words;
  for (std::string line; std::getline(lines, line) && line.starts_with('#');) {
    const std::size_t begin = line.find_first_not_of("# ");
    if (begin == std::string::npos) continue;
    words += (words.empty() ? "" : " ") + line.substr(begin);
  }
  return words;
}

}  // namespace lockstep
