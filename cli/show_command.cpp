// lockstep show: what a scenario means, without running it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "cli/commands.hpp"
#include "core/base/nearest.hpp"
#include "core/format/format.hpp"
#include "core/ir/text.hpp"
#include "core/lower/lower.hpp"
#include "core/lower/schedule_comms.hpp"
#include "core/model/model.hpp"
#include "core/plan/memory_formulas.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kLargestBuffers = 10;

Error invalid(const std::string& message) {
  return Error{ErrorKind::InvalidSpec, message, std::nullopt};
}

std::string suggestion(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  if (!near.empty()) return "; did you mean '" + near + "'?";
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
  return ": there are " + all;
}

/// The stage-by-stage order of a pipeline rank in torch.distributed.pipelining's notation: 0F0 0B0.
/// Layers of one action follow each other on the compute stream.
std::string actions_of(const Role& role) {
  std::string text;
  std::tuple<Phase, int, int> last{Phase::None, -1, -1};
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::Call || op.stream != Stream::Compute || op.microbatch < 0) continue;
    if (op.phase == Phase::O || op.phase == Phase::R || op.phase == Phase::None) continue;
    const std::tuple<Phase, int, int> action{op.phase, op.stage, op.microbatch};
    if (action == last) continue;
    last = action;
    text += fmt::format(" {}{}{}", op.stage, to_string(op.phase), op.microbatch);
  }
  return text;
}

std::string schedule_text(const Program& program, std::optional<Rank> rank) {
  const int pp = program.mesh.index_of("pp");
  std::string text;
  int next = 0;  // ranks of one pipeline coordinate share the order
  for (Rank r = 0; r < program.mesh.world_size(); ++r) {
    const int coordinate = pp < 0 ? 0 : program.mesh.coordinate(r, pp);
    if (rank ? r != *rank : coordinate != next) continue;
    text += fmt::format("pp{}:{}\n", coordinate, actions_of(program.role_of(r)));
    ++next;
  }
  return text;
}

std::string buffer_label(const Program& program, const Buffer& b) {
  std::string text(to_string(b.kind));
  if (b.name >= 0) text += " " + program.names[static_cast<std::size_t>(b.name)];
  if (b.layer >= 0) text += fmt::format(" layer {}", b.layer);
  if (b.microbatch >= 0) text += fmt::format(" microbatch {}", b.microbatch);
  return text;
}

/// Buffers that are alive while op `at` runs; persistent ones always are.
bool alive(const Buffer& b, std::int32_t at) {
  return b.persistent() || (b.first.v <= at && at <= b.last.v);
}

/// The op, in list order, at which most bytes are alive in one of the memories.
std::int32_t fullest_op(const Role& role, bool on_host) {
  std::vector<std::int64_t> change(role.ops.size() + 1, 0);
  for (const Buffer& b : role.buffers) {
    if (b.parent.valid() || b.persistent() || b.on_host != on_host) continue;
    change[static_cast<std::size_t>(b.first.v)] += b.bytes.v;
    change[static_cast<std::size_t>(b.last.v) + 1] -= b.bytes.v;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return static_cast<std::int32_t>(std::max_element(change.begin(), change.end()) - change.begin());
}

std::string role_memory(const Program& program, const Role& role, bool on_host) {
  const std::int32_t at = fullest_op(role, on_host);
  const Bytes arena = on_host ? role.host_arena : role.arena;
  std::array<std::int64_t, kNumBufferKinds> by_kind{};
  std::vector<const Buffer*> live;
  std::int64_t total = 0;
  for (const Buffer& b : role.buffers) {
    if (b.parent.valid() || b.on_host != on_host || !alive(b, at)) continue;
    by_kind[static_cast<std::size_t>(b.kind)] += b.bytes.v;
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
  for (int k = 0; k < kNumBufferKinds; ++k) {
    const std::int64_t bytes = by_kind[static_cast<std::size_t>(k)];
    if (bytes == 0) continue;
    kinds.add({"  " + std::string(to_string(static_cast<BufferKind>(k))), bytes_text({bytes}),
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

/// What the ZeRO paper's formula says of this model's states, to stand beside the plan: per rank,
/// without pipeline or tensor parallelism, GB of 10^9 bytes.
std::string model_states_text(const Program& program, int ranks) {
  std::set<std::int32_t> trained;  // with optimizer state: not running statistics
  for (const Role& role : program.roles) {
    for (const Unit& unit : role.units) {
      if (!unit.adam_m.valid()) continue;
      for (const UnitParameter& p : unit.parameters) trained.insert(p.parameter.v);
    }
  }
  double parameters = 0;
  for (const std::int32_t p : trained) {
    parameters += double(program.parameters[static_cast<std::size_t>(p)].elements());
  }
  if (parameters == 0) return {};
  TextTable table({"  GB per rank by formula", "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"});
  const auto add = [&](const std::string& name, const StateWidths& widths) {
    std::vector<std::string> row = {"  " + name};
    for (int stage = 0; stage <= 3; ++stage) {
      row.push_back(
          fmt::format("{:.3g}", model_states(parameters, stage, ranks, widths).total() / 1e9));
    }
    table.add(row);
  };
  add("float32 throughout (4 + 4 + 8 B)", StateWidths{});
  add("16-bit, float32 Adam (2 + 2 + 8 B)", {2, 2, 8});
  add("16-bit, master weights too (2 + 2 + 12 B)", kMixedFp16);
  return fmt::format("\n{} parameters on {} data-parallel rank{}\n", count_text(parameters), ranks,
                     ranks == 1 ? "" : "s") +
         table.text();
}

std::string memory_text(const Scenario& scenario, const Program& program,
                        std::optional<Rank> rank) {
  if (rank) return role_memory(program, program.role_of(*rank));
  std::string text;
  for (const Role& role : program.roles) {
    text += (text.empty() ? "" : "\n") + role_memory(program, role);
  }
  return text + model_states_text(program, scenario.strategy.data_parallel_degree());
}

double elements_of(const Model& model, int unit) {
  double elements = 0;
  for (const Parameter& p : model.units[static_cast<std::size_t>(unit)].parameters) {
    elements += static_cast<double>(p.elements());
  }
  return elements;
}

std::string model_text(const Scenario& scenario, const Program& program) {
  const ModelSpec& spec = scenario.model;
  if (spec.architecture == Architecture::Synthetic) {
    return fmt::format("{}: {} virtual stages of given times, no parameters\n", spec.name,
                       scenario.strategy.num_stages());
  }
  LayerShape shape;  // one sequence, or image
  shape.seq = scenario.training.seq_len;
  shape.dtype = scenario.training.param_dtype();
  const Model model = build_layers(spec, shape);
  const double forward = model.forward_flops().v / static_cast<double>(shape.seq);
  std::string text =
      spec.is_vision()
          ? fmt::format("{}: {} {} blocks, width {}, images of {} x {} x 3, {} classes\n",
                        spec.name, spec.layers, spec.bottleneck ? "bottleneck" : "basic",
                        spec.width, spec.image_size, spec.image_size, spec.classes)
          : fmt::format(
                "{}: {} layers, hidden {}, {} heads ({} key/value) of {}, feed-forward {}, "
                "vocabulary {}\n",
                spec.name, spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.head_dim,
                spec.ffn_hidden, spec.vocab);
  text += fmt::format("{} parameters{}\n", count_text(double(model.parameter_count())),
                      spec.tied_embeddings ? "; the output layer shares the embedding" : "");
  text += fmt::format(
      "{} forward, {} forward and backward per {}\n\n", flops_text({forward}),
      flops_text({3 * forward}),
      spec.is_vision() ? "image" : fmt::format("token at {} tokens per sequence", shape.seq));
  TextTable layers(
      {"layer", "parameters", spec.is_vision() ? "forward per image" : "forward per token"});
  std::set<int> counted;  // a shared embedding belongs to the first layer that uses it
  for (const Layer& layer : model.layers) {
    double elements = 0;
    for (const LayerUnit& used : layer.units) {
      if (counted.insert(used.unit).second) elements += elements_of(model, used.unit);
    }
    layers.add({layer.name, count_text(elements),
                flops_text({layer.forward_flops.v / static_cast<double>(shape.seq)})});
  }
  TextTable parameters({"parameter", "shape", "elements"}, 2);
  for (const Parameter& p : program.parameters) {
    std::string dims;
    for (const std::int64_t d : p.shape) dims += (dims.empty() ? "" : " x ") + std::to_string(d);
    parameters.add({p.name, dims, count_text(double(p.elements()))});
  }
  return text + layers.text() + "\n" + parameters.text();
}

/// What to print, or why it cannot be.
Result<std::string> show(const ShowArguments& arguments, const Scenario& scenario) {
  if (arguments.csv) {
    const Schedule schedule = lower_schedule(scenario);
    if (!arguments.communication) return print_schedule_csv(schedule);
    return print_communication_csv(schedule, scenario.strategy.fsdp_max_active_stages);
  }
  if (!arguments.after.empty()) {
    const auto& passes = pass_names();
    if (std::find(passes.begin(), passes.end(), arguments.after) == passes.end()) {
      return invalid("--after '" + arguments.after + "' is no pass" +
                     suggestion(arguments.after, passes));
    }
  }
  std::string dump;
  PassObserver observer;
  if (!arguments.after.empty()) {
    observer = [&](std::string_view pass, const std::function<std::string()>& print_state) {
      if (pass == arguments.after) dump = print_state();
    };
  }
  const Result<Program> program = lower(scenario, observer);
  if (!dump.empty()) return dump;  // also of a program that does not fit or verify in the end
  if (!program) return program.error();
  std::optional<Rank> rank;
  if (arguments.rank) {
    const int world = program->mesh.world_size();
    if (*arguments.rank < 0 || *arguments.rank >= world) {
      return invalid(fmt::format("--rank {}: ranks are 0 to {}", *arguments.rank, world - 1));
    }
    rank = *arguments.rank;
  }
  if (arguments.what == "schedule") return schedule_text(*program, rank);
  if (arguments.what == "memory") return memory_text(scenario, *program, rank);
  if (arguments.what == "model") return model_text(scenario, *program);
  if (rank) return print_role(*program, program->role_of_rank[static_cast<std::size_t>(*rank)]);
  return print(*program);
}

}  // namespace

int show_command(const ShowArguments& arguments, const Console& console) {
  static const std::vector<std::string> subjects = {"program", "schedule", "memory", "model"};
  if (std::find(subjects.begin(), subjects.end(), arguments.what) == subjects.end()) {
    return report_error(console, invalid("show '" + arguments.what + "' is not known" +
                                         suggestion(arguments.what, subjects)));
  }
  if (!arguments.after.empty() && arguments.what != "program") {
    return report_error(console, invalid("--after goes with show program only"));
  }
  if (arguments.communication && !arguments.csv) {
    return report_error(console, invalid("--communication goes with --csv only"));
  }
  if (arguments.csv && (arguments.what != "schedule" || arguments.rank)) {
    return report_error(console, invalid("--csv goes with show schedule, of all ranks"));
  }
  const LoadedScenario loaded = load_scenario(arguments.scenario, arguments.set);
  if (!loaded.ok()) return report_errors(console, loaded.errors);
  report_warnings(console, loaded.warnings);
  for (const SweepPoint& point : loaded.points) {
    if (loaded.points.size() > 1) console.out << "# " << point.label << "\n";
    const Result<std::string> text = show(arguments, point.scenario);
    if (!text) return report_error(console, text.error());
    console.out << *text;
  }
  return 0;
}

}  // namespace lockstep
