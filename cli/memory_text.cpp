#include "cli/memory_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/memory/device_memory.hpp"
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

/// Buffers of one kind as a sum: "24 x saved 33.6 MB + 24 x x 4.2 MB + 3 more".
std::string sum_of(const Program& program, const std::vector<const Buffer*>& live,
                   BufferKind kind) {
  std::map<std::pair<std::int64_t, std::int32_t>, int> alike;  // number of buffers by size and name
  for (const Buffer* b : live) {
    if (b->kind == kind) ++alike[{-b->bytes.v, b->name}];
  }
  constexpr std::size_t kShown = 3;
  std::string text;
  std::size_t shown = 0;
  for (const auto& [buffer, count] : alike) {
    if (shown++ == kShown) break;
    if (!text.empty()) text += " + ";
    if (count > 1) text += fmt::format("{} x ", count);
    if (buffer.second >= 0) text += program.names[buffer.second] + " ";
    text += bytes_text({-buffer.first});
  }
  if (alike.size() > kShown) text += fmt::format(" + {} more", alike.size() - kShown);
  return text;
}

std::string role_memory(const Program& program, const Role& role, Tier tier, const Screen& screen) {
  const OpId at = fullest_op(role, tier);
  const Bytes arena = role.arena_of(tier);
  static constexpr IndexArray<Tier, const char*, kNumTiers> kNames{"arena", "host memory", "drive"};
  IndexArray<BufferKind, std::int64_t, kNumBufferKinds> by_kind{};
  std::vector<const Buffer*> live;
  std::int64_t total = 0;
  for (const Buffer& b : role.buffers) {
    if (b.is_view() || b.tier != tier || !is_alive(b, at)) continue;
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
  std::string text =
      wrapped(fmt::format("rank{}{}: {} {} ({} B)\n", role.ranks.size() == 1 ? "" : "s", ranks,
                          kNames[tier], bytes_text(arena), count_text(double(arena.v))),
              screen, 2);
  if (role.ops.empty()) return text;
  text += wrapped(fmt::format("most is alive at %{} ({}): {}\n\n", at.v,
                              describe(program, role, at), bytes_text({total})),
                  screen, 2);
  TextTable kinds({"  kind", "sum of", "size", {"share", 1}}, 2);
  for (const BufferKind kind : by_kind.ids()) {
    const std::int64_t bytes = by_kind[kind];
    if (bytes == 0) continue;
    kinds.add({"  " + std::string(to_string(kind)), sum_of(program, live, kind),
               bytes_text({bytes}), percent_text(double(bytes) / double(total))});
  }
  kinds.add(
      {"  gaps between buffers", "arena - what is alive", bytes_text(arena - Bytes{total}), ""});
  std::stable_sort(live.begin(), live.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  TextTable largest({"  largest buffers", "size", "alive"});
  for (std::size_t i = 0; i < std::min(live.size(), kLargestBuffers); ++i) {
    const Buffer& b = *live[i];
    largest.add({"  " + buffer_label(program, b), bytes_text(b.bytes),
                 b.persistent() ? "always" : fmt::format("%{}..%{}", b.first().v, b.last().v)});
  }
  return text + kinds.text(screen) + "\n" + largest.text(screen);
}

/// What the process keeps beside the arena, and the sums that are measured.
std::string terms_text(const DeviceMemory& memory, Bytes capacity, const Screen& screen) {
  if (memory.terms.empty()) return {};
  TextTable table({"  beside the arena", "formula", "size"}, 2);
  for (const MemoryTerm& term : memory.terms) {
    const Bytes size{std::abs(term.bytes.v)};
    table.add({"  " + term.name, term.formula, (term.bytes.v < 0 ? "-" : "") + bytes_text(size)});
  }
  const MemoryFigures sums = memory.figures();
  table.add({"  max allocated", "arena + tensors", bytes_text(sums.allocated)});
  table.add({"  nvidia-smi", "arena + all terms", bytes_text(sums.process)});
  table.add({"  minimum needed", "without cached blocks", bytes_text(sums.needed)});
  if (capacity.v > 0) table.add({"  the device has", "", bytes_text(capacity)});
  return "\n" + table.text(screen);
}

std::string role_memory(const Program& program, const Role& role, const ClusterSpec& cluster,
                        const Screen& screen) {
  std::string text = role_memory(program, role, Tier::Device, screen) +
                     terms_text(device_memory(program, role, cluster),
                                memory_per_rank(cluster, program.mesh.world_size()), screen);
  for (const Tier tier : {Tier::Host, Tier::Drive}) {
    if (role.arena_of(tier).v > 0) text += "\n" + role_memory(program, role, tier, screen);
  }
  return text;
}

/// What the ZeRO paper's formula says of this model's states, for comparison with the plan: per
/// rank, without pipeline or tensor parallelism, in GB of 10^9 bytes.
std::string model_states_text(const Program& program, int ranks, const Screen& screen) {
  std::set<std::int32_t> trained;  // parameters with optimizer state; running statistics have none
  bool frozen = false;
  for (const Role& role : program.roles) {
    for (const Unit& unit : role.units) {
      frozen = frozen || unit.frozen;
      if (!unit.trained()) continue;
      for (const UnitParameter& p : unit.parameters) trained.insert(p.parameter.v);
    }
  }
  double parameters = 0;
  for (const std::int32_t p : trained) {
    parameters += double(program.parameters[p].elements());
  }
  if (parameters == 0) return {};
  TextTable table({"  GB per rank by formula", "total", "parameters", "gradients", "states"});
  const auto add = [&](const std::string& name, const StateWidths& widths) {
    static constexpr const char* kStages[] = {"DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"};
    const auto gb = [](double bytes) { return fmt::format("{:.3g}", bytes / 1e9); };
    for (int stage = 0; stage <= 3; ++stage) {
      const StateBytes states = model_states(parameters, stage, ranks, widths);
      table.add({"  " + name + ", " + kStages[stage], gb(states.total()), gb(states.parameters),
                 gb(states.gradients), gb(states.optimizer)});
    }
  };
  add("float32 (4 + 4 + 8 B)", StateWidths{});
  add("16-bit, float32 Adam (2 + 2 + 8 B)", {2, 2, 8});
  add("with master weights (2 + 2 + 12 B)", kMixedFp16);
  return wrapped(
             fmt::format("\n{} {}parameters on {} data-parallel rank{}: parameters + gradients + "
                         "states\n",
                         count_text(parameters), frozen ? "trained " : "", ranks,
                         ranks == 1 ? "" : "s"),
             screen) +
         table.text(screen);
}

/// What the formulas of Korthikanti et al. 2022 say of a GPT of these sizes, for all their
/// variants, whichever the scenario uses.
std::string activations_text(const Scenario& scenario, const Screen& screen) {
  const ModelSpec& model = scenario.model;
  if (model.architecture != Architecture::Gpt2 || model.ffn_hidden != 4 * model.hidden ||
      model.experts > 0 || model.norm_place != NormPlace::Before || model.is_gated() ||
      model.parallel_branches) {
    return {};
  }
  const StrategySpec& strategy = scenario.strategy;
  const double t = strategy.tensor_parallel_degree, p = strategy.pipeline_parallel_degree;
  const ActivationShape shape{double(scenario.microbatch_size()), double(scenario.training.seq_len),
                              double(model.hidden), double(model.heads), t};
  const auto gb = [&](ActivationSavings savings) {
    return first_stage_activation_bytes(shape, savings, double(model.layers), p,
                                        strategy.pipeline_parallel_virtual_stages) /
           1e9;
  };
  TextTable table({"  16-bit values, first stage, by formula", "GB", "of the activations"});
  table.add({"  states of the blocks, 18 B x 12 h^2 L / (t p)",
             fmt::format("{:.4f}",
                         gpt_state_bytes(double(model.hidden), double(model.layers), t, p) / 1e9),
             ""});
  const auto add = [&](const char* name, ActivationSavings savings) {
    table.add({name, fmt::format("{:.4f}", gb(savings)),
               fmt::format("{:.2f} %", 100 * gb(savings) / gb(ActivationSavings::None))});
  };
  add("  activations, scores stored", ActivationSavings::None);
  add("  and sequence parallel", ActivationSavings::SequenceParallel);
  add("  attention recomputed", ActivationSavings::Selective);
  add("  both", ActivationSavings::SequenceSelective);
  add("  all recomputed", ActivationSavings::Full);
  return "\n" + table.text(screen);
}

}  // namespace

std::string memory_text(const Scenario& scenario, const Program& program, std::optional<Rank> rank,
                        const Screen& screen) {
  if (rank) return role_memory(program, program.role_of(*rank), scenario.cluster, screen);
  std::string text;
  for (const Role& role : program.roles) {
    text += (text.empty() ? "" : "\n") + role_memory(program, role, scenario.cluster, screen);
  }
  return text + model_states_text(program, scenario.strategy.gradient_ranks(), screen) +
         activations_text(scenario, screen);
}

}  // namespace lockstep
