#include "cli/open_run.hpp"

namespace lockstep {

Result<Run> open_run(const std::string& path, const Console& console) {
  ImportOptions options;
  options.cancel = console.cancel;
  int shown = -1;
  if (console.live) {
    options.progress = [&](double fraction) {
      const int percent = static_cast<int>(100 * fraction);
      if (percent == shown) return;
      shown = percent;
      show_status(console, "reading " + path + ": " + std::to_string(percent) + " %");
    };
  }
  Result<Run> run = open_run(path, options);
  if (shown >= 0) show_status(console, "");
  if (run) {
    for (const std::string& remark : run->remarks) report_note(console, remark);
  }
  return run;
}

}  // namespace lockstep
