#include "cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/format/format.hpp"

namespace lockstep {

namespace {
constexpr int kLines = 20;  // about how many lines a run prints where they cannot be rewritten
}

Progress::Progress(const Console& console, int first_step, int steps, std::int64_t samples_per_step,
                   const char* unit)
    : console_(console),
      first_step_(first_step),
      steps_(steps),
      samples_per_step_(samples_per_step),
      unit_(unit) {}

Progress::~Progress() {
  if (line_open_) keep_status(console_);
}

void Progress::step(const StepResult& r, std::optional<double> validation) {
  const int done = r.step + 1 - first_step_;
  const int every = std::max(1, steps_ / kLines);
  const bool shown = done == 1 || done == steps_ || done % every == 0 || validation;
  if (!console_.live && !shown) return;
  const double rate = r.time.v > 0 ? static_cast<double>(samples_per_step_) / r.time.v : 0;
  std::string line = fmt::format(
      "step {}/{} | loss {:.4f} | norm {:.3f} | lr {:.2e} | {} | {} {}/s", r.step + 1,
      first_step_ + steps_, r.loss, r.grad_norm, r.lr, time_text(r.time), count_text(rate), unit_);
  if (r.loss_scale > 0) {
    line += fmt::format(" | scale {}{}", count_text(r.loss_scale),
                        std::isfinite(r.grad_norm) ? "" : ", skipped");
  }
  if (validation) line += fmt::format(" | validation loss {:.4f}", *validation);
  if (console_.live) {
    show_status(console_, line);
    if (validation) keep_status(console_);
    line_open_ = !validation;
  } else if (!console_.json) {  // metrics.jsonl says it better
    console_.err << line << std::endl;
  }
}

}  // namespace lockstep
