#include "core/session/session_folder.hpp"

#include <algorithm>
#include <filesystem>

#include "core/checkpoint/checkpoint.hpp"
#include "core/ir/text/text.hpp"
#include "core/trace/chrome_trace.hpp"

namespace lockstep {

namespace fs = std::filesystem;

std::string SessionFolder::path(const std::string& name) const {
  return (fs::path(path_) / name).string();
}

bool SessionFolder::holds(const std::string& other) const {
  std::error_code code;
  const fs::path own = fs::weakly_canonical(path_, code);
  const fs::path there = fs::weakly_canonical(other, code);
  return std::mismatch(own.begin(), own.end(), there.begin(), there.end()).first == own.end();
}

Result<void> SessionFolder::take(const std::string& run, bool goes_on, bool trains) {
  claim_.emplace(path_, checkpoints_);
  if (auto done = prepare_run_folder(path_, checkpoints_, goes_on); !done) return done;
  auto lock = RunLock::take(path_, run);
  if (!lock) return lock.error();
  lock_ = std::move(*lock);
  claim_->arm();
  if (trains) mend_checkpoints(checkpoints());
  return {};
}

Result<void> SessionFolder::describe(const std::string& scenario, const Program& program,
                                     int first_step, bool tensorboard) {
  if (!given()) return {};
  if (!scenario.empty()) {
    if (auto done = write_own(path("scenario.toml"), scenario); !done) return done;
  }
  if (auto done = write_own(path("program.txt"), print(program)); !done) return done;
  Result<MetricsLog> metrics =
      MetricsLog::open(path("metrics.jsonl"), first_step, tensorboard ? path("tb") : "");
  if (!metrics) return metrics.error();
  metrics_ = std::move(*metrics);
  return {};
}

Result<void> SessionFolder::log(const StepResult& step, std::int64_t tokens_per_step,
                                const StepLosses& losses) {
  return metrics_ ? metrics_->append(step, tokens_per_step, losses) : Result<void>();
}

void SessionFolder::keep() {
  if (claim_) claim_->keep();
}

CheckpointStore& SessionFolder::open_store(CheckpointRules rules) {
  rules.check_folder = [this] { return lock_ ? lock_->check() : Result<void>(); };
  store_ = std::make_unique<CheckpointStore>(checkpoints(), std::move(rules));
  return *store_;
}

bool SessionFolder::write_flight(const Program& program, const Process& process) const {
  const FlightRecord& flight = process.activity->flight;
  if (!given() || flight.entries().empty()) return false;
  const std::string name = "flight-" + std::to_string(process.index()) + ".txt";
  return write_own(path(name), flight_text(flight, program, process.now())).ok();
}

Result<void> SessionFolder::close(const Trace& trace, const Report& report) {
  if (!given()) return {};
  if (auto there = lock_->check(); !there) return there;
  if (auto done = write_chrome_trace(trace, path("trace.json.gz"), Links::Replaced); !done) {
    return done;
  }
  return write_own(path("report.json"), report_json(report));
}

}  // namespace lockstep
