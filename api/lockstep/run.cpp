#include "lockstep/run.hpp"

#include <filesystem>

#include "core/session/simulation.hpp"
#include "core/trace/chrome_trace.hpp"
#include "lockstep/data.hpp"

namespace lockstep::api {
inline namespace v1 {

Run run_of(lockstep::Run run) {
  return Run(std::make_shared<const Run::Data>(Run::Data{std::move(run)}));
}

Result<Run> Run::open(const std::string& path) {
  lockstep::Result<lockstep::Run> run = open_run(path);
  if (!run) return faults_of(run.error());
  return run_of(std::move(*run));
}

Result<Run> simulate(const Scenario& scenario, bool limited) {
  lockstep::Result<lockstep::Run> run =
      simulated_run(scenario.data().scenario, limited ? Devices::AsTheyAre : Devices::Unlimited);
  if (!run) return faults_of(run.error());
  return run_of(std::move(*run));
}

Figures Run::figures() const {
  const Report& r = data_->run.report;
  return {r.step_time.v,     r.tokens_per_s,   r.images_per_s,   r.mfu,
          r.bubble_fraction, r.exposed_comm.v, fullest_rank(r).v};
}

Timeline Run::timeline() const {
  const Trace& trace = data_->run.trace;
  Timeline t;
  for (const Span& span : trace.spans) {
    const TraceOp& op = trace.roles[trace.role_of_rank[span.rank]].ops[span.op];
    t.step.push_back(span.step);
    t.rank.push_back(span.rank);
    t.stream.push_back(op.stream);
    t.name.push_back(op.name);
    t.kind.push_back(op.kind);
    t.stage.push_back(op.stage);
    t.microbatch.push_back(op.microbatch);
    t.layer.push_back(op.layer);
    t.begin_ps.push_back(span.begin.count());
    t.active_ps.push_back(span.active.count());
    t.end_ps.push_back(span.end.count());
    t.bytes.push_back(op.bytes);
  }
  t.names.assign(trace.names.begin(), trace.names.end());
  t.streams.assign(trace.streams.begin(), trace.streams.end());
  t.ranks.assign(trace.rank_labels.begin(), trace.rank_labels.end());
  t.same_as.assign(trace.same_as.begin(), trace.same_as.end());
  return t;
}

MemoryTimeline Run::memory() const {
  const Trace& trace = data_->run.trace;
  MemoryTimeline m;
  m.kinds.assign(trace.memory_kinds.begin(), trace.memory_kinds.end());
  for (const MemorySample& sample : trace.memory) {
    m.rank.push_back(sample.rank);
    m.time_ps.push_back(sample.time.count());
    m.bytes.insert(m.bytes.end(), sample.bytes_by_kind.begin(), sample.bytes_by_kind.end());
  }
  return m;
}

std::string Run::report_json() const { return lockstep::report_json(data_->run.report); }

std::vector<Fault> Run::save(const std::string& folder) const {
  const std::filesystem::path path(folder);
  std::error_code ignored;  // writing says what is wrong
  std::filesystem::create_directories(path, ignored);
  if (auto faults = write_trace((path / "trace.json.gz").string()); !faults.empty()) return faults;
  const lockstep::Result<void> written = write_file((path / "report.json").string(), report_json());
  if (!written) return faults_of(written.error());
  return {};
}

std::vector<Fault> Run::write_trace(const std::string& path) const {
  const lockstep::Result<void> written = write_chrome_trace(data_->run.trace, path);
  if (!written) return faults_of(written.error());
  return {};
}

}  // namespace v1
}  // namespace lockstep::api
