#include "core/lower/passes/passes.hpp"

#include <array>

#include "core/ir/text/text.hpp"

namespace lockstep {
namespace {

std::string print_stages(const Draft& draft) {
  const auto& counts = draft.scenario.activation_checkpoint.recomputed_layers_per_stage;
  std::string text;
  for (std::size_t s = 0; s < draft.stages.size(); ++s) {
    const StageLayers stage = draft.stages[s];
    double cost = 0;
    for (int l = stage.first; l < stage.last; ++l) {
      cost += draft.model.layers[l].balance;
    }
    text += "stage " + std::to_string(s) + " layers";
    for (int l = stage.first; l < stage.last; ++l) {
      const Layer& layer = draft.model.layers[l];
      text += " " + layer.name;
      if (!counts.empty() && layer.kind != layer.keeping_kind) text += "*";
    }
    text += "  cost " + std::to_string(cost) + "\n";
  }
  return text;
}

/// Prints a schedule with a line per rank: "pp0: 0F0 0F1 0B0 …".
std::string print_schedule(const Draft& draft) {
  std::string text;
  for (std::size_t r = 0; r < draft.schedule.actions.size(); ++r) {
    text += "pp" + std::to_string(r) + ":";
    for (const std::string& cell : to_cells(draft.schedule.actions[r])) text += " " + cell;
    text += "\n";
  }
  return text;
}

std::string print_program(const Draft& draft) { return print(draft.finished()); }

/// Wraps a pass that cannot fail.
template <void (*pass)(Draft&)>
Result<void> always(Draft& draft) {
  pass(draft);
  return {};
}

/// Lets the blocks of a stage after its first recomputed_layers_per_stage keep what they compute.
void keep_other_blocks(Draft& draft) {
  const auto& counts = draft.scenario.activation_checkpoint.recomputed_layers_per_stage;
  if (counts.empty()) return;
  // A stage that all ranks share, the embedding, comes before those that are counted.
  const std::size_t first = draft.scenario.strategy.vocabulary_stages() > 1 ? 1 : 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    const StageLayers stage = draft.stages[s + first];
    int recomputed = counts[s];
    for (int l = stage.first; l < stage.last; ++l) {
      Layer& layer = draft.model.layers[l];
      if (layer.is_block() && --recomputed < 0) layer.kind = layer.keeping_kind;
    }
  }
}

void set_stages(Draft& draft) {
  const Scenario& s = draft.scenario;
  draft.stages = partition(draft.model, s.model, s.strategy);
  keep_other_blocks(draft);
}

/// Sets the schedule, and repeats the stages for every copy of the model, which hold the same
/// layers.
void set_schedule(Draft& draft) {
  draft.schedule = pipeline(draft.scenario, draft.model, draft.stages);
  const std::vector<StageLayers> stages = draft.stages;
  for (int copy = 1; copy < draft.schedule.copies; ++copy) {
    draft.stages.insert(draft.stages.end(), stages.begin(), stages.end());
  }
}

void pair_given_times(Draft& draft) {
  const std::optional<CostsSpec>& costs = draft.scenario.costs;
  if (costs) pair(draft, draft.roles, draft.schedule, costs->pair_factor);
}

Result<void> post_as_asked(Draft& draft) {
  return post(draft.program, draft.roles, draft.scenario.strategy.pipeline_parallel_p2p);
}

Result<void> offload_as_asked(Draft& draft) {
  return offload(draft.program, draft.roles, draft.scenario.strategy.offload);
}

void drive_as_asked(Draft& draft) { drive(draft.program, draft.roles, draft.scenario.strategy); }

/// Gives back what a list has taken to grow into, if that is much: it may be as much as the list.
template <class List>
void trim(List& list) {
  if (list.capacity() - list.size() > list.size() / 8) list.shrink_to_fit();
}

/// No pass from here on lengthens these.
void trim(Role& role) {
  trim(role.ops);
  trim(role.buffers);
  trim(role.args);
}

void order_streams(Draft& draft) {
  for (DraftRole& out : draft.roles) trim(out.role);
  stream(draft.program, draft.roles);
}

void plan_memory(Draft& draft) { memory(draft.roles, draft.scenario.strategy); }

using V = Verifiable;

// clang-format off
constexpr std::array kPasses = {
    LoweringPass{"partition", "layers to virtual stages, balanced by cost or as given; recomputed ones have a *",
         always<set_stages>, print_stages, V::Nothing},
    LoweringPass{"pipeline", "the order of forward and backward passes on every pipeline rank",
         always<set_schedule>, print_schedule, V::Nothing},
    LoweringPass{"expand", "actions to calls of functions, messages between stages and host copies",
         always<expand>, print_program, V::Nothing},
    LoweringPass{"input", "which samples a rank reads, and the tables of integers that copies bring",
         always<input>, print_program, V::WithoutUpdate},
    LoweringPass{"pair", "given times of passes that run as one",
         always<pair_given_times>, print_program, V::WithoutUpdate},
    LoweringPass{"post", "when messages are posted, and what waits for them",
         post_as_asked, print_program, V::WithoutUpdate},
    LoweringPass{"versions", "weights that are updated while microbatches are under way (PipeDream)",
         always<versions>, print_program, V::WithoutUpdate},
    LoweringPass{"shard", "optimizer states and parameters divided over data-parallel ranks (ZeRO, FSDP)",
         always<shard>, print_program, V::Nothing},
    LoweringPass{"unshard", "parameters gathered ahead of their use",
         always<unshard>, print_program, V::WithoutUpdate},
    LoweringPass{"reduce", "gradients summed over data-parallel ranks: all-reduced in buckets, or scattered",
         always<reduce>, print_program, V::WithoutUpdate},
    LoweringPass{"copies", "gradients of tied and copied units added up over pipeline ranks",
         always<copies>, print_program, V::WithoutUpdate},
    LoweringPass{"optimizer", "norm, clipping, the update of every unit, loss",
         always<optimizer>, print_program, V::Whole},
    LoweringPass{"offload", "states in host memory, and the update with them",
         offload_as_asked, print_program, V::Whole},
    LoweringPass{"synchronize", "replicas synchronize after local steps (local SGD, DiLoCo)",
         always<synchronize>, print_program, V::Whole},
    LoweringPass{"drive", "what lies on drives, read and written back around its use",
         always<drive_as_asked>, print_program, V::Whole},
    LoweringPass{"stream", "what each op waits for on other streams",
         always<order_streams>, print_program, V::Whole},
    LoweringPass{"memory", "lifetimes of buffers and their places in the arena",
         always<plan_memory>, print_program, V::Whole},
};
// clang-format on

}  // namespace

std::span<const LoweringPass> passes() { return kPasses; }

const LoweringPass* find_pass(std::string_view name) {
  for (const LoweringPass& pass : kPasses) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

}  // namespace lockstep
