#include "cli/memory_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"
#include "core/plan/memory_formulas.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kLargestBuffers = 10;

std::string buffer_label(const Program& program, const Buffer& b) {
  std::string text(to_string(b.kind));
  if (b.name >= 0) text += " " + program.names[b.name];
  if (b.layer >= 0) text += fmt::format(" layer {}", b.layer);
  if (b.microbatch >= 0) text += fmt::format(" microbatch {}", b.microbatch);
  return text;
}

/// Whether a buffer is alive while op `at` runs. Persistent buffers always are.
bool alive(const Buffer& b, std::int32_t at) {
  return b.persistent() || (b.first.v <= at && at <= b.last.v);
}

/// The first op of the list at which most bytes are alive, in the host's memory or the device's.
std::int32_t fullest_op(const Role& role, bool on_host) {
  IndexVector<OpId, std::int64_t> change(role.ops.size() + 1, 0);
  for (const Buffer& b : role.buffers) {
    if (b.parent.valid() || b.persistent() || b.on_host != on_host) continue;
    change[b.first] += b.bytes.v;
    change[to_size(b.last) + 1] -= b.bytes.v;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return static_cast<std::int32_t>(std::max_element(change.begin(), change.end()) - change.begin());
}

std::string role_memory(const Program& program, const Role& role, bool on_host) {
  const std::int32_t at = fullest_op(role, on_host);
  const Bytes arena = on_host ? role.host_arena : role.arena;
  IndexArray<BufferKind, std::int64_t, kNumBufferKinds> by_kind{};
  std::vector<const Buffer*> live;
  std::int64_t total = 0;
  for (const Buffer& b : role.buffers) {
    if (b.parent.valid() || b.on_host != on_host || !alive(b, at)) continue;
    by_kind[b.kind] += b.bytes.v;
    total += b.bytes.v;
    live.push_back(&b);
  }
  std::string ranks;
  for (const Rank rank : role.ranks) {
    if (ranks.size() > 60) {
      ranks += " ...";
      break;
    }
    ranks += fmt::format(" {}", rank);
  }
  std::string text = fmt::format("rank{}{}: {} {} ({} B)\n", role.ranks.size() == 1 ? "" : "s",
                                 ranks, on_host ? "host memory" : "arena", bytes_text(arena),
                                 count_text(double(arena.v)));
  if (role.ops.empty()) return text;
  text += fmt::format("most is alive at %{} ({}): {}\n\n", at, describe(program, role, {at}),
                      bytes_text({total}));
  TextTable kinds({"  kind", "bytes", "share"});
  for (const BufferKind kind : by_kind.ids()) {
    const std::int64_t bytes = by_kind[kind];
    if (bytes == 0) continue;
    kinds.add({"  " + std::string(to_string(kind)), bytes_text({bytes}),
               percent_text(double(bytes) / double(total))});
  }
  kinds.add({"  gaps between buffers", bytes_text(arena - Bytes{total}), ""});
  std::stable_sort(live.begin(), live.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  TextTable largest({"  largest buffers", "bytes", "alive"});
  for (std::size_t i = 0; i < std::min(live.size(), kLargestBuffers); ++i) {
    const Buffer& b = *live[i];
    largest.add({"  " + buffer_label(program, b), bytes_text(b.bytes),
                 b.persistent() ? "always" : fmt::format("%{}..%{}", b.first.v, b.last.v)});
  }
  return text + kinds.text() + "\n" + largest.text();
}

std::string role_memory(const Program& program, const Role& role) {
  const std::string device = role_memory(program, role, false);
  return role.host_arena.v > 0 ? device + "\n" + role_memory(program, role, true) : device;
}

/// What the ZeRO paper's formula says of this model's states, for comparison with the plan: per
/// rank, without pipeline or tensor parallelism, in GB of 10^9 bytes.
std::string model_states_text(const Program& program, int ranks) {
  std::set<std::int32_t> trained;  // parameters with optimizer state; running statistics have none
  for (const Role& role : program.roles) {
    for (const Unit& unit : role.units) {
      if (!unit.adam_m.valid()) continue;
      for (const UnitParameter& p : unit.parameters) trained.insert(p.parameter.v);
    }
  }
  double parameters = 0;
  for (const std::int32_t p : trained) {
    parameters += double(program.parameters[p].elements());
  }
  if (parameters == 0) return {};
  TextTable table({"  GB per rank by formula", "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"});
  const auto add = [&](const std::string& name, const StateWidths& widths) {
    std::vector<std::string> row = {"  " + name};
    for (int stage = 0; stage <= 3; ++stage) {
      const StateBytes states = model_states(parameters, stage, ranks, widths);
      row.push_back(fmt::format("{:.3g} = {:.3g} + {:.3g} + {:.3g}", states.total() / 1e9,
                                states.parameters / 1e9, states.gradients / 1e9,
                                states.optimizer / 1e9));
    }
    table.add(row);
  };
  add("float32 throughout (4 + 4 + 8 B)", StateWidths{});
  add("16-bit, float32 Adam (2 + 2 + 8 B)", {2, 2, 8});
  add("16-bit, master weights too (2 + 2 + 12 B)", kMixedFp16);
  return fmt::format(
             "\n{} parameters on {} data-parallel rank{}: parameters + gradients + states\n",
             count_text(parameters), ranks, ranks == 1 ? "" : "s") +
         table.text();
}

/// What the formulas of Korthikanti et al. 2022 say of a GPT of these sizes, for all their
/// variants, whichever the scenario uses.
std::string activations_text(const Scenario& scenario) {
  const ModelSpec& model = scenario.model;
  if (model.architecture != Architecture::Gpt2 || model.ffn_hidden != 4 * model.hidden ||
      model.experts > 0) {
    return {};
  }
  const StrategySpec& strategy = scenario.strategy;
  const double t = strategy.tensor_parallel_degree, p = strategy.pipeline_parallel_degree;
  const ActivationShape shape{double(scenario.microbatch_size()), double(scenario.training.seq_len),
                              double(model.hidden), double(model.heads), t};
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const auto gib = [&](ActivationSavings savings) {
    return first_stage_activation_bytes(shape, savings, double(model.layers), p,
                                        strategy.pipeline_parallel_virtual_stages) /
           kGiB;
  };
  TextTable table({"  16-bit values, first stage, by formula", "GiB", "of the activations"});
  table.add({"  states of the blocks, 18 B x 12 h^2 L / (t p)",
             fmt::format("{:.4f}",
                         gpt_state_bytes(double(model.hidden), double(model.layers), t, p) / kGiB),
             ""});
  const auto add = [&](const char* name, ActivationSavings savings) {
    table.add({name, fmt::format("{:.4f}", gib(savings)),
               fmt::format("{:.2f} %", 100 * gib(savings) / gib(ActivationSavings::None))});
  };
  add("  activations, scores stored", ActivationSavings::None);
  add("  and sequence parallel", ActivationSavings::SequenceParallel);
  add("  attention recomputed", ActivationSavings::Selective);
  add("  both", ActivationSavings::SequenceSelective);
  add("  all recomputed", ActivationSavings::Full);
  return "\n" + table.text();
}

}  // namespace

std::string memory_text(const Scenario& scenario, const Program& program,
                        std::optional<Rank> rank) {
  if (rank) return role_memory(program, program.role_of(*rank));
  std::string text;
  for (const Role& role : program.roles) {
    text += (text.empty() ? "" : "\n") + role_memory(program, role);
  }
  return text + model_states_text(program, scenario.strategy.gradient_ranks()) +
         activations_text(scenario);
}

}  // namespace lockstep
