#include "core/session/program_file.hpp"

#include <algorithm>
#include <fstream>

#include "core/base/read_file.hpp"
#include "core/ir/text/text.hpp"
#include "core/lower/capacity.hpp"

namespace lockstep {

bool is_program_file(const std::string& path) {
  if (path.ends_with(".program")) return true;
  std::ifstream file = open_file(path);
  constexpr std::string_view kFirst = "lockstep_program";
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    return std::string_view(line).substr(begin).starts_with(kFirst);
  }
  return false;
}

LoadedProgram load_program(const std::string& path, Unproven unproven) {
  LoadedProgram loaded;
  constexpr std::int64_t kLongestProgram = std::int64_t{4} << 30;
  const Result<std::string> text = read_file(path, kLongestProgram);
  if (!text) {
    loaded.errors.push_back(text.error());
    return loaded;
  }
  Result<Program> program = parse_program(*text, path);
  if (!program) {
    loaded.errors.push_back(program.error());
    return loaded;
  }
  loaded.program = std::move(*program);
  loaded.errors = verify(loaded.program, unproven);
  if (!loaded.errors.empty() && loaded.program.sync_every > 0 && !unproven.replicas &&
      verify(loaded.program, {.replicas = true}).empty()) {
    loaded.errors.front().message +=
        "; if replicas are meant to have weights of their own, --allow replicas leaves it unproven";
  }
  for (Error& fault : loaded.errors) {  // the user may have written the text, so they are not ours
    fault.kind = ErrorKind::InvalidSpec;
    fault.where = SourceSpan{path, 0, 0};
  }
  return loaded;
}

Unproven unproven(const std::vector<std::string>& allowed) {
  return {.replicas = std::find(allowed.begin(), allowed.end(), kAllowReplicas) != allowed.end()};
}

ClusterSpec with_room_for(const Program& program, ClusterSpec cluster) {
  const int per_node = std::max(1, cluster.ranks_per_node());
  cluster.nodes =
      std::max<int>(cluster.nodes, static_cast<int>(ceil_div(program.mesh.world_size(), per_node)));
  return cluster;
}

Result<void> check_fits(const Program& program, const ClusterSpec& cluster) {
  const int world = program.mesh.world_size();
  if (cluster.capacity() < world) {
    return Error{ErrorKind::InvalidSpec,
                 "the program has " + std::to_string(world) + " ranks, cluster '" + cluster.name +
                     "' has room for " + std::to_string(cluster.capacity()),
                 std::nullopt};
  }
  return check_capacity(program, cluster);
}

}  // namespace lockstep
