#include "gui/model/form/schedule_file.hpp"

#include <algorithm>
#include <filesystem>

#include "core/schedule/schedule.hpp"

namespace lockstep::gui {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

Result<std::string> scenario_of_schedule(const std::string& csv, const std::string& path) {
  const Result<Schedule> schedule = parse_schedule_csv(csv, path);
  if (!schedule) return schedule.error();
  const auto ranks = static_cast<int>(schedule->actions.size());
  const auto stages = static_cast<int>(schedule->rank_of_stage.size());
  int microbatches = 0;
  for (const Actions& actions : schedule->actions) {
    for (const Action& action : actions)
      microbatches = std::max(microbatches, action.microbatch + 1);
  }
  if (ranks == 0 || stages % ranks != 0) {
    return Error{ErrorKind::InvalidSpec,
                 std::to_string(stages) + " stages cannot lie on " + std::to_string(ranks) +
                     " ranks, as many on each",
                 SourceSpan{path, 0, 0}};
  }
  const int copies = stages % (2 * ranks) == 0 ? copies_of_model(*schedule, stages / 2) : 1;
  return "# The schedule of " + std::filesystem::path(path).filename().string() +
         ", one second for every part of a pass.\n"
         "[model]\npreset = \"synthetic\"\n\n[parallelism]\npipeline_parallel_degree = " +
         std::to_string(ranks) +
         "\npipeline_parallel_virtual_stages = " + std::to_string(stages / copies / ranks) +
         "\npipeline_parallel_microbatches = " + std::to_string(microbatches) +
         "\npipeline_parallel_schedule_csv = " +
         quoted(std::filesystem::absolute(path).lexically_normal().string()) +
         "\n\n[costs]\nforward = 1.0\nbackward_input = 1.0\nbackward_weight = 1.0\n\n"
         "[cluster]\nranks_per_device = " +
         std::to_string(ranks) + "\n";
}

}  // namespace lockstep::gui
