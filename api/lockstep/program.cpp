#include "lockstep/program.hpp"

#include <algorithm>

#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "core/lower/lower.hpp"
#include "core/memory/device_memory.hpp"
#include "lockstep/data.hpp"

namespace lockstep::api {
inline namespace v1 {
namespace {

Result<Program> program_of(lockstep::Result<lockstep::Program> program) {
  if (!program) return faults_of(program.error());
  return Program(std::make_shared<const Program::Data>(Program::Data{std::move(*program)}));
}

}  // namespace

Result<Program> Program::lower(const Scenario& scenario) {
  return program_of(lockstep::lower(scenario.data().scenario));
}

Result<Program> Program::parse(const std::string& text) { return program_of(parse_program(text)); }

std::string Program::text() const { return print(data_->program); }
std::string Program::hash() const { return program_hash(data_->program); }
int Program::ranks() const { return data_->program.mesh.world_size(); }

std::int64_t Program::ops() const {
  std::int64_t ops = 0;
  for (const Role& role : data_->program.roles) {
    ops += static_cast<std::int64_t>(role.ops.size() * role.ranks.size());
  }
  return ops;
}

std::vector<Fault> Program::verify() const { return faults_of(lockstep::verify(data_->program)); }

MemoryNeed Program::memory(const Scenario& scenario) const {
  const ClusterSpec& cluster = scenario.data().scenario.cluster;
  const MemoryFigures most = most_memory(data_->program, cluster);
  MemoryNeed need;
  for (const Role& role : data_->program.roles) {
    need.arena = std::max(need.arena, device_memory(data_->program, role, cluster).arena.v);
  }
  need.allocated = most.allocated.v;
  need.process = most.process.v;
  need.available = memory_per_rank(cluster, ranks()).v;
  return need;
}

}  // namespace v1
}  // namespace lockstep::api
