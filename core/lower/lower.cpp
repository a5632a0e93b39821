#include "core/lower/lower.hpp"

#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "core/lower/draft.hpp"

namespace lockstep {
namespace {

Draft start(const Scenario& s) {
  Draft draft(s);
  const StrategySpec& strategy = s.strategy;
  Program& program = draft.program;
  program.mesh.dims = {{"pp", strategy.pipeline_parallel_degree},
                       {"dp_replicate", strategy.data_parallel_replicate_degree},
                       {"dp_shard", strategy.data_parallel_shard_degree},
                       {"tp", strategy.tensor_parallel_degree}};
  if (strategy.reshards_to_fewer()) {  // neighbours share the copy that outlasts forward
    const int inner = strategy.fsdp_reshard_degree;
    program.mesh.dims[2].size /= inner;
    program.mesh.dims.insert(program.mesh.dims.begin() + 3, {"dp_reshard", inner});
  }
  if (strategy.expert_parallel_degree > 1) {  // neighbours divide the experts
    program.mesh.dims[2].size = strategy.shards_beside_experts();
    program.mesh.dims.insert(program.mesh.dims.begin() + 3,
                             {"ep", strategy.expert_parallel_degree});
  }
  if (strategy.context_parallel_degree > 1) {
    program.mesh.dims.insert(program.mesh.dims.end() - 1, {"cp", strategy.context_parallel_degree});
  }
  program.dtype = s.training.param_dtype();
  if (s.costs) {
    draft.model = build_synthetic(*s.costs, strategy.num_stages());
    program.p2p_latency = Seconds{s.costs->p2p};
    return draft;
  }
  program.tokens_per_step = s.tokens_per_step();
  LayerShape shape;
  shape.batch = s.microbatch_size();
  shape.seq = s.training.seq_len;
  shape.dtype = s.training.param_dtype();
  shape.gradient_dtype = s.training.reduce_dtype();
  shape.buffer_dtype = s.training.buffer_dtype();
  shape.checkpoint = s.activation_checkpoint;
  program.updates_per_step = s.updates_per_step();
  shape.loss_scale =
      program.updates_per_step / static_cast<double>(program.tokens_per_step);  // of an update
  shape.shard_count = strategy.state_shards();
  shape.expert_parallel = strategy.expert_parallel_degree;
  shape.expert_shard_count = strategy.expert_shards();
  if (strategy.sync_batch_norm) shape.norm_ranks = strategy.data_parallel_degree();
  LayerShape whole = shape;  // as one rank would do it
  shape.seq = s.own_seq_len();
  shape.context_parallel = strategy.context_parallel_degree;
  shape.gathers_keys = strategy.gathers_keys();
  shape.tensor_parallel = strategy.tensor_parallel_degree;
  shape.sequence_parallel = strategy.sequence_parallel();
  draft.model = build_layers(s.model, shape);
  for (const auto* units : {&draft.model.units, &draft.model.statistics}) {
    for (const UnitLayout& unit : *units) {
      program.parameters.insert(program.parameters.end(), unit.parameters.begin(),
                                unit.parameters.end());
    }
  }
  // Backward costs twice the forward pass: the convention of every published MFU.
  const double passes = double(s.num_microbatches()) * strategy.data_parallel_degree();
  const bool undivided = shape.tensor_parallel == 1 && shape.context_parallel == 1;
  const Flops forward =
      undivided ? draft.model.forward_flops() : build_layers(s.model, whole).forward_flops();
  program.model_flops_per_step = 3 * passes * forward;
  return draft;
}

/// Ranks of each role: those with its coordinate along "pp".
void assign_ranks(Draft& draft) {
  const Mesh& mesh = draft.program.mesh;
  const int pp = mesh.index_of("pp");
  for (Rank rank = 0; rank < mesh.world_size(); ++rank) {
    const int r = mesh.coordinate(rank, pp);
    draft.program.role_of_rank.push_back({r});
    draft.roles[static_cast<std::size_t>(r)].role.ranks.push_back(rank);
  }
}

/// The program so far, for printing after a pass.
std::string print_draft(const Draft& draft) {
  Program program = draft.program;
  for (const DraftRole& out : draft.roles) program.roles.push_back(out.role);
  return print(program);
}

}  // namespace

const std::vector<std::string>& pass_names() {
  static const std::vector<std::string> names = {"partition", "pipeline",  "expand", "post",
                                                 "shard",     "optimizer", "stream", "memory"};
  return names;
}

Schedule lower_schedule(const Scenario& scenario) {
  Draft draft = start(scenario);
  partition(draft);
  pipeline(draft);
  return std::move(draft.schedule);
}

Result<Program> lower(const Scenario& scenario, const PassObserver& after_pass) {
  Draft draft = start(scenario);
  const auto observe = [&](std::string_view pass, const auto& print_state) {
    if (after_pass) after_pass(pass, [&] { return print_state(draft); });
  };
  partition(draft);  // layers -> virtual stages
  observe("partition", print_stages);
  pipeline(draft);  // per-rank order of F, B, I, W
  observe("pipeline", print_schedule);
  expand(draft);  // actions -> calls, messages, host copies
  pair(draft);    // given times of passes that run as one
  assign_ranks(draft);
  observe("expand", print_draft);
  const Result<void> posted = post(draft);  // when messages are posted, what waits for them
  observe("post", print_draft);
  if (!posted) return posted.error();
  shard(draft);  // DDP buckets; ZeRO and FSDP gathers and reduce-scatters
  observe("shard", print_draft);
  optimizer(draft);  // clip, step, metrics; versions of weights that are updated under way
  observe("optimizer", print_draft);
  stream(draft);  // dependencies between streams
  observe("stream", print_draft);
  const Result<void> fits = memory(draft);  // lifetimes, arena offsets
  observe("memory", print_draft);
  if (!fits) return fits.error();

  Program program = std::move(draft.program);
  for (DraftRole& out : draft.roles) program.roles.push_back(std::move(out.role));
  program.model = model_fingerprint(program);
  const std::vector<Error> faults = verify(program);
  if (!faults.empty()) {
    Error first = faults.front();
    first.kind = ErrorKind::Internal;
    first.message = "lowering broke its own rules: " + first.message;
    return first;
  }
  return program;
}

}  // namespace lockstep
