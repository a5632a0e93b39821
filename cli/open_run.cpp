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
      console.err << "\r\033[Kreading " << printable(path) << ": " << percent << " %" << std::flush;
    };
  }
  Result<Run> run = open_run(path, options);
  if (shown >= 0) console.err << "\r\033[K" << std::flush;
  if (run) {
    for (const std::string& remark : run->remarks) report_note(console, remark);
  }
  return run;
}

}  // namespace lockstep
